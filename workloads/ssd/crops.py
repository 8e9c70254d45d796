"""SSD's random crop and flip, as integer hashes of (seed, epoch, image, round, attempt): equal in every framework.

A round draws one of seven modes: no crop; a crop that overlaps every object by more than 0.1, 0.3, 0.5, 0.7 or 0.9; any
crop. No crop is taken at once. Otherwise some attempts (1 by default) are made: width and height are each uniform in 0.3 … 1
of the image, shapes beyond 1:2 fail, the place is uniform; a window is accepted if its IoU with *every* object is above the
mode's minimum and the centre of at least one object lies inside. If all attempts fail, the next round draws another mode.
Objects whose centre is inside are kept, cut to the window and given in shares of it (reference utils.py, SSDCropping).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.api import Json
from workloads.common.arrays import Bools, Float32s, Float64s, Int32s, Int64s
from workloads.common.randomness import bits, fold, integers, stream, uniform

MINIMUM_IOU = (None, 0.1, 0.3, 0.5, 0.7, 0.9, -1.0)
"""Of each mode; None: no crop; -1: any overlap is above it."""
MAX_ROUNDS = 1000
"""Then the image is not cropped: nothing but odd data under a rule without modes gets there."""
LARGEST_SHAPE = 2.0
"""Width over height, in shares of the image, or the reverse."""
_LIMITS = np.array([-1.0 if minimum is None else minimum for minimum in MINIMUM_IOU])

WHOLE = np.array([0.0, 0.0, 1.0, 1.0])
"""The window of an image that is not cropped."""


@dataclass(frozen=True)
class CropRule:
    """What may differ from the reference's crop."""

    side_minimum: float = 0.3
    """Smallest width and height, in shares of the image."""
    chance: float = 1.0
    """Share of the images that are cropped at all."""
    overlap: bool = True
    """False: any crop will do that has the centre of an object inside; modes are not drawn."""
    attempts: int = 1
    """In a round (`max_samples`)."""

    @classmethod
    def of(cls, model: Mapping[str, Json], attempts: int) -> CropRule:
        """The rule of a model (settings.py)."""
        return cls(
            float(model["crop_side_minimum"]), float(model["crop_chance"]), bool(model["crop_overlap"]), int(attempts)
        )


def windows(seed: int, epoch: int, images: Int64s, boxes: Float32s, ends: Int64s, rule: CropRule) -> Float64s:
    """Windows (b, 4) left, top, right, bottom in shares of images (b,), whose objects `boxes` end at `ends`."""
    accepted = np.tile(WHOLE, (len(images), 1))
    key = stream(seed, "detection crop", epoch)
    waiting = np.flatnonzero(uniform(bits(key, 0, images)) < rule.chance)
    for number in range(1, MAX_ROUNDS + 1):
        if not waiting.size:
            break
        round_key = fold(key, number)
        mode = integers(bits(round_key, 0, images[waiting]), len(MINIMUM_IOU))
        if not rule.overlap:
            mode[:] = len(MINIMUM_IOU) - 1
        waiting, mode = waiting[mode > 0], mode[mode > 0]
        for attempt in range(1, rule.attempts + 1):
            if not waiting.size:
                break
            window = _draw(fold(round_key, attempt), images[waiting], rule.side_minimum)
            fits = _accepted(window, _LIMITS[mode], *_objects_of(waiting, boxes, ends))
            accepted[waiting[fits]] = window[fits]
            waiting, mode = waiting[~fits], mode[~fits]
    return accepted


def flips(seed: int, epoch: int, images: Int64s) -> Bools:
    """Whether each image (b,) is mirrored left and right: one half of them."""
    return integers(bits(stream(seed, "detection flip", epoch), images), 2).astype(bool)


