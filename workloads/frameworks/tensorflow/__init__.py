"""TensorFlow: the strategy, the generic trainer, and shared optimizers and layers.

TensorFlow trainer files import this package.
"""
