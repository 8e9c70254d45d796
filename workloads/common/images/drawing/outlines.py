"""Ten outlines as closed polygons (n, 2) float64 within the unit disc.

The x axis points right, and the y axis points down. Coordinates are rounded to multiples of 1/1024,
so that differences between mathematical libraries cannot change the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from workloads.common.arrays import Float64s

GRID = 1024
POINTS = 72
"""Number of vertices of a curved outline."""


def _polygon(points: list[tuple[float, float]]) -> Float64s:
    return np.asarray(np.rint(np.array(points) * GRID) / GRID, np.float64)


def _curve(
    radius: Callable[[float], float], start: float = 0.0, end: float = 2 * math.pi
) -> list[tuple[float, float]]:
    """Return points (r cos t, r sin t) for t from `start` to `end`, including both ends.

    For a closed curve, the last point repeats the first point. The repeated point does not change
    the drawing.
    """
    angles = [start + (end - start) * i / POINTS for i in range(POINTS + 1)]
    return [(radius(t) * math.cos(t), radius(t) * math.sin(t)) for t in angles]


def _star() -> list[tuple[float, float]]:
    """Return a five-pointed star with a tip at the top."""
    radii = (1.0, 0.42)
    return [
        (radii[i % 2] * math.sin(math.pi * i / 5), -radii[i % 2] * math.cos(math.pi * i / 5))
        for i in range(10)
    ]


def _heart() -> list[tuple[float, float]]:
    """Return the heart curve 16 sin³t, 13 cos t − 5 cos 2t − 2 cos 3t − cos 4t, tip down."""
    points = []
    for i in range(POINTS):
        t = 2 * math.pi * i / POINTS
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((16 * math.sin(t) ** 3 / 17, -(y + 2.5) / 17))
    return points


_THIRD, _GAP = 2 * math.pi / 3, math.pi / 4
_CORNER = [(0.33, 0.33), (0.95, 0.33), (0.95, -0.33), (0.33, -0.33), (0.33, -0.95), (-0.33, -0.95)]
_UPPER = [(1.0, 0.0), (0.15, -0.75), (0.15, -0.28), (-0.95, -0.28)]

OUTLINES: dict[str, Float64s] = {
    "disc": _polygon(_curve(lambda _: 0.9)),
    "triangle": _polygon(
        [(math.sin(a), -math.cos(a)) for a in (0, _THIRD, 2 * _THIRD)]
    ),  # The outline has a corner at the top.
    "square": _polygon([(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)]),
    "star": _polygon(_star()),
    "plus": _polygon(_CORNER + [(-x, -y) for x, y in _CORNER]),
    "heart": _polygon(_heart()),
    "ring": _polygon(  # The ring has a gap of 90° on the right.
        _curve(lambda _: 0.95, _GAP, 2 * math.pi - _GAP)
        + _curve(lambda _: 0.5, 2 * math.pi - _GAP, _GAP)
    ),
    # The arrow points to the right.
    "arrow": _polygon(_UPPER + [(x, -y) for x, y in reversed(_UPPER[1:])]),
    # The flower has six petals.
    "flower": _polygon(_curve(lambda t: 0.68 + 0.3 * math.cos(6 * t))),
    "ell": _polygon(
        [(-0.65, -0.85), (-0.08, -0.85), (-0.08, 0.28), (0.75, 0.28), (0.75, 0.85), (-0.65, 0.85)]
    ),
}
"""Outlines by name, in the order of the classes."""
