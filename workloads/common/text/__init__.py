"""Framework-independent translation code: data sets, vocabularies, batches, beam search, BLEU.

Recurrent and attention models share this code. A workload adds its schedule and its hyperparameter
sets. A trainer adds its network and a `beam.Decoder`.
"""
