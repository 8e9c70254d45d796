"""MXNet: contexts, the generic trainer, optimizers and layers that several workloads use. For MXNet trainer files."""
