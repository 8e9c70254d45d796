"""Benchmark of all-reduces with various message sizes.

The bandwidth of these all-reduces limits the sum of gradients. No model is trained.
"""
