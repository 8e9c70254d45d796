"""Run inside TensorFlow's environment: ResNet's trainer with gradients in pieces, and on images of two sizes."""

import dataclasses

import numpy as np

from tests.workloads.resnet50 import synthetic_resnet
from workloads.api import ArraySpec, Batch, Place
from workloads.resnet50.tensorflow import ResNetTrainer
from workloads.resnet50.workload import ResNet50

SIZES = ((57, 57), (40, 64))


class InPieces(ResNet50):
    """Gradients are accumulated."""

    pieces = 1

    def optimizer(self):
        return dataclasses.replace(super().optimizer(), accumulation_steps=self.pieces)


class TwoSizes(ResNet50):
    """Images come in two sizes."""

    image_sizes = SIZES


def trainer_of(kind, pieces=1):
    """A trainer of the `uneven` case that is set up."""
    made = synthetic_resnet.workload("uneven", "tensorflow")
    workload = kind(made.settings, made.facts)
    workload.pieces = pieces
    trainer = ResNetTrainer(workload, Place(0, 1, range(1), 1, ("cpu",)))
    trainer.setup(synthetic_resnet.weights(workload).items(), warm_up=False)
    return trainer


def statistics(trainer):
    """All running statistics, flat."""
    state = trainer.state()
    return np.concatenate([state[name].reshape(-1) for name in trainer.model.statistics])


def half(batch, first):
    """Three of the six images."""
    arrays = {name: array[first : first + 3] for name, array in batch.arrays.items()}
    return Batch(arrays, 3.0, 6.0, 6)


def in_pieces():
    """`statistics/…`: running statistics, flat, after a pass in two pieces of three images (`pieces`), and after passes over
    both halves, one after the other (`halves`). `gradient/…`: the stem's, likewise.
    """
    trainer = trainer_of(InPieces, pieces=2)
    batch = synthetic_resnet.batch(trainer.workload, 0)
    found = {
        "gradient/pieces": trainer.backward(batch)["conv1.weight"].numpy(),
        "statistics/pieces": statistics(trainer),
    }
    trainer = trainer_of(ResNet50)
    gradients = [trainer.backward(half(batch, first))["conv1.weight"].numpy() for first in (0, 3)]
    return {**found, "gradient/halves": sum(gradients), "statistics/halves": statistics(trainer)}


def of_two_sizes():
    """`losses` of steps on images of both sizes in turn, `traces` of the step."""
    trainer = trainer_of(TwoSizes)
    batches = []
    for height, width in SIZES:
        spec = ArraySpec((6, height, width, 3), "uint8")
        batch = trainer.workload.dummy_batch({"image": spec, "label": ArraySpec((6,), "int32")})
        image = np.random.default_rng(height).integers(0, 256, spec.shape, np.uint8)
        batches.append(dataclasses.replace(batch, arrays={**batch.arrays, "image": image}))
    losses = [trainer.train([[batches[number % 2]]], number).loss for number in range(4)]
    return {"losses": losses, "traces": trainer.traces}
