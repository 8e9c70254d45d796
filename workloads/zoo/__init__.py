"""Image classifiers of 0.03 to 20 billion multiply-adds per image.

They are for studies of throughput and batch size.
"""
