"""The generated data set of LittleCNN's demo: ten kinds of objects in images of 32 × 32 pixels.

The kind is the outline, as in `imagenet-demo`; textures and hues only lean towards it, and place, size, rotation, background
and light vary, so that a linear classifier on raw pixels stays far below what the network reaches.
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
"""Of the data set; runs have seeds of their own."""
SIDE = 32
SIZES = {"train": 4000, "val": 1000}
"""Images; classes take turns, so they are equally frequent."""
RADIUS = (0.30, 0.42)
"""Of the object, in sides."""
TEXTURE_LOYALTY, HUE_LOYALTY = 0.85, 0.4
"""How often an object wears its kind's texture and hue: the knobs of difficulty."""


def draw(split: str, index: int) -> UInt8s:
    """Image `index` of a split, (32, 32, 3) uint8 RGB; its class is index % 10."""
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
    """All images of a split and their labels."""
    count = SIZES[split]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        drawn = list(pool.map(lambda index: draw(split, index), range(count), chunksize=100))
    return np.stack(drawn), np.arange(count, dtype=np.int32) % len(CLASSES)


class CifarDemo(Generated, arrays.ArrayDataset):
    """Arrays like CIFAR-10's."""

    name = "cifar-demo"
    image_size = SIDE

    def generate(self, folder: Path) -> Manifest:
        """Draw and write both splits; a few seconds."""
        counts = arrays.write(folder, {split: images(split) for split in SIZES})
        source = {"name": "generated", "bytes": 0, "sha256": ""}
        return Manifest(self.name, source, self.options(), {**counts, "classes": len(CLASSES)})
