"""TensorFlow: the strategy, the generic trainer, and the optimizers and layers that several
workloads share.

TensorFlow trainer files import this package.
"""
