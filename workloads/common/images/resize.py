"""Resizing into a slot of a batch. Several things are called bilinear.

Plain, for ResNet-50: pixel centres at one half, the four neighbours of a place, no smoothing before shrinking. That is
TensorFlow's present `tf.image.resize(method="bilinear", antialias=False)`, rounded to uint8, and OpenCV's INTER_LINEAR. Not
its reference's: that calls the legacy `tf.compat.v1.image.resize`, whose pixels begin at whole numbers, so that an image
made smaller by s is sampled (s - 1) / 2 pixels further up and left (imagenet_preprocessing.py; docs/images.md has by how
much pixels differ). No library here has that one.

Smooth, for SSD: Pillow's, whose triangle becomes as wide as the pixels that are shrunk into one. Its reference resizes Pillow
images (utils.py, torchvision's `Resize`), so these are its pixels, bit for bit. On photographs of 640 x 480 made 300 x 300
the plain kind is 1.8 to 2.8 of 255 levels away on average and up to 128 at edges; OpenCV's INTER_AREA, another function,
1.0. Such an image takes 1.5 ms instead of 0.2; the whole input is still more than twice as fast as torchvision's
(benchmarks/coco_input.py).

Where a side grows by a simple ratio (480 to 800: 3 to 5) its pixels' weights repeat, and OpenCV mixes all that have the same
ones at once (`row_mixes`), by floating-point numbers that round to Pillow's values: an eighth of the time. Pillow resizes the
other side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

UInt8s = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

PRECISION = 22
"""Fractional bits of Pillow's fixed-point weights (Resample.c: 32 - 8 - 2)."""
MIXES_MOST = 100
"""More calls than this for an image, and Pillow is as fast, and lets other threads of Python run."""
FLOAT_ERROR = 6e-5
"""More than `cv2.addWeighted` errs by before it rounds: four operations on numbers below 256 with 24 bits."""
LEANINGS = [(0.0, 0.0), (0.0, 2e-4), *((sign * size, 0.0) for size in (3e-4, 3e-5, 3e-6) for sign in (1, -1))]
"""Changes of a weight and of the sum that make halves round to where Pillow's weights, which are rounded, take them."""


@dataclass(frozen=True)
class RowMix:
    """Rows of a resized image that are made of two rows each, with the same weights."""

    target: slice
    upper: slice
    lower: slice
    weight: float
    """Of the lower row; the upper one has the rest."""
    bias: float
    """Added before rounding to the nearest."""


def resize_into(source: UInt8s, out: UInt8s, flip: bool = False) -> None:
    """Resize `source` (h, w, 3) to the size of `out` (H, W, 3, contiguous), in place; `flip` mirrors left and right."""
    cv2.resize(source, (out.shape[1], out.shape[0]), dst=out, interpolation=cv2.INTER_LINEAR)
    if flip:
        cv2.flip(out, 1, dst=out)


def resize_smooth_into(source: UInt8s, out: UInt8s, flip: bool = False) -> None:
    """`resize_into` with Pillow's bilinear, smooth where it shrinks; the interpreter lock is released meanwhile."""
    (height, width), (to_height, to_width) = source.shape[:2], out.shape[:2]
    of_columns, of_rows = row_mixes(width, to_width), row_mixes(height, to_height)
    pixels = source
    if of_columns:
        turned = np.empty((to_width, height, 3), np.uint8)
        _mix(_transposed(source), turned, of_columns)
        pixels, width = _transposed(turned), to_width
    size = to_width, height if of_rows else to_height
    if size != (width, height):
        pixels = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))
    if of_rows:
        _mix(np.asarray(cv2.flip(pixels, 1), np.uint8) if flip else pixels, out, of_rows)
    elif flip:
        cv2.flip(pixels, 1, dst=out)
    else:
        out[:] = pixels


def _transposed(pixels: UInt8s) -> UInt8s:
    """Rows made columns, as a copy."""
    return np.asarray(cv2.transpose(pixels), np.uint8)


def _mix(pixels: UInt8s, out: UInt8s, mixes: tuple[RowMix, ...]) -> None:
    for mix in mixes:
        upper, lower = pixels[mix.upper], pixels[mix.lower]
        cv2.addWeighted(upper, 1 - mix.weight, lower, mix.weight, mix.bias, dst=out[mix.target])


