"""JAX: the device mesh and the generic trainer.

It also has the optimizers and layers that several workloads share.

JAX trainer files import this package.
"""
