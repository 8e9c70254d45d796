"""Small image data sets in ImageNet's layout, and settings that read them.

They need only simplejpeg and NumPy.
"""

import itertools
from pathlib import Path

import numpy as np
import simplejpeg

from testing import synthetic
from testing.synthetic import place
from workloads.api import DatasetInfo, Settings
from workloads.common.images.counts import IMAGENET
from workloads.common.randomness import bits, integers, stream
from workloads.resnet50.dataset import ImageFolders

__all__ = ["place"]
CLASSES = 5
SUBSAMPLINGS = ("420", "444", "422", "440")


class Folders(ImageFolders):
    """Data set that is not published."""

    name = "dummy"


def picture(seed: int, number: int, height: int, width: int) -> np.ndarray:
    """Return (height, width, 3) uint8, drawn by hash: coarse colors with grain."""
    key = stream(seed, "picture", number)
    coarse = integers(bits(key, 0, np.arange(8 * 8 * 3)), 200).reshape(8, 8, 3)
    rows, columns = np.arange(height) * 8 // height, np.arange(width) * 8 // width
    grain = integers(bits(key, 1, np.arange(height * width * 3)), 40).reshape(height, width, 3)
    return (coarse[rows][:, columns] + grain).astype(np.uint8)


def size(number: int) -> tuple[int, int]:
    """Return height and width of image `number`."""
    height, width = (int(value) for value in 40 + integers(bits(7, number, np.arange(2)), 90))
    return height, width


def write(root: Path, train: int = 60, val: int = 23) -> Path:
    """Write the images below `root`. The class of image i is i % 5."""
    for split, count in (("train", train), ("val", val)):
        for i in range(count):
            number = i + (1_000_000 if split == "val" else 0)
            data = simplejpeg.encode_jpeg(
                picture(3, number, *size(number)), 80, "RGB", SUBSAMPLINGS[i % 4]
            )
            path = root / split / f"n{i % CLASSES:08d}" / f"{split}_{i:05d}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return root


def prepare(folder: Path, train: int = 60, val: int = 23) -> tuple[Path, DatasetInfo]:
    """Prepare images and return the folder of their index and the dataset info."""
    destination = folder / "prepared"
    Folders().prepare(write(folder / "images", train, val), destination)
    return destination, IMAGENET.read(destination)


def settings(
    folder: Path, global_batch_size: int = 12, framework: str = "pytorch", **options: object
) -> Settings:
    """Return settings of ResNet-50's data with crops of 32 pixels."""
    return synthetic.settings(
        "resnet50", framework=framework, global_batch_size=global_batch_size, dataset="dummy",
        model={"image_size": 32, "resize_size": 37, "area_minimum": 0.05}, targets={"top1": 0.8},
        data_dir=str(folder), options=options,
    )  # fmt: skip


def batches_equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    """Check whether two batches hold the same arrays."""
    return set(first) == set(second) and all(
        itertools.starmap(np.array_equal, ((first[name], second[name]) for name in first))
    )
