"""The prior boxes of SSD: fixed boxes that the network's outputs correct.

Order, which the head outputs must share: maps from fine to coarse; in a map the box shapes; in a shape rows, then columns.
Shapes of a map with scales s and s' (its own and the next one's): the square of s, the square of √(s·s'), then for each
extra ratio a the wide box (s√a, s/√a) and the tall one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Json
from workloads.common.arrays import Float32s, Float64s

VARIANCES = (0.1, 0.2)
"""Offsets of centres and of sizes are divided by these (reference utils.py)."""


@dataclass(frozen=True)
class Priors:
    """P boxes as planes (4, P) in shares of the image's width and height."""

    centres: Float32s
    """Centre x, centre y, width, height, each clamped to 0 … 1."""
    corners: Float32s
    """Left, top, right, bottom of the same boxes, some outside the image, computed from the float32 centres in float32 as
    the reference's `DefaultBoxes` does (utils.py): where two boxes overlap equally, rounding decides which one learns."""

    def __len__(self) -> int:
        return int(self.centres.shape[1])


def build(model: Mapping[str, Json]) -> Priors:
    """The priors of a model.

    `model`: `image_size` in pixels; per map `map_sizes` (cells on a side), `steps` (pixels from cell to cell, which are not
    image_size / map size) and `ratios` (the extra ones); `scales` in pixels, one more than there are maps.
    """
    boxes = np.concatenate([_map_boxes(*cells) for cells in _maps(model)])
    centres = np.ascontiguousarray(np.clip(boxes.T.astype(np.float32), 0, 1))
    half = centres[2:] / 2
    return Priors(centres, np.concatenate([centres[:2] - half, centres[:2] + half]))


def shapes_per_cell(model: Mapping[str, Json]) -> list[int]:
    """How many box shapes each map has: 4, 6, 6, 6, 4, 4."""
    return [2 + 2 * len(ratios) for ratios in model["ratios"]]


def count(model: Mapping[str, Json]) -> int:
    """Number of priors, without making them; 8,732 in the reference."""
    return sum(int(size) ** 2 * shapes for size, shapes in zip(model["map_sizes"], shapes_per_cell(model), strict=True))


def _maps(model: Mapping[str, Json]) -> Iterator[tuple[int, float, list[tuple[float, float]]]]:
    """Of each map: cells on a side, cells that fit into the image, and its shapes (width, height)."""
    image_size = float(model["image_size"])
    scales = [float(scale) / image_size for scale in model["scales"]]
    per_map = zip(model["map_sizes"], model["steps"], model["ratios"], scales[:-1], scales[1:], strict=True)
    for size, step, ratios, scale, following in per_map:
        between = math.sqrt(scale * following)
        shapes = [(scale, scale), (between, between)]
        for ratio in ratios:
            root = math.sqrt(ratio)
            shapes += [(scale * root, scale / root), (scale / root, scale * root)]
        yield int(size), image_size / float(step), shapes


def _map_boxes(size: int, cells: float, shapes: list[tuple[float, float]]) -> Float64s:
    """(shapes · size², 4) centre x, centre y, width, height."""
    middle = (np.arange(size) + 0.5) / cells
    boxes = np.empty((len(shapes), size, size, 4))
    boxes[..., 0] = middle
    boxes[..., 1] = middle[:, None]
    boxes[..., 2:] = np.array(shapes)[:, None, None]
    return boxes.reshape(-1, 4)
