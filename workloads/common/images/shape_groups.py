"""Which images of a data set come in batches of which shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.api import Facts, Settings
from workloads.common import manifest as manifests
from workloads.common.images import index
from workloads.common.images.counts import Shape, image_shapes
from workloads.common.images.index import ImageIndex

Int64s = npt.NDArray[np.int64]


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


def group_by_shape(images: ImageIndex, shapes: Sequence[Shape]) -> list[ShapeGroup]:
    """Each image in the group of the shape whose aspect ratio is most like its own, of equal ones in the first's."""
    if len(shapes) == 1:
        return [ShapeGroup(shapes[0], len(images))]
    width, height = images.width.astype(np.int64), images.height.astype(np.int64)
    products = [(width * shape[0], height * shape[1]) for shape in shapes]
    nearest = np.argmin([np.maximum(*pair) / np.minimum(*pair) for pair in products], axis=0)
    members = [np.flatnonzero(nearest == number) for number in range(len(shapes))]
    return [ShapeGroup(shape, len(some), some) for shape, some in zip(shapes, members, strict=True) if len(some)]


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
    """Under which `Facts.sizes` has the number of training images in batches of a shape."""
    return f"train_{shape[0]}x{shape[1]}"


def with_shape_counts(facts: Facts, settings: Settings) -> Facts:
    """The facts with the number of training images of each shape, where the model has several and the data are prepared.

    Reads the index: for the controller, before the clock.
    """
    shapes, folder = image_shapes(settings.model), Path(settings.data_dir)
    manifest = manifests.read(folder) if settings.data_dir and len(shapes) > 1 else None
    if manifest is None:
        return facts
    images = index.read(folder, "train", index.root(folder, manifest), facts.train_samples)
    return with_group_counts(facts, shapes, group_by_shape(images, shapes))


def with_group_counts(facts: Facts, shapes: Sequence[Shape], groups: Sequence[ShapeGroup]) -> Facts:
    """The facts with the number of training images in the group of each shape."""
    counts = {count_name(group.shape): group.count for group in groups}
    return replace(facts, sizes={**facts.sizes, **dict.fromkeys(map(count_name, shapes), 0), **counts})
