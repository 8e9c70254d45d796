"""MXNet: contexts, the generic trainer, and shared optimizers and layers.

MXNet trainer files import this package.
"""
