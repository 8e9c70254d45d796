"""MXNet: contexts, the generic trainer, and the optimizers and layers that several workloads share.

MXNet trainer files import this package.
"""
