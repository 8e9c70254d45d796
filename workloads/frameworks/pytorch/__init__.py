"""PyTorch: the process group, the generic trainer, and shared optimizers and layers.

PyTorch trainer files import this package.
"""
