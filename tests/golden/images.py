"""Digests of crops, flips and whole batches of images, which must not depend on the environment.

The module needs NumPy, OpenCV and simplejpeg, which every framework's environment contains.
"""

import tempfile
from pathlib import Path

import numpy as np

from tests.golden.randomness import digest
from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.common.images import turbo
from workloads.common.images.batches.augment import crop_boxes, flips
from workloads.common.images.batches.labelled import ImageNetData
from workloads.common.images.shape_groups import ShapeGroup
from workloads.common.images.sharded import EpochOrder


def augmentation() -> dict[str, str]:
    """Return the digests of crops and flips of images of many sizes."""
    numbers = np.arange(50_000)
    widths, heights = 30 + numbers * 7 % 1900, 30 + numbers * 11 % 1300
    return {
        "crops": digest(crop_boxes(3, 1, numbers, widths, heights, 0.05)),
        "crops of half the area": digest(crop_boxes(3, 1, numbers, widths, heights, 0.5)),
        "flips": digest(flips(3, 1, numbers)),
    }


def orders() -> dict[str, str]:
    """Return the digest of the images in the steps of two epochs."""
    group = ShapeGroup((224, 224), 5_000)
    orders = [EpochOrder(group, 96, 3, epoch) for epoch in range(2)]
    steps = [order(step, 0, 96) for order in orders for step in range(order.steps)]
    images, of_steps = zip(*steps, strict=True)
    return {"epoch orders, shapes [(224, 224)]": digest(np.concatenate(images), np.array(of_steps))}


def batches(decode: str) -> dict[str, str]:
    """Return the digests of training and evaluation batches on two replicas."""
    with tempfile.TemporaryDirectory() as folder:
        prepared, facts = synthetic.prepare(Path(folder))
        data = ImageNetData(
            synthetic.settings(prepared, decode=decode), facts, synthetic.place(0, range(2), 2), 11
        )
        train = [
            array for step in data.train(3, 8) for batch in step for array in batch.arrays.values()
        ]
        evaluation = [
            array for step in data.evaluation() for batch in step for array in batch.arrays.values()
        ]
        data.close()
        index = [np.load(path) for path in sorted(prepared.glob("*.npy"))]
    found = {f"training batches, {decode}": digest(*train)}
    return {**found, "evaluation batches": digest(*evaluation), "index": digest(*index)}


def digests() -> dict[str, str]:
    """Return all digests by name."""
    return {**augmentation(), **orders(), **batches("exact"), **batches("scaled")}


def library() -> dict[str, bool]:
    """Return whether the installed libturbojpeg decodes parts of images, as `crops`."""
    return {"crops": turbo.library() is not None}
