"""Framework-independent code of the translation workloads.

The package contains data sets, vocabularies, batches, beam search, and BLEU. GNMT and Transformer
share this code. Each workload adds a learning-rate schedule and hyperparameter sets. Each trainer
adds a network and a `beam.Decoder`.
"""
