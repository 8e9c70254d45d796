"""PyTorch: the process group, the generic trainer, and the optimizers and layers that several
workloads share.

PyTorch trainer files import this package.
"""
