"""Anchors of a padded image shape, with the legacy rounding of the reference.

An anchor includes its right and bottom edge pixels. The order of the anchors is always the same:
levels from fine to coarse, then cells row by row, then the aspect ratios of a cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from workloads.api import Json
from workloads.common.arrays import Float32s

RATIOS = (0.5, 1.0, 2.0)
"""Aspect ratios of anchors, as height divided by width (reference defaults.py)."""


@dataclass(frozen=True)
class Level:
    """Anchors of one level of the feature pyramid."""

    stride: int
    height: int
    """Number of rows of cells."""
    width: int
    """Number of columns of cells."""
    base: Float32s
    """Anchors (R, 4) of the cell in row 0 and column 0.

    The anchors of all other cells are shifted by multiples of the stride.
    """
    first: int
    """Index of the level's first anchor among all anchors."""

    @property
    def stop(self) -> int:
        """Return the index after the last anchor of the level."""
        return self.first + self.height * self.width * len(self.base)

    @cached_property
    def anchors(self) -> Float32s:
        """Return all anchors (cells · R, 4) of the level as a read-only array."""
        y, x = np.meshgrid(
            np.arange(self.height) * self.stride, np.arange(self.width) * self.stride, indexing="ij"
        )
        moves = np.stack([x, y, x, y], axis=-1).astype(np.float32)
        anchors: Float32s = (moves[:, :, None] + self.base).reshape(-1, 4)
        anchors.flags.writeable = False
        return anchors


def base_anchors(stride: int, size: float, ratios: tuple[float, ...] = RATIOS) -> Float32s:
    """Return the anchors (R, 4) of the cell in row 0 and column 0.

    As in the reference (rpn/anchor_generator.py), width and height are first computed and rounded
    for an anchor of size `stride`. The rounded width and height are then multiplied by size /
    stride. For example, size 32 with stride 4 gives 48 x 24, 32 x 32, and 24 x 48.
    """
    ratio = np.array(ratios, np.float64)
    width = np.round(np.sqrt(stride * stride / ratio))
    height = np.round(width * ratio)
    middle = (stride - 1) / 2
    half = (np.stack([width, height], axis=1) * (size / stride) - 1) / 2
    return np.concatenate([middle - half, middle + half], axis=1).astype(np.float32)


def levels(model: Mapping[str, Json], height: int, width: int) -> tuple[Level, ...]:
    """Return the anchor levels for images padded to `height` x `width` pixels.

    The levels are cached by shape.
    """
    sizes = tuple(float(size) for size in model["anchor_sizes"])
    strides = tuple(int(stride) for stride in model["strides"])
    return _levels(
        sizes,
        strides,
        tuple(float(ratio) for ratio in model.get("anchor_ratios", RATIOS)),
        height,
        width,
    )


def level_anchors(model: Mapping[str, Json], height: int, width: int) -> list[Float32s]:
    """Return the anchors (cells · R, 4) of every level for images of a padded size.

    The arrays are read-only and cached by shape.
    """
    return [level.anchors for level in levels(model, height, width)]


def count(model: Mapping[str, Json], height: int, width: int) -> int:
    """Return the number of anchors in all levels."""
    return levels(model, height, width)[-1].stop


@lru_cache(maxsize=64)
def _levels(
    sizes: tuple[float, ...],
    strides: tuple[int, ...],
    ratios: tuple[float, ...],
    height: int,
    width: int,
) -> tuple[Level, ...]:
    levels: list[Level] = []
    for size, stride in zip(sizes, strides, strict=True):
        base = base_anchors(stride, size, ratios)
        base.flags.writeable = False
        first = levels[-1].stop if levels else 0
        levels.append(Level(stride, -(-height // stride), -(-width // stride), base, first))
    return tuple(levels)
