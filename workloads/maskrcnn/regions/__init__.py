"""Region selection between the two stages: proposals, sampled regions, and detections.

PyTorch on CPUs, TensorFlow, and MXNet call these functions with the framework's non-maximum
suppression, so all three frameworks select the same regions. PyTorch on GPUs (pytorch.py) and JAX
(jax.py) make the same selection on the device.
"""
