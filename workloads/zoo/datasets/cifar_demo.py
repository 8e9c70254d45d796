"""Generated data set of LittleCNN's demo: images of 32 × 32 pixels with ten classes.

The outline of an object determines its class, as in `imagenet-demo`. Texture and hue are only
correlated with the class. Position, size, rotation, background, and light vary. A linear classifier
on raw pixels therefore has a much lower accuracy than LittleCNN.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from workloads.common.arrays import UInt8s
from workloads.common.data.generated import Generated
from workloads.common.images.batches import arrays
from workloads.common.images.drawing import scenes
from workloads.common.images.drawing.scenes import CLASSES, Draws
from workloads.common.manifest import Manifest
from workloads.common.randomness import fold, stream

SEED = 1
"""Seed of the generated data set. The seeds of runs do not change the data set."""
SIDE = 32
SIZES = {"train": 4000, "val": 1000}
"""Number of images in each split. The classes alternate, so all classes are equally frequent."""
RADIUS = (0.30, 0.42)
"""Minimum and maximum radius of the object, relative to the side of the image."""
TEXTURE_LOYALTY, HUE_LOYALTY = 0.85, 0.4
"""Probabilities that an object has the texture and the hue of its class. Lower probabilities
make the task harder.
"""


def draw(split: str, index: int) -> UInt8s:
    """Draw image `index` of a split, (32, 32, 3) uint8 RGB.

    The class of the image is index % 10.
    """
    draws = Draws(fold(stream(SEED, f"cifar-demo {split}"), index))
    canvas = scenes.background(draws.part(1), SIDE, SIDE)
    scenes.clutter(canvas, draws.part(2), draws.integer(0, 1))
    radius = draws.uniform(*RADIUS) * SIDE
    reach = SIDE / 2 - radius
    x, y = (SIDE / 2 + draws.uniform(-reach, reach) for _ in range(2))
    body, kind = draws.part(3), index % len(CLASSES)
    pose = scenes.choose_pose(body, x, y, radius)
    look = scenes.choose_look(body, kind, TEXTURE_LOYALTY, HUE_LOYALTY)
    scenes.draw_object(canvas, CLASSES[kind], pose, look, body.part(0).key)
    return scenes.camera(canvas, draws.part(4))[:, :, ::-1]


def images(split: str) -> arrays.Split:
    """Draw all images of a split and return them with their labels."""
    count = SIZES[split]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        drawn = list(pool.map(lambda index: draw(split, index), range(count), chunksize=100))
    return np.stack(drawn), np.arange(count, dtype=np.int32) % len(CLASSES)


class CifarDemo(Generated, arrays.ArrayDataset):
    """Generated data set with the same arrays as CIFAR-10."""

    name = "cifar-demo"
    image_size = SIDE

    def generate(self, folder: Path) -> Manifest:
        """Draw and write both splits, and return the manifest.

        The generation takes a few seconds.
        """
        counts = arrays.write(folder, {split: images(split) for split in SIZES})
        source = {"name": "generated", "bytes": 0, "sha256": ""}
        return Manifest(self.name, source, self.options(), {**counts, "classes": len(CLASSES)})
