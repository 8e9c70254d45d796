"""Generated data set of the ResNet-50 demo: objects of ten classes as JPEG files.

The files are in ImageNet's folder layout. The outline of an object determines its class. Texture
and hue are only correlated with the class. Position, size, rotation, background, clutter, and light
vary. A linear classifier on raw pixels therefore reaches an accuracy of only about 0.2, while a
small network reaches 0.8.
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
"""Seed of the generated data set. The seeds of runs do not change the data set."""
SIZES = {"train": 4000, "val": 1000}
"""Number of images in each split. The classes alternate, so all classes are equally frequent."""
SHORT_SIDE, LONGEST_SIDE = (88, 104), 128
"""Range of the shorter side in pixels, and maximum of the longer side. The orientation of an
image is random.
"""
RADIUS = (0.24, 0.38)
"""Range of the object's radius, relative to the shorter side of the image."""
TEXTURE_LOYALTY, HUE_LOYALTY = 0.92, 0.5
"""Probabilities that an object has the texture and the hue of its class. Lower probabilities
make the task harder.
"""
CLUTTER, OCCLUDERS = (1, 4), (0, 2)
IMAGES = "images"
"""Name of the folder of the images, inside the folder of the prepared data."""


def wnid(kind: int) -> str:
    """Return the folder name of a class.

    The name has the form of ImageNet's folder names but is not a WordNet id.
    """
    return f"n9{kind + 1:07d}"


def relative_path(split: str, index: int) -> Path:
    """Return the path of image `index` of a split, relative to the root of the images."""
    folder = wnid(kind_of(index))
    name = f"{folder}_{index}.JPEG" if split == "train" else f"DEMO_val_{index + 1:08d}.JPEG"
    return Path(split, folder, name)


def kind_of(index: int) -> int:
    """Return the class 0 … 9 of an image."""
    return index % len(CLASSES)


def draw(split: str, index: int) -> UInt8s:
    """Return image `index` of a split: (height, width, 3) uint8 in BGR order."""
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
    """Write all JPEG files to `root`.

    The paths are train/<wnid>/*.JPEG and val/<wnid>/*.JPEG. The total size of the files is 19 MB.
    """
    for split in SIZES:
        for kind in range(len(CLASSES)):
            (root / split / wnid(kind)).mkdir(parents=True)
    every = [(split, index) for split, count in SIZES.items() for index in range(count)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(
            pool.map(
                lambda image: scenes.write_jpeg(root / relative_path(*image), draw(*image)), every
            )
        )


class ImageNetDemo(Generated, ImageFolders):
    """Generated data set of the ResNet-50 demo.

    The folder layout and the preparation are the same as for real data sets. The images are in the
    folder of the prepared data.
    """

    name = "imagenet-demo"

    def generate(self, folder: Path) -> Manifest:
        """Write `images/` and the index of the images, and return the manifest.

        The generation takes a few seconds.
        """
        images = folder / IMAGES
        write_images(images)
        content = self.look(images)
        complete, _ = self.write(images, folder, self.manifest(IMAGES, content), content)
        return complete

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts = manifest.counts
        sizes = (
            f"{counts['train']:,} training and {counts['val']:,} validation images of"
            f" {counts['classes']:,} classes"
        )
        return [f"{self.name}: {sizes}, generated in {destination}"]
