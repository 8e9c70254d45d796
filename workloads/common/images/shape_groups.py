"""Which images of a data set come in batches of which shape."""

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
    """The images of a split of which batches with one shape, or with shapes up to one, are made."""

    shape: Shape
    count: int
    images: Int64s | None = None
    """(count,) in ascending order; None: all of the split."""

    def __getitem__(self, places: Int64s) -> Int64s:
        """The images at some places of the group."""
        return places if self.images is None else self.images[places]


def group_by_orientation(images: ImageIndex, shapes: Sequence[Shape], used: Int64s | None = None) -> list[ShapeGroup]:
    """The images that are wider than high, and the others (maskrcnn_benchmark data/build.py: h / w below 1, or not).

    Each group has the largest of the shapes of its orientation; only images `used` (rising), if given.
    """
    chosen = np.arange(len(images)) if used is None else used
    lying = images.width[chosen] > images.height[chosen]
    groups = []
    for is_lying in (True, False):
        some = [shape for shape in shapes if (shape[1] > shape[0]) == is_lying]
        members = chosen[lying == is_lying]
        if len(members):
            assert some, f"no shape for images that {'lie' if is_lying else 'stand'}"
            groups.append(ShapeGroup(max(some, key=lambda shape: shape[0] * shape[1]), len(members), members))
    return groups


def count_name(shape: Shape) -> str:
    """Under which `DatasetInfo.sizes` has the number of training images in batches of a shape."""
    return f"train_{shape[0]}x{shape[1]}"


def with_group_counts(dataset_info: DatasetInfo, shapes: Sequence[Shape], groups: Sequence[ShapeGroup]) -> DatasetInfo:
    """The facts with the number of training images in the group of each shape."""
    counts = {count_name(group.shape): group.count for group in groups}
    return replace(dataset_info, sizes={**dataset_info.sizes, **dict.fromkeys(map(count_name, shapes), 0), **counts})
