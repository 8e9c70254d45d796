"""JAX: the device mesh, the generic trainer, and shared optimizers and layers.

JAX trainer files import this package.
"""
