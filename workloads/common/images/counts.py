"""Counts of image data sets, prepared or published; sizes of batches that they and the devices allow; shapes of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads.api import DatasetInfo, Json, Settings
from workloads.common import manifest as manifests
from workloads.common.data.downloads import prepared
from workloads.common.data.published import COUNTS

Shape = tuple[int, int]
"""Height and width in pixels, the same for all images of a batch."""


@dataclass(frozen=True)
class ImageFacts:
    """The counts of a kind of image data set: of what is prepared in a folder, or of what was published."""

    kind: str
    """What messages call such a data set: `an image`."""
    name: str
    """The published one: `imagenet`."""
    other_counts: tuple[str, ...] = ()
    """Counts that a prepared one must have beside these."""

    def for_settings(self, settings: Settings) -> DatasetInfo:
        """Counts of the prepared data set, or under profile=synthetic the published ones.

        Raises ValueError that says what to type, also for a batch size that the devices cannot share.
        """
        dataset_info = self.read(Path(settings.data_dir)) if settings.data_dir else self.published_facts()
        check_batch(settings, dataset_info)
        return dataset_info

    def read(self, folder: Path) -> DatasetInfo:
        """Counts of the data set prepared in `folder`, from its manifest alone. Raises ValueError that says what to type."""
        manifest = prepared(folder, self.name)
        try:
            counts = {name: int(manifest.counts[name]) for name in ("train", "val", "classes", *self.other_counts)}
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{folder / manifests.NAME} is not of {self.kind} data set ({manifest.dataset})") from None
        return DatasetInfo(
            train_samples=counts["train"],
            evaluation_samples=counts["val"],
            sizes={"classes": counts["classes"]},
            fingerprint=manifest.fingerprint,
            notes=manifests.notes(manifest),
        )

    def published_facts(self) -> DatasetInfo:
        """The published counts, for runs on synthetic batches."""
        counts = COUNTS[self.name]
        return DatasetInfo(counts["train"], counts["val"], {"classes": counts["classes"]}, "synthetic")


IMAGENET = ImageFacts("an image", "imagenet")
"""ILSVRC2012."""
COCO2017 = ImageFacts("a detection", "coco2017", other_counts=("val_objects",))
"""COCO 2017, or data in its layout."""


def check_batch(settings: Settings, dataset_info: DatasetInfo) -> None:
    """Every device needs equally many images, since batch norm would see padding; and a batch is no larger than the data.

    Raises ValueError that says what to type.
    """
    batch, count = settings.global_batch_size, settings.devices
    if batch % count:
        raise ValueError(
            f"batch size {batch} cannot be shared equally by {count} devices (batch norm allows no padding); "
            f"type batch=global:{max(1, round(batch / count)) * count}"
        )
    if batch > dataset_info.train_samples:
        raise ValueError(
            f"batch size {batch} is larger than the data set ({dataset_info.train_samples} images); "
            f"type batch=global:{dataset_info.train_samples // count * count} or less"
        )


def stream_steps(images: int, global_batch_size: int, replicas: int, groups: int) -> int:
    """Steps in which each replica has every image of its part of an epoch, in batches of one of so many groups, wherever its
    images fall."""
    share = -(-images // replicas)
    return -(-share * replicas // global_batch_size) + groups - 1


def activation_bytes(values: int, precision: str) -> int:
    """Bytes kept for the backward pass of so many outputs of convolutions: each before and after its batch norm."""
    return 2 * values * (2 if precision in ("bf16", "fp16") else 4)


def image_shapes(model: Mapping[str, Json]) -> tuple[Shape, ...]:
    """The shapes that a model's batches can have.

    `model`: `padded_shapes`, a short list of (height, width) that images are padded to; or `image_size`, the sides of a square.
    """
    if "padded_shapes" in model:
        return tuple((int(height), int(width)) for height, width in model["padded_shapes"])
    side = int(model["image_size"])
    return ((side, side),)
