"""Construction of image batches: prefetching threads, crops, flips, and labels.

`workloads.common.images.sharded` defines the order of the images and their distribution over
replicas.
"""
