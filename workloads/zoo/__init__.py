"""Image classifiers of 0.03 to 20 billion multiply-adds an image: what studies of throughput and batch size compare."""
