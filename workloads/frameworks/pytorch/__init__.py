"""PyTorch: the process group and the generic trainer.

It also has the optimizers and layers that several workloads share.

PyTorch trainer files import this package.
"""