def inside(
    windows: Float64s, mirrored: Bools, boxes: Float32s, labels: Int32s, ends: Int64s
) -> tuple[Float32s, Int32s, Int64s]:
    """What is left of the objects: boxes in shares of their window, mirrored where the image is, labels, ends.

    In an image that is not cropped all are left as they are, also what reaches beyond the image.
    """
    image = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    whole = (windows == WHOLE).all(axis=1)
    kept = whole[image] | _centred(boxes, windows[image])
    image = image[kept]
    window = windows[image]
    box = boxes[kept].astype(np.float64)
    cut = np.clip(box, np.tile(window[:, :2], 2), np.tile(window[:, 2:], 2))
    box = np.where(whole[image][:, None], box, cut)
    box -= np.tile(window[:, :2], 2)
    box /= np.tile(window[:, 2:] - window[:, :2], 2)
    turned = mirrored[image]
    box[turned, 0::2] = 1.0 - box[turned, 2::-2]
    counts = np.bincount(image, minlength=len(ends))
    return box.astype(np.float32), labels[kept], np.cumsum(counts, dtype=np.int64)


def pixels(windows: Float64s, widths: npt.ArrayLike, heights: npt.ArrayLike) -> Int64s:
    """Windows (b, 4) as left, top, width, height in whole pixels of images of the given sizes; edges are rounded down."""
    width, height = np.asarray(widths, np.int64), np.asarray(heights, np.int64)
    size = np.stack([width, height, width, height], axis=1)
    edges = np.floor(windows * size).astype(np.int64)
    first = np.minimum(edges[:, :2], size[:, :2] - 1)
    return np.concatenate([first, np.maximum(edges[:, 2:] - first, 1)], axis=1)


def _draw(key: np.uint64, images: Int64s, side_minimum: float) -> Float64s:
    """One window for each image; those of a forbidden shape are empty and lie outside the image."""
    width, height, left, top = (uniform(bits(key, draw, images)) for draw in range(4))
    width = side_minimum + (1.0 - side_minimum) * width
    height = side_minimum + (1.0 - side_minimum) * height
    left, top = left * (1.0 - width), top * (1.0 - height)
    shape = width / height
    window = np.stack([left, top, left + width, top + height], axis=1)
    window[(shape < 1.0 / LARGEST_SHAPE) | (shape > LARGEST_SHAPE)] = -1.0
    return window


def _objects_of(rows: Int64s, boxes: Float32s, ends: Int64s) -> tuple[Float64s, Int64s]:
    """Boxes of some images (k,), end to end, and for each box the place of its image among them."""
    counts = np.diff(ends, prepend=0)[rows]
    stops = np.cumsum(counts)
    image = np.repeat(np.arange(len(rows)), counts)
    return boxes[np.arange(len(image)) + np.repeat(ends[rows] - stops, counts)].astype(np.float64), image


def _accepted(window: Float64s, minimum: Float64s, boxes: Float64s, image: Int64s) -> Bools:
    """Which windows (k, 4) overlap every object of their image by more than `minimum` (k,), and hold a centre."""
    window_of_box = window[image]
    size = np.minimum(boxes[:, 2:], window_of_box[:, 2:]) - np.maximum(boxes[:, :2], window_of_box[:, :2])
    shared = np.maximum(size, 0.0).prod(axis=1)
    union = (
        (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) + (window_of_box[:, 2:] - window_of_box[:, :2]).prod(axis=1) - shared
    )
    above = shared > minimum[image] * union
    count = len(window)
    all_above = np.bincount(image[~above], minlength=count) == 0
    any_inside = np.bincount(image[_centred(boxes, window_of_box)], minlength=count) > 0
    return np.asarray(all_above & any_inside)


def _centred(boxes: npt.NDArray[np.floating], windows: Float64s) -> Bools:
    """Which boxes (m, 4) have their centre inside their window (m, 4)."""
    middle = (boxes[:, :2].astype(np.float64) + boxes[:, 2:]) / 2
    return np.asarray(((middle > windows[:, :2]) & (middle < windows[:, 2:])).all(axis=1))
