"""Framework-independent code of the translation workloads.

The package contains data sets, vocabularies, batches, beam search, and BLEU. GNMT and Transformer
share this code. A workload adds a learning-rate schedule and hyperparameter sets. A trainer adds a
network and a `beam.Decoder`.
"""
