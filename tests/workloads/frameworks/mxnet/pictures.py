"""Images of two sizes without data, and running statistics of a batch norm in float64."""

import numpy as np

from tests.workloads.frameworks.synthetic import Synthetic
from workloads.api import ArraySpec, Batch, OptimizerSettings

SIZES, IMAGES = ((16, 12), (6, 8)), 4
CHANNELS = 3
MOMENTUM = 0.9
SHAPES = {"conv.weight": (CHANNELS, 3, 1, 1), "norm.weight": (CHANNELS,), "norm.bias": (CHANNELS,)}


class Pictures(Synthetic):
    """Workload with a learning rate of 0, in which only running statistics change."""

    steps_of_run = 6

    def __init__(self, devices, accumulation):
        super().__init__(
            OptimizerSettings("sgd", momentum=0.9, accumulation_steps=accumulation),
            devices,
            IMAGES,
            "auto",
        )

    def learning_rate(self, step):
        return 0.0

    def shapes(self):
        return [{"image": ArraySpec((IMAGES, *size, 3), "uint8")} for size in SIZES]

    def evaluation_shapes(self):
        return self.shapes()

    def initial_weights(self, seed):
        generator = np.random.default_rng(seed)
        for name, shape in SHAPES.items():
            yield name, generator.normal(0, 1, shape).astype(np.float32)

    def batch(self, step, replica=0):
        """Return images whose size alternates by step and by replica."""
        generator = np.random.default_rng([step, replica])
        shape = (IMAGES, *SIZES[(step + replica) % 2], 3)
        image = np.clip(
            generator.normal(60 + 40 * ((step + replica) % 2), 20, shape), 0, 255
        ).astype(np.uint8)
        return Batch(
            {"image": image},
            IMAGES,
            float(IMAGES * self.settings.devices),
            IMAGES * self.settings.devices,
        )


def moved(weight, statistics, batch, pieces):
    """Return running mean and unbiased running variance of a replica after a batch, in float64."""
    for image in np.split(batch.arrays["image"], pieces):
        values = (image / 64 - 1.0).reshape(-1, 3) @ weight.reshape(CHANNELS, 3).T
        found = values.mean(0), values.var(0, ddof=1)
        statistics = [
            MOMENTUM * old + (1 - MOMENTUM) * new
            for old, new in zip(statistics, found, strict=True)
        ]
    return statistics
