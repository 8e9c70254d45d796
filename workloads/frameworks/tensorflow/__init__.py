"""TensorFlow: the strategy and the generic trainer.

It also has the optimizers and layers that several workloads share.

TensorFlow trainer files import this package.
"""