@lru_cache(maxsize=4096)
def row_mixes(height: int, target: int) -> tuple[RowMix, ...]:
    """How the rows of an image of `height` make those of `target` rows, to the bit as Pillow does; none where it does not grow
    or more than `MIXES_MOST` are needed. Columns are the rows of a transposed image.

    Pillow takes one side after the other, columns first, and rounds in between; its weights are integers. Floating-point
    numbers round to the same values if no sum of theirs comes within `FLOAT_ERROR` of a half: this is checked for every
    difference of two rows' values.
    """
    divisor = math.gcd(height, target)
    period, advance = target // divisor, height // divisor
    if height >= target or period > MIXES_MOST:
        return ()
    first, weights = _growing_weights(height, target)
    steps, fixed = _steps(weights)
    groups: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for row in range(target):
        key = row % period, int(first[row]) - row // period * advance, bool(weights[row, 1])
        groups[key].append(row)
    mixes = []
    for rows in groups.values():
        weight, bias, margin = _leaning(steps[rows[0]], int(weights[rows[0], 1]))
        if not fixed or margin < FLOAT_ERROR or (steps[rows] != steps[rows[0]]).any():
            return ()
        begin, end = int(first[rows[0]]), int(first[rows[-1]]) + 1
        below = 1 if weights[rows[0], 1] else 0
        upper, lower = slice(begin, end, advance), slice(begin + below, end + below, advance)
        mixes.append(RowMix(slice(rows[0], rows[-1] + 1, period), upper, lower, weight, bias))
    return tuple(mixes)


def _growing_weights(height: int, target: int) -> tuple[Int64s, Int64s]:
    """Of each row of `target`: the first (target,) of the two that make it, and both weights (target, 2), as Pillow computes
    them (Resample.c: precompute_coeffs, normalize_coeffs_8bpc)."""
    centre = (np.arange(target) + 0.5) * (height / target)
    first = np.maximum((centre - 1 + 0.5).astype(np.int64), 0)
    count = np.minimum((centre + 1 + 0.5).astype(np.int64), height) - first
    places = np.arange(2)
    weights = np.maximum(1 - np.abs(places + first[:, None] - centre[:, None] + 0.5), 0)
    weights = np.where(places < count[:, None], weights, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return first, (0.5 + weights * (1 << PRECISION)).astype(np.int64)


def _steps(weights: Int64s) -> tuple[Int64s, bool]:
    """(n, 511) by how much Pillow's result differs from the upper value, by the difference of both, -255 … 255, for weights
    (n, 2); and whether the difference alone decides."""
    differences = np.arange(-255, 256)
    surplus = weights.sum(axis=1, keepdims=True) - (1 << PRECISION)
    sums = weights[:, 1:] * differences + (1 << PRECISION - 1)
    least, most = np.maximum(-differences, 0), np.minimum(255 - differences, 255)
    low, high = ((sums + surplus * value) >> PRECISION for value in (least, most))
    return low, bool((low == high).all())


def _leaning(steps: Int64s, weight: int) -> tuple[float, float, float]:
    """Weight and bias of floating-point numbers that round to `steps` (511,), and how far from a half they stay."""
    differences, exact = np.arange(-255, 256), weight / (1 << PRECISION)
    candidates = []
    for more, bias in LEANINGS:
        off = differences * (exact + more) + bias - steps
        candidates.append((exact + more, bias, 0.5 - float(np.abs(off).max())))
    return max(candidates, key=lambda one: one[2])


def evaluation_size(height: int, width: int, shorter: int) -> tuple[int, int]:
    """(height, width) with the shorter side about `shorter` and the aspect kept.

    As in the reference (imagenet_preprocessing.py, `_smallest_size_at_least`): both sides by one ratio in float32, rounded
    down, so that of one image size in eight the shorter side is `shorter` - 1 (332 x 500 becomes 255 x 385).
    """
    ratio = np.float32(shorter) / np.float32(min(height, width))
    return int(np.float32(height) * ratio), int(np.float32(width) * ratio)


def bounded_size(
    height: npt.ArrayLike, width: npt.ArrayLike, shorter: int, longest: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Heights and widths with the shorter side `shorter`, or less where the longer one would be above `longest`, aspect kept.

    Rounding as in maskrcnn_benchmark (data/transforms/transforms.py, `Resize.get_size`): the longer side down, a limited
    shorter side to the nearest; so the longer one may pass `longest` by half of the aspect ratio.
    """
    sides = np.stack(np.broadcast_arrays(np.asarray(height, np.int64), np.asarray(width, np.int64)))
    least, most = sides.min(0), sides.max(0)
    bounded = np.rint(longest * least.astype(np.float64) / most).astype(np.int64)
    short = np.where(most / least * shorter > longest, bounded, shorter)
    long = np.trunc(short * most / least).astype(np.int64)
    stands = sides[1] < sides[0]
    return np.where(stands, long, short), np.where(stands, short, long)


def central_into(source: UInt8s, out: UInt8s, shorter: int) -> None:
    """Resize to `evaluation_size`, and write the centre to `out` (H, W, 3); H and W are at most its shorter side."""
    height, width = evaluation_size(source.shape[0], source.shape[1], shorter)
    assert max(out.shape[:2]) <= min(height, width), f"a centre of {out.shape[:2]} of images of {height} x {width}"
    resized = cv2.resize(source, (width, height), interpolation=cv2.INTER_LINEAR)
    top, left = (height - out.shape[0]) // 2, (width - out.shape[1]) // 2
    out[:] = resized[top : top + out.shape[0], left : left + out.shape[1]]
