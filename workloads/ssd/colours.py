"""Color jitter on uint8 images, equivalent to torchvision's ColorJitter.

The corresponding file of torchvision is functional_pil.py. The random choices are integer hashes.
The color jitter consists of four changes in random order, each with a separate random factor f:

    brightness   f · x                                    f in 1 ± brightness
    contrast     m + f · (x - m)                          m: mean of the gray image, rounded
    saturation   g + f · (x - g)                          g: rounded gray, 0.299R + 0.587G + 0.114B
    hue          angle + f · 360 degrees                  f in ± hue: 0.05 is 18 degrees

After each change, the pixel values are clipped to 0 … 255 and converted to integers, as in
torchvision.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import cv2
import numpy as np

from workloads.common.arrays import Float32s, Float64s, Int64s, UInt8s
from workloads.common.randomness import bits, integers, stream, uniform

ORDERS = np.array(list(itertools.permutations(range(4))))
"""Possible orders (24, 4) of the changes: brightness is 0, contrast 1, saturation 2, and hue 3."""
_CUT = -0.499
_LEVELS = np.arange(256, dtype=np.float32)


def draw(
    seed: int, epoch: int, images: Int64s, strengths: Sequence[float]
) -> tuple[Float64s, Int64s]:
    """Return factors (b, 4) and orders (b, 4) of the changes for images (b,).

    `strengths` contains the strengths of brightness, contrast, saturation, and hue.
    """
    key = stream(seed, "detection colours", epoch)
    signed = 2.0 * uniform(bits(key, np.asarray(images)[:, None], np.arange(4))) - 1.0
    factors = np.array([1.0, 1.0, 1.0, 0.0]) + signed * np.asarray(strengths, np.float64)
    return factors, ORDERS[integers(bits(key, images, 4), len(ORDERS))]


def jitter(image: UInt8s, factors: Sequence[float], order: Sequence[int]) -> None:
    """Apply color jitter to a contiguous RGB image (H, W, 3) in place.

    A change whose factor has no effect is skipped.
    """
    for change in order:
        factor = float(factors[change])
        if factor != (0.0 if change == 3 else 1.0):
            _CHANGES[change](image, factor)


def _brightness(image: UInt8s, factor: float) -> None:
    cv2.LUT(image, _table(factor * _LEVELS), dst=image)


def _contrast(image: UInt8s, factor: float) -> None:
    mean = np.floor(cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0] + 0.5)
    cv2.LUT(image, _table(mean + factor * (_LEVELS - np.float32(mean))), dst=image)


def _saturation(image: UInt8s, factor: float) -> None:
    grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    # OpenCV rounds, but torchvision truncates. Subtracting nearly 0.5 before the rounding is
    # equivalent to truncation. The subtracted number is slightly less than 0.5, so that integers do
    # not change.
    cv2.addWeighted(image, factor, grey, 1.0 - factor, _CUT, dst=image)


def _hue(image: UInt8s, factor: float) -> None:
    turned = cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL)
    # The full circle of hues has 256 steps, as in Pillow's HSV. The addition of unsigned bytes
    # overflows, so the hue wraps around.
    turned[..., 0] += np.uint8(int(np.rint(factor * 256)) % 256)
    cv2.cvtColor(turned, cv2.COLOR_HSV2RGB_FULL, dst=image)


def _table(values: Float32s) -> UInt8s:
    """Return `values` as a uint8 lookup table (256,)."""
    return np.clip(values, 0, 255).astype(np.uint8)


_CHANGES = (_brightness, _contrast, _saturation, _hue)
