"""Data sets of small images of equal size, stored as arrays.

Files per split: `SPLIT_image.npy`, uint8 (N, S, S, 3), or (N, S, S, 1) for gray images, and
`SPLIT_label.npy`, int32 (N,). Images are neither cropped nor flipped.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.api import Array, DatasetInfo, Settings, WorkerContext
from workloads.common import manifest as manifests
from workloads.common.arrays import UInt8s, mapped
from workloads.common.images.index import ImageIndex
from workloads.common.images.jpeg import Reader
from workloads.common.images.sharded import Begun, ImageData, ImageJob
from workloads.common.manifest import Manifest

SPLITS = ("train", "val")
FORM = "arrays"
"""Value of `form` in the manifest's options for data sets of arrays."""
IMAGES_PER_TASK = 64
"""Number of images that a task of the thread pool copies. Copying an image takes a microsecond."""

Split = tuple[UInt8s, npt.NDArray[Any]]
"""Images and integer labels of a split."""


def write(folder: Path, splits: dict[str, Split]) -> dict[str, int]:
    """Write every split to `folder`, and return the manifest's counts except `classes`."""
    for split, (images, labels) in splits.items():
        np.save(folder / f"{split}_image.npy", images, allow_pickle=False)
        np.save(folder / f"{split}_label.npy", labels.astype(np.int32), allow_pickle=False)
    return {split: len(labels) for split, (_, labels) in splits.items()}


def read(folder: Path, split: str, count: int) -> Split:
    """Map the arrays of a split into memory.

    The function raises ValueError with the name of a file that is missing or invalid.
    """
    images = mapped(folder / f"{split}_image.npy", "uint8")
    square = images.ndim == 4 and images.shape[1] == images.shape[2] and images.shape[3] in (1, 3)
    if not square or len(images) != count:
        raise ValueError(
            f"{folder / split}_image.npy: expected {count} square images with 1 or 3 channels, got"
            f" {images.dtype} {images.shape}. Prepare the data again"
        )
    labels = mapped(folder / f"{split}_label.npy", "int32", count)
    return images, labels


class ArrayDataset(manifests.Prepared):
    """Data set of small images that is stored as arrays."""

    image_size: int
    """Width and height of the images in pixels."""

    def options(self) -> dict[str, Any]:
        return {"form": FORM, "images": ".", "image_size": self.image_size}

    @abstractmethod
    def how(self) -> str:
        """Return the command that prepares this data set."""

    def published(
        self,
        splits: dict[str, Split],
        source: str,
        classes: int,
        destination: Path,
        notes: Sequence[str] = (),
    ) -> list[str]:
        """Write `splits` to `destination` unless they exist, and return the lines to print.

        Args:
            splits: Images and labels of each split.
            source: Name of the data's source in the manifest.
            classes: Number of classes.
            destination: Folder of the prepared data.
            notes: Notes for the manifest.

        Raises:
            ValueError: `destination` contains different data.
        """
        digest = hashlib.sha256()
        for images, labels in splits.values():
            digest.update(images.tobytes() + labels.tobytes())
        size = sum(images.nbytes + labels.nbytes for images, labels in splits.values())
        counts = {
            **{split: len(labels) for split, (_, labels) in splits.items()},
            "classes": classes,
        }
        unlike = manifests.unlike(self.name, counts, "counts", "")
        origin = {"name": source, "bytes": size, "sha256": digest.hexdigest()}
        manifest = Manifest(
            self.name, origin, self.options(), counts, [*notes, *unlike], not unlike
        )
        if present := self.already(destination, lambda: manifest):
            return present
        with manifests.workspace(destination) as folder:
            write(folder, splits)
            complete = manifests.publish(folder, destination, manifest)
        return self.lines(complete, destination)

    def verified(self, destination: Path, manifest: Manifest, files: list[str]) -> list[str]:
        """Check the arrays against the manifest's counts."""
        for split in SPLITS:
            _, labels = read(destination, split, manifest.counts[split])
            classes = manifest.counts["classes"]
            if labels.size and not 0 <= labels.min() <= labels.max() < classes:
                raise ValueError(
                    f"{destination / split}_label.npy: expected labels from 0 to {classes - 1}, got"
                    f" {labels.min()} to {labels.max()}. Prepare the data again"
                )
        return [f"{split}: {manifest.counts[split]:,} images" for split in SPLITS]

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts = manifest.counts
        sizes = (
            f"{counts['train']:,} training and {counts['val']:,} validation images of"
            f" {counts['classes']:,} classes"
        )
        return [f"{self.name}: {sizes}, {destination}", *manifest.notices]


class ArrayData(ImageData):
    """Data pipeline (`workloads.api.DataPipeline`) of a data set of arrays.

    The batches have the same arrays as the batches of `labelled.ImageNetData`.
    """

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        self.pixels: dict[str, UInt8s] = {}
        super().__init__(settings, dataset_info, worker, seed)

    def read_index(self, split: str, root: Path) -> ImageIndex:
        """Read image sizes and labels. The pixels remain memory-mapped."""
        count = (
            self.dataset_info.train_samples
            if split == "train"
            else self.dataset_info.evaluation_samples
        )
        self.pixels[split], labels = read(self.folder, split, count)
        sides = np.full(count, self.pixels[split].shape[1], np.int32)
        none = np.zeros(0, np.uint8), np.zeros(0, np.int64)
        return ImageIndex(root, *none, labels, sides, sides, np.zeros(count, np.int64))

    def begin(self, job: ImageJob) -> Begun:
        pixels, images, out = (
            self.pixels["train"],
            job.images.tolist(),
            self.take(len(job.images), job.shape),
        )
        arrays: dict[str, Array] = {"image": out, "label": self.images.label[job.images]}

        def copy(reader: Reader, slot: int) -> None:
            out[slot] = pixels[images[slot]]

        return arrays, self.pool.start(copy, len(images), IMAGES_PER_TASK)

    def evaluation_image(self, pixels: UInt8s, out: UInt8s) -> None:
        """Copy the image unchanged to `out`."""
        out[:] = pixels

    def _evaluate(self, out: UInt8s, image: int, reader: Reader) -> None:
        self.evaluation_image(self.pixels["val"][image], out)
