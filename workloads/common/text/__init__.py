"""Translation without a framework: data sets of sentence pairs, vocabularies, batches, beam search and BLEU.

What recurrent and attention models share; a workload adds its schedule and sets, a trainer its network and a `beam.Decoder`.
"""
