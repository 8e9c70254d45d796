"""Ten outlines as closed polygons within the unit disc, (n, 2) float64, x to the right and y downwards.

Coordinates are multiples of 1/1024, so that no mathematical library can change what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

GRID = 1024
POINTS = 72
"""Of a curved outline."""


def _polygon(points: list[tuple[float, float]]) -> Floats:
    return np.asarray(np.rint(np.array(points) * GRID) / GRID, np.float64)


def _curve(radius: Callable[[float], float], start: float = 0.0, end: float = 2 * math.pi) -> list[tuple[float, float]]:
    """Points (r cos t, r sin t) for t from `start` to `end`, both included; a doubled last point does no harm."""
    angles = [start + (end - start) * i / POINTS for i in range(POINTS + 1)]
    return [(radius(t) * math.cos(t), radius(t) * math.sin(t)) for t in angles]


def disc() -> Floats:
    """A circle of radius 0.9."""
    return _polygon(_curve(lambda _: 0.9))


def triangle() -> Floats:
    """Equilateral, a corner on top."""
    return _polygon([(math.sin(a), -math.cos(a)) for a in (0, 2 * math.pi / 3, 4 * math.pi / 3)])


def square() -> Floats:
    """Axis-parallel, side 1.6."""
    return _polygon([(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)])


def star() -> Floats:
    """Five points, one on top."""
    radii = (1.0, 0.42)
    return _polygon(
        [(radii[i % 2] * math.sin(math.pi * i / 5), -radii[i % 2] * math.cos(math.pi * i / 5)) for i in range(10)]
    )


def plus() -> Floats:
    """Two crossed bars of width 0.66."""
    arm, end = 0.33, 0.95
    corner = [(arm, arm), (end, arm), (end, -arm), (arm, -arm), (arm, -end), (-arm, -end)]
    return _polygon(corner + [(-x, -y) for x, y in corner])


def heart() -> Floats:
    """The curve 16 sin³t, 13 cos t − 5 cos 2t − 2 cos 3t − cos 4t, point downwards."""
    points = []
    for i in range(POINTS):
        t = 2 * math.pi * i / POINTS
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((16 * math.sin(t) ** 3 / 17, -(y + 2.5) / 17))
    return _polygon(points)


def c_ring() -> Floats:
    """A ring with a gap of a quarter turn on the right."""
    gap = math.pi / 4
    outer = _curve(lambda _: 0.95, gap, 2 * math.pi - gap)
    return _polygon(outer + _curve(lambda _: 0.5, 2 * math.pi - gap, gap))


def arrow() -> Floats:
    """Pointing to the right."""
    upper = [(1.0, 0.0), (0.15, -0.75), (0.15, -0.28), (-0.95, -0.28)]
    return _polygon(upper + [(x, -y) for x, y in reversed(upper[1:])])


def flower() -> Floats:
    """Six petals."""
    return _polygon(_curve(lambda t: 0.68 + 0.3 * math.cos(6 * t)))


def ell() -> Floats:
    """The letter L."""
    return _polygon([(-0.65, -0.85), (-0.08, -0.85), (-0.08, 0.28), (0.75, 0.28), (0.75, 0.85), (-0.65, 0.85)])


OUTLINES: dict[str, Floats] = {
    "disc": disc(),
    "triangle": triangle(),
    "square": square(),
    "star": star(),
    "plus": plus(),
    "heart": heart(),
    "ring": c_ring(),
    "arrow": arrow(),
    "flower": flower(),
    "ell": ell(),
}
"""In the order of the classes."""
