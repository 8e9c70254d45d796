"""Ten textures: functions from object coordinates to the fraction of the second color.

The fraction is float32 in [0, 1]. The functions use only addition, multiplication, floor, absolute
value, and square root, each as a NumPy call. The fractions are therefore equal on every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workloads.common.arrays import Float32s, Float64s, Int64s
from workloads.common.randomness import bits, integers

Texture = Callable[[Float32s, Float32s, float, int], Float32s]
"""Function with the arguments (u, v, sharpness, key) that returns the fraction of the second color.

- `u`, `v`: coordinates (h, w) in units of the object's radius
- `sharpness`: number of pixels per unit of u and v, for soft edges that are one pixel wide
- `key`: key of the random numbers of a random texture
"""

FINE, COARSE = 0.24, 0.55
"""Periods of fine and coarse stripes in units of the object's radius."""
FIELD_WEIGHTS = 256
"""Denominator of interpolation weights. Because the weights are multiples of 1/256, every
product and sum in `field` is exact and independent of the order of operations.
"""


def wave(x: Float32s, period: float) -> Float32s:
    """Return a triangle wave with amplitudes in the units of x.

    The wave is 0 at multiples of `period`, and `period` / 2 at the midpoints between the multiples.
    """
    turns = x * (1.0 / period)
    turns -= np.floor(turns)
    return np.asarray((0.5 - np.abs(turns - 0.5)) * period, np.float32)


def edge(distance: Float32s, sharpness: float) -> Float32s:
    """Return 1 for positive `distance` and 0 for negative `distance`.

    The linear ramp from 0 to 1 is one pixel wide.
    """
    return np.asarray(np.clip(distance * sharpness + 0.5, 0.0, 1.0), np.float32)


def field(corners: Int64s, height: int, width: int) -> Float64s:
    """Interpolate a coarse grid of integers below 2¹⁶ to a smooth field.

    `corners` has the shape (…, rows, columns), and the returned field has the shape (…, height,
    width).
    """
    return np.asarray(
        _weights(height, corners.shape[-2]) @ corners @ _weights(width, corners.shape[-1]).T
    )


def _weights(length: int, cells: int) -> Float64s:
    """Return interpolation weights (length, cells).

    Each row contains smooth weights of two neighboring cells.
    """
    at = (np.arange(length) + 0.5) * ((cells - 1) / length)
    left = np.minimum(at.astype(np.int64), cells - 2)
    part = at - left
    share = np.rint(part * part * (3 - 2 * part) * FIELD_WEIGHTS) / FIELD_WEIGHTS
    weights = np.zeros((length, cells))
    weights[np.arange(length), left] = 1 - share
    weights[np.arange(length), left + 1] = share
    return weights


def solid(u: Float32s, v: Float32s, sharpness: float, key: int) -> Float32s:
    """Return zeros, so that the object has only the first color."""
    return np.zeros(np.broadcast_shapes(u.shape, v.shape), np.float32)


def stripes(period: float) -> Texture:
    """Return a texture of stripes that are parallel to the object's v axis."""
    return lambda u, v, sharpness, key: edge(wave(u, period) - period / 4, sharpness)


def checker(u: Float32s, v: Float32s, sharpness: float, key: int) -> Float32s:
    """Return a checkerboard whose squares have half the period `COARSE` as their side."""
    a, b = (
        edge(wave(u, COARSE) - COARSE / 4, sharpness),
        edge(wave(v, COARSE) - COARSE / 4, sharpness),
    )
    return np.asarray(a + b - 2 * a * b, np.float32)


def grid(u: Float32s, v: Float32s, sharpness: float, key: int) -> Float32s:
    """Return a grid of thin lines as the fraction of the second color."""
    distance: Float32s = np.minimum(wave(u, 0.4), wave(v, 0.4))
    return edge(np.asarray(0.06 - distance, np.float32), sharpness)


def dots(period: float) -> Texture:
    """Return a texture of discs on a square lattice."""

    def texture(u: Float32s, v: Float32s, sharpness: float, key: int) -> Float32s:
        a, b = period / 2 - wave(u, period), period / 2 - wave(v, period)
        return edge(0.34 * period - np.sqrt(a * a + b * b), sharpness)

    return texture


def rings(u: Float32s, v: Float32s, sharpness: float, key: int) -> Float32s:
    """Return rings around the object's center as the fraction of the second color."""
    return edge(wave(np.sqrt(u * u + v * v), 0.42) - 0.105, sharpness)


def blotches(cells: int) -> Texture:
    """Return a texture of blotches, which are a thresholded random field over the box.

    The threshold is the middle of the field's range of values. The field is interpolated from
    `cells` × `cells` random values.
    """

    def texture(u: Float32s, v: Float32s, sharpness: float, key: int) -> Float32s:
        corners = integers(bits(key, np.arange(cells * cells)), 256).reshape(cells, cells)
        height, width = np.broadcast_shapes(u.shape, v.shape)
        smooth = field(corners, height, width)
        return np.asarray(np.clip((smooth - 127.5) * 0.08 + 0.5, 0.0, 1.0), np.float32)

    return texture


TEXTURES: dict[str, Texture] = {
    "solid": solid,
    "fine stripes": stripes(FINE),
    "coarse stripes": stripes(COARSE),
    "checker": checker,
    "fine dots": dots(0.3),
    "coarse dots": dots(0.62),
    "fine blotches": blotches(14),
    "coarse blotches": blotches(7),
    "grid": grid,
    "rings": rings,
}
"""Textures by name, in the order of the classes that use them."""
