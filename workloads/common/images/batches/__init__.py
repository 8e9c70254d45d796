"""Construction of image batches: prefetching threads, crops and flips, and labeled images.

The order of the images and their distribution over replicas come from
`workloads.common.images.sharded`.
"""
