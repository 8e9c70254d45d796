"""Counts of the data, images of the evaluation, and what part of the padded images is image."""

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
"""Objects of the image of COCO 2017 that has most, crowds counted: presumed, for synthetic batches."""
BATCHES_LOOKED_AT = 2_000
"""Of the first epoch, for the share of the padded images that is image."""
NO_MASKS = "prepared without masks: an earlier version prepared it; remove it and prepare the data again"


def load_dataset_info(settings: Settings) -> DatasetInfo:
    """Counts from manifest and index of the prepared data; COCO's published ones under profile=synthetic.

    Sizes beside `classes`: `train_indexed` images in the index, `objects_per_image_most`, the images of each group of shapes,
    and `padding_fill_permille`. Raises ValueError that says what to type.
    """
    if not settings.data_dir:
        dataset_info = COCO2017.for_settings(settings)
        published = (
            dataset_info.evaluation_samples + 48
        )  # images without objects count in the metric, and are looked at
        return replace(
            dataset_info,
            evaluation_samples=published,
            sizes={**dataset_info.sizes, "objects_per_image_most": MAX_OBJECTS},
        )
    folder = Path(settings.data_dir)
    dataset_info = COCO2017.for_settings(settings)
    manifest = manifests.read(folder)
    assert manifest is not None
    if without_mask := masks.describe_missing(manifest.counts):
        raise ValueError(
            f"{folder}: {without_mask}; Mask R-CNN needs one for each object: add the masks to the annotations, or leave these "
            f"objects out of them, and prepare the data again; workload=ssd needs boxes alone"
        )
    try:
        used, most, indexed = (
            int(manifest.counts[name]) for name in ("train_segmented", "objects_per_image_most", "train")
        )
    except KeyError:
        raise ValueError(f"{folder}: {NO_MASKS}") from None
    sizes = {**dataset_info.sizes, "train_indexed": indexed, "objects_per_image_most": most}
    evaluated = dataset_info.evaluation_samples + int(manifest.counts["val_empty"])
    dataset_info = replace(dataset_info, train_samples=used, evaluation_samples=evaluated, sizes=sizes)
    shapes = image_shapes(settings.model)
    images = index.read(folder, "train", index.root(folder, manifest), indexed)
    groups = training_groups(folder, images, shapes)
    dataset_info = with_group_counts(dataset_info, shapes, groups)
    fill = round(1000 * padding_fill(settings, images, groups))
    return replace(dataset_info, sizes={**dataset_info.sizes, "padding_fill_permille": fill})


def training_groups(folder: Path, images: ImageIndex, shapes: tuple[Shape, ...]) -> list[ShapeGroup]:
    """The images with objects that are trained on, by orientation."""
    ends = objects.read(folder, "train", len(images)).ends
    _, trainable = masks.read(folder, "train", int(ends[-1]))
    passed = np.concatenate([[0], np.cumsum(trainable, dtype=np.int64)])
    used = np.flatnonzero(passed[ends] > passed[np.concatenate([[0], ends[:-1]])])
    return group_by_orientation(images, shapes, used)


def evaluation_index(folder: Path, manifest: Manifest | None, root: Path) -> ImageIndex:
    """All validation images: those with objects, then those without."""
    if manifest is None or "val_empty_names.npy" not in manifest.files:
        raise ValueError(f"{folder}: {NO_MASKS}")
    full, empty = (index.read(folder, split, root, manifest.counts[split]) for split in ("val", "val_empty"))
    return index.join(full, empty)


def resized(images: ImageIndex, rows: Int64s, model: Mapping[str, Json]) -> Int64s:
    """(n, 2) heights and widths of some images after the resize."""
    shorter, longest = int(model["image_size"]), int(model["image_size_most"])
    return np.stack(bounded_size(images.height[rows], images.width[rows], shorter, longest), axis=1)


def smallest(shapes: tuple[Shape, ...], sizes: Int64s) -> Shape:
    """The smallest of the shapes that holds images of these sizes (n, 2). Raises ValueError if none does."""
    height, width = sizes.max(axis=0).tolist()
    fitting = [shape for shape in shapes if shape[0] >= height and shape[1] >= width]
    if not fitting:
        raise ValueError(
            f"an image of {height} x {width} pixels fits none of the shapes that batches are padded to; add one with "
            f"workload.padded_shapes={'+'.join(f'{h}x{w}' for h, w in shapes)}+{-(-height // 32) * 32}x{-(-width // 32) * 32}"
        )
    return min(fitting, key=lambda shape: shape[0] * shape[1])


def padding_fill(settings: Settings, images: ImageIndex, groups: list[ShapeGroup]) -> float:
    """Pixels of images over pixels of batches, of the first epoch's first batches of a device. Raises ValueError if one fits
    no shape."""
    shapes = image_shapes(settings.model)
    for group in groups:
        assert group.images is not None
        smallest(shapes, resized(images, group.images, settings.model))
    order = StreamOrder(groups, settings.global_batch_size, settings.devices, settings.seed, 0)
    share, filled, padded = settings.global_batch_size // settings.devices, 0, 0
    steps = min(order.steps, max(1, BATCHES_LOOKED_AT // settings.devices))
    for step in range(steps):
        for replica in range(settings.devices):
            some, _ = order(step, replica * share, (replica + 1) * share)
            sizes = resized(images, some, settings.model)
            height, width = smallest(shapes, sizes)
            filled += int(sizes.prod(axis=1).sum())
            padded += share * height * width
    return filled / padded
