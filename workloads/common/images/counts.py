"""Sizes of image data sets, valid batch sizes, and shapes of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads.api import DatasetInfo, Json, Settings
from workloads.common import manifest as manifests
from workloads.common.data.downloads import prepared
from workloads.common.data.published import COUNTS

Shape = tuple[int, int]
"""Height and width in pixels of all images in a batch."""


@dataclass(frozen=True)
class ImageFacts:
    """Counts of a prepared image data set, or of the published data set."""

    kind: str
    """Description of the data set for messages, with an article: `an image`."""
    name: str
    """Name of the published data set, such as `imagenet`."""
    other_counts: tuple[str, ...] = ()
    """Names of additional counts that the manifest of a prepared data set must contain."""

    def for_settings(self, settings: Settings) -> DatasetInfo:
        """Return the counts of the prepared data set.

        Under `profile=synthetic`, the method returns the counts of the published data set.

        The method raises ValueError with the setting to change if data are missing or if the batch
        size cannot be divided by the number of devices.
        """
        dataset_info = (
            self.read(Path(settings.data_dir)) if settings.data_dir else self.published_facts()
        )
        check_batch(settings, dataset_info)
        return dataset_info

    def read(self, folder: Path) -> DatasetInfo:
        """Return the counts in the manifest of the data set that is prepared in `folder`.

        The method raises ValueError with the command to run if no suitable data are prepared.
        """
        manifest = prepared(folder, self.name)
        try:
            counts = {
                name: int(manifest.counts[name])
                for name in ("train", "val", "classes", *self.other_counts)
            }
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"{folder / manifests.NAME}: expected {self.kind} data set, got {manifest.dataset}"
            ) from None
        return DatasetInfo(
            train_samples=counts["train"],
            evaluation_samples=counts["val"],
            sizes={"classes": counts["classes"]},
            fingerprint=manifest.fingerprint,
            notes=manifests.notes(manifest),
        )

    def published_facts(self) -> DatasetInfo:
        """Return the published counts, for runs on synthetic batches."""
        counts = COUNTS[self.name]
        return DatasetInfo(
            counts["train"], counts["val"], {"classes": counts["classes"]}, "synthetic"
        )


IMAGENET = ImageFacts("an image", "imagenet")
"""The image data set ILSVRC2012."""
COCO2017 = ImageFacts("a detection", "coco2017", other_counts=("val_objects",))
"""COCO 2017, or user-provided data in the same layout."""


def check_batch(settings: Settings, dataset_info: DatasetInfo) -> None:
    """Raise ValueError unless the batch can be divided equally among the devices.

    The batch must also not be larger than the data set. The error message contains the setting to
    change.

    Unequal shares would need padding, which would change the statistics of batch norm.
    """
    batch, count = settings.global_batch_size, settings.devices
    if batch % count:
        raise ValueError(
            f"batch size {batch} cannot be shared equally by {count} devices (batch norm allows no"
            f" padding). Set batch=global:{max(1, round(batch / count)) * count}"
        )
    if batch > dataset_info.train_samples:
        raise ValueError(
            f"batch size {batch} is larger than the data set ({dataset_info.train_samples} images)."
            f" Set batch=global:{dataset_info.train_samples // count * count} or less"
        )


def stream_steps(images: int, global_batch_size: int, replicas: int, groups: int) -> int:
    """Return an upper bound of steps per epoch if each batch has images of a single group.

    In these steps, each replica processes all images of its share of the data set. The bound does
    not depend on how the images are distributed over the groups.
    """
    share = -(-images // replicas)
    return -(-share * replicas // global_batch_size) + groups - 1


def activation_bytes(values: int, precision: str) -> int:
    """Return the memory in bytes for `values` convolution outputs until the backward pass.

    Each output is stored twice: before and after its batch norm.
    """
    return 2 * values * (2 if precision in ("bf16", "fp16") else 4)


def image_shapes(model: Mapping[str, Json]) -> tuple[Shape, ...]:
    """Return the image shapes (height, width) of a model's batches.

    `model` contains either `padded_shapes` or `image_size`. `padded_shapes` is a short list of
    (height, width) to which images are padded. `image_size` is the side length of square images.
    """
    if "padded_shapes" in model:
        return tuple((int(height), int(width)) for height, width in model["padded_shapes"])
    side = int(model["image_size"])
    return ((side, side),)
