"""Benchmark of all-reduces of many sizes: the bandwidth available to the sum of gradients.

No model is trained.
"""
