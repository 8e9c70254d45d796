"""TensorFlow: the strategy, the generic trainer, optimizers and layers that several workloads use.

For TensorFlow trainer files.
"""
