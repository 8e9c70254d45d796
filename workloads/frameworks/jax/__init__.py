"""JAX: the device mesh, the generic trainer, and the optimizers and layers that several workloads
share.

JAX trainer files import this package.
"""
