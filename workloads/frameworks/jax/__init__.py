"""JAX: the mesh of devices, the generic trainer, optimizers and layers that several workloads use. For JAX trainer files."""
