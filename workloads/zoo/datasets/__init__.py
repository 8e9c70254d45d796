"""Data sets of small images: CIFAR-10, a generated one, Fashion-MNIST."""
