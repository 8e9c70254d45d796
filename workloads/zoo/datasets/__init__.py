"""Data sets of small images: CIFAR-10, a generated data set, and Fashion-MNIST."""
