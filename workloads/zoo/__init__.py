"""Image classifiers with 0.03 to 20 billion multiply-adds per image.

The classifiers are for studies of throughput and batch size.
"""
