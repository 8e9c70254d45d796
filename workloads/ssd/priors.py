"""Prior boxes of SSD: fixed boxes to which the network predicts offsets.

The priors have the same order as the head outputs: feature maps from fine to coarse, then the box
shapes of a map, then rows, then columns. Let s be the scale of a feature map and s' the scale of
the next map. The box shapes of the map are a square with side s, a square with side √(s·s'), and
two boxes for each extra ratio a. The two boxes for a are the wide box (s√a, s/√a) and the tall box
(s/√a, s√a).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Json
from workloads.common.arrays import Float32s, Float64s

VARIANCES = (0.1, 0.2)
"""Divisors of the offsets of the center and of the offsets of the size (reference utils.py)."""


@dataclass(frozen=True)
class Priors:
    """P prior boxes as arrays (4, P), in fractions of the image's width and height."""

    centres: Float32s
    """Center x, center y, width, and height of each prior, clamped to 0 … 1."""
    corners: Float32s
    """Left, top, right, and bottom of each prior. Some priors extend beyond the image.

    The corners are computed in float32 from the float32 centers, like the reference's
    `DefaultBoxes` (utils.py). If two priors overlap an object equally, the rounding determines
    which prior is matched.
    """

    def __len__(self) -> int:
        return int(self.centres.shape[1])


def build(model: Mapping[str, Json]) -> Priors:
    """Return the priors of a model.

    Args:
        model: Settings of the model: `image_size` in pixels; for each map, `map_sizes` (cells per
            side), `steps` (pixels from cell to cell, which differ from image_size / map size), and
            `ratios` (the extra ratios); `scales` in pixels, with an additional scale after the
            scale of the last map.
    """
    boxes = np.concatenate([_map_boxes(*cells) for cells in _maps(model)])
    centres = np.ascontiguousarray(np.clip(boxes.T.astype(np.float32), 0, 1))
    half = centres[2:] / 2
    return Priors(centres, np.concatenate([centres[:2] - half, centres[:2] + half]))


def shapes_per_cell(model: Mapping[str, Json]) -> list[int]:
    """Return the number of box shapes of each map: 4, 6, 6, 6, 4, 4 in the reference."""
    return [2 + 2 * len(ratios) for ratios in model["ratios"]]


def count(model: Mapping[str, Json]) -> int:
    """Return the number of priors, which is 8,732 in the reference."""
    return sum(
        int(size) ** 2 * shapes
        for size, shapes in zip(model["map_sizes"], shapes_per_cell(model), strict=True)
    )


def _maps(model: Mapping[str, Json]) -> Iterator[tuple[int, float, list[tuple[float, float]]]]:
    """Yield the cells per side, the cells in the image, and the box shapes of each map.

    A box shape is the pair (width, height).
    """
    image_size = float(model["image_size"])
    scales = [float(scale) / image_size for scale in model["scales"]]
    per_map = zip(
        model["map_sizes"], model["steps"], model["ratios"], scales[:-1], scales[1:], strict=True
    )
    for size, step, ratios, scale, following in per_map:
        between = math.sqrt(scale * following)
        shapes = [(scale, scale), (between, between)]
        for ratio in ratios:
            root = math.sqrt(ratio)
            shapes += [(scale * root, scale / root), (scale / root, scale * root)]
        yield int(size), image_size / float(step), shapes


def _map_boxes(size: int, cells: float, shapes: list[tuple[float, float]]) -> Float64s:
    """Return the prior boxes of a map, (shapes · size², 4).

    A box is (center x, center y, width, height).
    """
    middle = (np.arange(size) + 0.5) / cells
    boxes = np.empty((len(shapes), size, size, 4))
    boxes[..., 0] = middle
    boxes[..., 1] = middle[:, None]
    boxes[..., 2:] = np.array(shapes)[:, None, None]
    return boxes.reshape(-1, 4)
