"""PyTorch: the process group, the generic trainer, optimizers and layers that several workloads use.

For PyTorch trainer files.
"""
