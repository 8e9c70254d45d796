"""Small synthetic SSD test cases, identical in every framework's environment."""

import dataclasses

import numpy as np

from suite.catalog.sets import named_sets
from testing import synthetic
from workloads.api import Batch, DatasetInfo
from workloads.common.randomness import bits, integers, normal, stream
from workloads.ssd import network
from workloads.ssd.priors import shapes_per_cell
from workloads.ssd.settings import DEMO_MODEL, REFERENCE_MODEL
from workloads.ssd.workload import SSD

CASES = {
    "full": {"model": REFERENCE_MODEL, "classes": 80, "batch": 2},
    "steps": {
        "model": {**DEMO_MODEL, "widths": REFERENCE_MODEL["widths"]},
        "classes": 10,
        "batch": 6,
    },
    "uneven": {
        "model": {**DEMO_MODEL, "image_size": 100, "map_sizes": [13, 7, 4, 2]},
        "classes": 7,
        "batch": 4,
    },
}
"""Model, classes, and images per step of each test case.

The case `uneven` has feature maps of odd sizes, which reveal errors in padding.
"""
RATE, DECAY = 5e-4, 0.05
"""Learning rate and weight decay.

The learning rate is so small that rounding errors grow slowly. The weight decay is so large that a
test fails if weight decay is not applied.
"""
HEADS = 0.2
"""Factor by which the heads' initial weights are multiplied. With this factor, the outputs are as
small as those of a trained network.
"""
POSITIVES = 12
"""Approximate number of positive priors per image.

Each feature map has a positive prior. Every fifth image has no positive priors.
"""


def workload(
    case: str, framework: str, devices: int = 1, compile: str = "", **changes: object
) -> SSD:
    """Return the workload of a test case, with a constant learning rate and no warm-up."""
    chosen = CASES[case]
    changed = {"learning_rate": RATE, "weight_decay": DECAY, "warmup_steps": 0}
    values = synthetic.hyperparameters(named_sets(SSD)["reference"], **changed)
    settings = synthetic.settings(
        "ssd", framework=framework, devices=devices, global_batch_size=chosen["batch"],
        dataset="coco-demo", model=chosen["model"], targets={"map": 0.23},
        hyperparameter_set="reference", hyperparameters=values,
        options={
            "evaluation_batch_size": chosen["batch"],
            "compile": synthetic.compiled(framework, compile),
        },
    )  # fmt: skip
    dataset_info = DatasetInfo(
        synthetic.IMAGES, synthetic.IMAGES, {"classes": chosen["classes"]}, "synthetic"
    )
    return SSD(dataclasses.replace(settings, **changes), dataset_info)


def weights(workload: SSD) -> dict[str, np.ndarray]:
    """Return initial weights with smaller heads and noise in batch-norm scales and shifts."""
    drawn, heads = workload.initial_weights(7), ("box", "class")
    return synthetic.shaken(
        (name, HEADS * value if name.startswith(heads) else value) for name, value in drawn
    )


def statistics(workload: SSD) -> dict[str, np.ndarray]:
    """Return running statistics that resemble those of a trained network.

    The means are around 0, and the variances are around 1.
    """
    return synthetic.statistics(network.statistics(workload.network))


def batch(workload: SSD, step: int, replica: int = 0) -> Batch:
    """Return a replica's batch of smooth random images (B, S, S, 3) and synthetic targets."""
    settings, count = workload.settings, workload.images_per_replica
    numbers = synthetic.numbers_of(settings, step, replica, count)
    offset, label = targets(numbers, workload)
    arrays = {
        "image": synthetic.pictures(numbers, int(settings.model["image_size"])),
        "offset": offset,
        "label": label,
    }
    arrays |= {"number": numbers, "valid": np.ones(count, bool)}
    arrays |= {"width": np.full(count, 640, np.int32), "height": np.full(count, 480, np.int32)}
    return Batch(
        arrays, float(count), float(settings.global_batch_size), settings.global_batch_size
    )


def targets(numbers: np.ndarray, workload: SSD) -> tuple[np.ndarray, np.ndarray]:
    """Return the target offsets (B, 4, P) and target labels (B, P) of the priors."""
    priors, classes, model = len(workload.priors), workload.network.classes, workload.settings.model
    places = np.arange(priors)
    cells = zip(model["map_sizes"], shapes_per_cell(model), strict=True)
    last_of_maps = np.cumsum([size**2 * shapes for size, shapes in cells]) - 1
    hit = integers(bits(stream(5, "hits"), numbers[:, None], places), priors) < POSITIVES
    hit[:, last_of_maps] = True
    hit[numbers % 5 == 4] = False
    label = 1 + integers(bits(stream(6, "labels"), numbers[:, None], places), classes)
    offset = normal(bits(stream(8, "offsets"), numbers[:, None], np.arange(4 * priors))).reshape(
        -1, 4, priors
    )
    return np.where(hit[:, None], offset, 0).astype(np.float32), np.where(hit, label, 0).astype(
        np.int32
    )


def outputs(
    equal: bool = False, images: int = 4, classes: int = 7, priors: int = 60
) -> dict[str, np.ndarray]:
    """Return synthetic outputs and targets for tests of the loss.

    If `equal` is true, all `logits` are 0. The targets are `labels` and the offsets `wanted`. The
    second image has no positive priors. In the third image, more than a quarter of the priors are
    positive, so that the image has too few negative priors.
    """
    logits = (0 if equal else 2) * normal(
        bits(stream(9, "logits"), np.arange(images * (classes + 1) * priors))
    )
    offsets = 1.5 * normal(bits(stream(9, "offsets"), np.arange(images * 4 * priors)))
    label = integers(bits(stream(9, "labels"), np.arange(images * priors)), classes + 1).reshape(
        images, priors
    )
    hit = integers(bits(stream(9, "hits"), np.arange(images * priors)), 100).reshape(images, priors)
    chance = np.array([10, 0, 60, 5])[np.arange(images) % 4]
    wanted = normal(bits(stream(9, "wanted"), np.arange(images * 4 * priors))).reshape(
        images, 4, priors
    )
    label = np.where(hit < chance[:, None], label, 0).astype(np.int32)
    return {
        "logits": logits.reshape(images, classes + 1, priors).astype(np.float32),
        "offsets": offsets.reshape(images, 4, priors).astype(np.float32),
        "labels": label,
        "wanted": np.where(label[:, None] > 0, wanted, 0).astype(np.float32),
    }
