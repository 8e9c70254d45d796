"""Benchmark of all-reduces with several message sizes.

No model is trained. The measured bandwidth limits how fast a training run can sum gradients over
devices.
"""
