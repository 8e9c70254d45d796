"""The generated data set of the ResNet-50 demo: ten kinds of objects as JPEGs in ImageNet's folders.

The kind is the outline; textures and hues only lean towards a kind. Place, size, rotation, background, clutter and
light vary, so that a linear classifier on raw pixels stays near 0.2 while a small network reaches 0.8.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workloads.common.arrays import UInt8s
from workloads.common.data.generated import Generated
from workloads.common.images.drawing import scenes
from workloads.common.images.drawing.scenes import CLASSES, Draws
from workloads.common.manifest import Manifest
from workloads.common.randomness import fold, stream
from workloads.resnet50.dataset import ImageFolders

SEED = 1
"""Of the data set; runs have seeds of their own."""
SIZES = {"train": 4000, "val": 1000}
"""Images; classes take turns, so they are equally frequent."""
SHORT_SIDE, LONGEST_SIDE = (88, 104), 128
"""Pixels; images lie or stand by chance."""
RADIUS = (0.24, 0.38)
"""Of the object, in short sides."""
TEXTURE_LOYALTY, HUE_LOYALTY = 0.92, 0.5
"""How often an object wears its kind's texture and hue: the knobs of difficulty."""
CLUTTER, OCCLUDERS = (1, 4), (0, 2)
IMAGES = "images"
"""Folder of the images below that of the prepared data."""


def wnid(kind: int) -> str:
    """Folder of a class, in the form of ImageNet's but outside WordNet's numbers."""
    return f"n9{kind + 1:07d}"


def relative_path(split: str, index: int) -> Path:
    """Where image `index` of a split lies, below the root of the images."""
    folder = wnid(kind_of(index))
    name = f"{folder}_{index}.JPEG" if split == "train" else f"DEMO_val_{index + 1:08d}.JPEG"
    return Path(split, folder, name)


def kind_of(index: int) -> int:
    """Class 0 … 9 of an image."""
    return index % len(CLASSES)


def draw(split: str, index: int) -> UInt8s:
    """Image `index` of a split, (height, width, 3) uint8, blue, green, red."""
    key = fold(stream(SEED, f"imagenet-demo {split}"), index)
    draws, kind = Draws(key), kind_of(index)
    height, width = scenes.sides(draws, SHORT_SIDE, LONGEST_SIDE)
    canvas = scenes.background(draws.part(1), height, width)
    scenes.clutter(canvas, draws.part(2), draws.integer(*CLUTTER))
    short = min(height, width)
    radius = draws.uniform(*RADIUS) * short
    reach = short / 2 - radius
    x, y = width / 2 + draws.uniform(-reach, reach), height / 2 + draws.uniform(-reach, reach)
    body = draws.part(3)
    pose = scenes.choose_pose(body, x, y, radius)
    look = scenes.choose_look(body, kind, TEXTURE_LOYALTY, HUE_LOYALTY)
    scenes.draw_object(canvas, CLASSES[kind], pose, look, body.part(0).key)
    scenes.occluders(canvas, draws.part(4), draws.integer(*OCCLUDERS))
    return scenes.camera(canvas, draws.part(5))


def write_images(root: Path) -> None:
    """All JPEGs below `root`: train/<wnid>/*.JPEG and val/<wnid>/*.JPEG; 19 MB."""
    for split in SIZES:
        for kind in range(len(CLASSES)):
            (root / split / wnid(kind)).mkdir(parents=True)
    every = [(split, index) for split, count in SIZES.items() for index in range(count)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda one: scenes.write_jpeg(root / relative_path(*one), draw(*one)), every))


class ImageNetDemo(Generated, ImageFolders):
    """The generated data set: folders like the real ones, through the same preparation, beside their index."""

    name = "imagenet-demo"

    def generate(self, folder: Path) -> Manifest:
        """Write `images/` and their index; a few seconds."""
        images = folder / IMAGES
        write_images(images)
        content = self.look(images)
        complete, _ = self.write(images, folder, self.manifest(IMAGES, content), content)
        return complete

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts = manifest.counts
        sizes = f"{counts['train']:,} training and {counts['val']:,} validation images of {counts['classes']:,} classes"
        return [f"{self.name}: {sizes}, generated in {destination}"]
