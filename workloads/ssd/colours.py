"""Colour jitter with the meaning that it has in torchvision, on uint8 images; choices are integer hashes of coordinates.

Four changes in random order, each by a factor of its own (torchvision's ColorJitter, functional_pil.py):

    brightness   f · x                                    f in 1 ± brightness
    contrast     m + f · (x - m)                          m: mean of the grey image, rounded
    saturation   g + f · (x - g)                          g: the pixel's grey, 0.299 R + 0.587 G + 0.114 B, rounded
    hue          the angle turns by f · 360 degrees       f in ± hue: 0.05 is 18 degrees

After each the values are cut to 0 … 255 and made whole, as they are there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import cv2
import numpy as np

from workloads.common.arrays import Float32s, Float64s, Int64s, UInt8s
from workloads.common.randomness import bits, integers, stream, uniform

ORDERS = np.array(list(itertools.permutations(range(4))))
"""(24, 4) of brightness 0, contrast 1, saturation 2, hue 3."""
_CUT = -0.499
_LEVELS = np.arange(256, dtype=np.float32)


def draw(seed: int, epoch: int, images: Int64s, strengths: Sequence[float]) -> tuple[Float64s, Int64s]:
    """Factors (b, 4) and orders (b, 4) for images (b,); `strengths` of brightness, contrast, saturation and hue."""
    key = stream(seed, "detection colours", epoch)
    signed = 2.0 * uniform(bits(key, np.asarray(images)[:, None], np.arange(4))) - 1.0
    factors = np.array([1.0, 1.0, 1.0, 0.0]) + signed * np.asarray(strengths, np.float64)
    return factors, ORDERS[integers(bits(key, images, 4), len(ORDERS))]


def jitter(image: UInt8s, factors: Sequence[float], order: Sequence[int]) -> None:
    """Change `image` (H, W, 3) RGB, contiguous, in place. Changes whose factor does nothing are left out."""
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
    # OpenCV rounds where torchvision cuts the fraction off: nearly half a level less, so that whole values stay.
    cv2.addWeighted(image, factor, grey, 1.0 - factor, _CUT, dst=image)


def _hue(image: UInt8s, factor: float) -> None:
    turned = cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL)
    # 256 steps of hue in a circle, as in Pillow's HSV; unsigned bytes wrap around.
    turned[..., 0] += np.uint8(int(np.rint(factor * 256)) % 256)
    cv2.cvtColor(turned, cv2.COLOR_HSV2RGB_FULL, dst=image)


def _table(values: Float32s) -> UInt8s:
    """What each of 256 levels becomes."""
    return np.clip(values, 0, 255).astype(np.uint8)


_CHANGES = (_brightness, _contrast, _saturation, _hue)
