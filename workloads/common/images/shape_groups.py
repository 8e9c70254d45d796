"""Groups the images of a split by the shape of their batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from workloads.api import DatasetInfo
from workloads.common.arrays import Int64s
from workloads.common.images.counts import Shape
from workloads.common.images.index import ImageIndex


@dataclass(frozen=True)
class ShapeGroup:
    """Images of a split whose batches all have the same shape, or shapes up to a maximum."""

    shape: Shape
    count: int
    images: Int64s | None = None
    """Indices (count,) of the images in ascending order. None means all images of the split."""

    def __getitem__(self, places: Int64s) -> Int64s:
        """Return the indices of the images at the given positions in the group."""
        return places if self.images is None else self.images[places]


def group_by_orientation(
    images: ImageIndex, shapes: Sequence[Shape], used: Int64s | None = None
) -> list[ShapeGroup]:
    """Divide the images into landscape images and all other images.

    The rule is the same as in maskrcnn_benchmark (data/build.py): an image is in the landscape
    group if h / w is below 1. The batch shape of each group is the largest shape in `shapes` with
    the group's orientation. `used` (ascending) restricts the groups to some images.
    """
    chosen = np.arange(len(images)) if used is None else used
    lying = images.width[chosen] > images.height[chosen]
    groups = []
    for is_lying in (True, False):
        some = [shape for shape in shapes if (shape[1] > shape[0]) == is_lying]
        members = chosen[lying == is_lying]
        if len(members):
            assert some, f"no shape for images that {'lie' if is_lying else 'stand'}"
            groups.append(
                ShapeGroup(max(some, key=lambda shape: shape[0] * shape[1]), len(members), members)
            )
    return groups


def count_name(shape: Shape) -> str:
    """Return the key in `DatasetInfo.sizes` for the number of training images of a shape."""
    return f"train_{shape[0]}x{shape[1]}"


def with_group_counts(
    dataset_info: DatasetInfo, shapes: Sequence[Shape], groups: Sequence[ShapeGroup]
) -> DatasetInfo:
    """Return `dataset_info` with the number of training images of each shape."""
    counts = {count_name(group.shape): group.count for group in groups}
    return replace(
        dataset_info,
        sizes={**dataset_info.sizes, **dict.fromkeys(map(count_name, shapes), 0), **counts},
    )
