"""Image classifiers with 0.03 to 20 billion multiply-adds per image.

The classifiers are used to measure throughput and the effect of the batch size.
"""
