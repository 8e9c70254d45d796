"""Runs in TensorFlow's environment: ResNet's trainer with gradients in pieces."""

import dataclasses

import numpy as np

from testing import synthetic_resnet
from tests.probes.image_trainers import place_here
from workloads.api import Batch
from workloads.resnet50.tensorflow import ResNetTrainer
from workloads.resnet50.workload import ResNet50


class InPieces(ResNet50):
    """A workload whose gradients are accumulated over two pieces."""

    def optimizer(self):
        return dataclasses.replace(super().optimizer(), accumulation_steps=2)


def passes(kind, *cuts):
    """Return the stem's gradients summed over backward passes, and the running statistics.

    The passes process the parts `cuts` of a batch of the `uneven` case. The statistics are flat.
    """
    workload = synthetic_resnet.workload("uneven", "tensorflow")
    trainer = ResNetTrainer(kind(workload.settings, workload.dataset_info), place_here())
    trainer.setup(synthetic_resnet.weights(workload).items(), warmup=False)
    batch, gradients = synthetic_resnet.batch(workload, 0), []
    for cut in cuts:
        part = Batch({name: array[cut] for name, array in batch.arrays.items()}, 3.0, 6.0, 6)
        gradients.append(trainer.backward(part)["conv1.weight"].numpy())
    state = trainer.state_dict()
    return sum(gradients), np.concatenate(
        [state[name].reshape(-1) for name in trainer.model.statistics]
    )


def in_pieces():
    """Return `gradient/…` and `statistics/…` of two ways to process a batch.

    `pieces` is a single pass in two pieces of three images, `halves` is two passes over the halves.
    """
    found = {
        "pieces": passes(InPieces, slice(6)),
        "halves": passes(ResNet50, slice(3), slice(3, 6)),
    }
    return {
        f"{what}/{name}": value
        for name, values in found.items()
        for what, value in zip(("gradient", "statistics"), values, strict=True)
    }
