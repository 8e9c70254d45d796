"""Sizes of the data set, evaluation images, and padding fraction of batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from workloads.api import DatasetInfo, Json, Settings
from workloads.common import manifest as manifests
from workloads.common.arrays import Int64s
from workloads.common.coco import masks, objects
from workloads.common.images import index
from workloads.common.images.counts import COCO2017, Shape, image_shapes
from workloads.common.images.index import ImageIndex
from workloads.common.images.resize import bounded_size
from workloads.common.images.shape_groups import ShapeGroup, group_by_orientation, with_group_counts
from workloads.common.manifest import Manifest
from workloads.maskrcnn.input.order import StreamOrder

MAX_OBJECTS = 93
"""Assumed maximum number of objects per image in COCO 2017, for synthetic batches.

The number includes crowd objects.
"""
BATCHES_LOOKED_AT = 2_000
"""Number of batches of the first epoch from which `padding_fill` is estimated."""
NO_MASKS = "prepared without masks by an earlier version. Remove it and prepare the data again"


def load_dataset_info(settings: Settings) -> DatasetInfo:
    """Return the sizes of the prepared data set, or the published sizes of COCO.

    With profile=synthetic, the published sizes are returned. In addition to `classes`, the sizes
    are `train_indexed` (number of images in the index), `objects_per_image_most`, the number of
    images in each group of shapes, and `padding_fill_permille`.

    Raises:
        ValueError: The data set has no masks or lacks some masks. The error message contains the
            remedy.
    """
    if not settings.data_dir:
        dataset_info = COCO2017.for_settings(settings)
        # The 48 validation images without objects are also evaluated, because COCO's metric
        # includes them.
        evaluation_samples = dataset_info.evaluation_samples + 48
        return replace(
            dataset_info,
            evaluation_samples=evaluation_samples,
            sizes={**dataset_info.sizes, "objects_per_image_most": MAX_OBJECTS},
        )
    folder = Path(settings.data_dir)
    dataset_info = COCO2017.for_settings(settings)
    manifest = manifests.read(folder)
    assert manifest is not None
    if without_mask := masks.describe_missing(manifest.counts):
        raise ValueError(
            f"{folder}: {without_mask}, but Mask R-CNN needs a mask for each object. Add the masks"
            " to the annotations or remove these objects, and prepare the data again, or set"
            " workload=ssd, which needs only boxes"
        )
    try:
        used, most, indexed = (
            int(manifest.counts[name])
            for name in ("train_segmented", "objects_per_image_most", "train")
        )
    except KeyError:
        raise ValueError(f"{folder}: {NO_MASKS}") from None
    sizes = {**dataset_info.sizes, "train_indexed": indexed, "objects_per_image_most": most}
    evaluated = dataset_info.evaluation_samples + int(manifest.counts["val_empty"])
    dataset_info = replace(
        dataset_info, train_samples=used, evaluation_samples=evaluated, sizes=sizes
    )
    shapes = image_shapes(settings.model)
    images = index.read(folder, "train", index.root(folder, manifest), indexed)
    groups = training_groups(folder, images, shapes)
    dataset_info = with_group_counts(dataset_info, shapes, groups)
    fill = round(1000 * padding_fill(settings, images, groups))
    return replace(dataset_info, sizes={**dataset_info.sizes, "padding_fill_permille": fill})


def training_groups(
    folder: Path, images: ImageIndex, shapes: tuple[Shape, ...]
) -> list[ShapeGroup]:
    """Return the training images that have trainable objects, grouped by orientation."""
    ends = objects.read(folder, "train", len(images)).ends
    _, trainable = masks.read(folder, "train", int(ends[-1]))
    passed = np.concatenate([[0], np.cumsum(trainable, dtype=np.int64)])
    used = np.flatnonzero(passed[ends] > passed[np.concatenate([[0], ends[:-1]])])
    return group_by_orientation(images, shapes, used)


def evaluation_index(folder: Path, manifest: Manifest | None, root: Path) -> ImageIndex:
    """Return the index of all validation images.

    Images with objects come first, then images without objects.

    Raises:
        ValueError: The data set was prepared without masks.
    """
    if manifest is None or "val_empty_names.npy" not in manifest.files:
        raise ValueError(f"{folder}: {NO_MASKS}")
    full, empty = (
        index.read(folder, split, root, manifest.counts[split]) for split in ("val", "val_empty")
    )
    return index.join(full, empty)


def resized(images: ImageIndex, rows: Int64s, model: Mapping[str, Json]) -> Int64s:
    """Return the heights and widths (n, 2) of the resized images in `rows`."""
    shorter, longest = int(model["image_size"]), int(model["image_size_most"])
    return np.stack(bounded_size(images.height[rows], images.width[rows], shorter, longest), axis=1)


def smallest(shapes: tuple[Shape, ...], sizes: Int64s) -> Shape:
    """Return the smallest shape into which images of these sizes (n, 2) fit.

    Raises:
        ValueError: No shape is large enough for all images.
    """
    height, width = sizes.max(axis=0).tolist()
    fitting = [shape for shape in shapes if shape[0] >= height and shape[1] >= width]
    if not fitting:
        raise ValueError(
            f"an image of {height} x {width} pixels does not fit any padded shape. Set "
            f"workload.padded_shapes={'+'.join(f'{h}x{w}' for h, w in shapes)}"
            f"+{-(-height // 32) * 32}x{-(-width // 32) * 32}"
        )
    return min(fitting, key=lambda shape: shape[0] * shape[1])


def padding_fill(settings: Settings, images: ImageIndex, groups: list[ShapeGroup]) -> float:
    """Return the fraction of pixels in padded batches that belong to images.

    The fraction is computed from the first BATCHES_LOOKED_AT batches of the first epoch, counted
    over all devices.

    Raises:
        ValueError: An image does not fit into any padded shape.
    """
    shapes = image_shapes(settings.model)
    for group in groups:
        assert group.images is not None
        smallest(shapes, resized(images, group.images, settings.model))
    order = StreamOrder(groups, settings.global_batch_size, settings.devices, settings.seed, 0)
    share, filled, padded = settings.global_batch_size // settings.devices, 0, 0
    steps = min(order.steps, max(1, BATCHES_LOOKED_AT // settings.devices))
    for step in range(steps):
        for replica in range(settings.devices):
            batch_images, _ = order(step, replica * share, (replica + 1) * share)
            sizes = resized(images, batch_images, settings.model)
            height, width = smallest(shapes, sizes)
            filled += int(sizes.prod(axis=1).sum())
            padded += share * height * width
    return filled / padded
