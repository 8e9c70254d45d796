"""How batches of images come about: threads that make them ahead, crops and flips, images with one label each.

Orders and shares are those of `workloads.common.images.sharded`.
"""
