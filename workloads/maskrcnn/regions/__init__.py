"""Region selection between the two stages: proposals, sampled regions, and detections.

PyTorch on CPUs, TensorFlow, and MXNet call these functions with their own non-maximum suppression,
so they compute on the same regions. PyTorch on GPUs (pytorch.py) and JAX (jax.py) compute the same
on the device.
"""
