"""Random crop and flip of SSD, drawn by integer hashes, identical in every framework.

The hash depends on (seed, epoch, image, round, attempt). The rules follow the reference (utils.py,
SSDCropping):

- A round draws one of seven modes: no crop, a crop that overlaps every object by more than 0.1,
  0.3, 0.5, 0.7, or 0.9, or any crop.
- The mode without a crop is accepted immediately. In every other mode, the round makes a number of
  attempts (1 by default).
- An attempt draws a crop window. The width and height of the window are uniform in 0.3 … 1 of the
  image, and the position of the window is uniform within the image. Windows with an aspect ratio
  beyond 1:2 are rejected.
- A window is accepted if its IoU with *every* object is above the minimum of the mode, and if the
  window contains the center of at least one object.
- If all attempts fail, the next round draws a new mode.
- Objects whose center is inside the window are kept. The boxes of these objects are clipped to the
  window and expressed as fractions of the window.
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
"""Minimum IoU of each crop mode. None means no crop. -1 means any crop, because every IoU is higher
than -1.
"""
MAX_ROUNDS = 1000
"""Number of rounds after which an image remains uncropped.

Only unusual data needs 1,000 rounds, with a crop rule that has no modes.
"""
LARGEST_SHAPE = 2.0
"""Maximum of width / height and of height / width of a crop window, with both sides as fractions of
the image.
"""
_LIMITS = np.array([-1.0 if minimum is None else minimum for minimum in MINIMUM_IOU])

WHOLE = np.array([0.0, 0.0, 1.0, 1.0])
"""Crop window of an image that is not cropped."""


@dataclass(frozen=True)
class CropRule:
    """Parameters of the crop. The defaults are the values of the reference."""

    side_minimum: float = 0.3
    """Minimum width and minimum height of a crop window, as a fraction of the image."""
    chance: float = 1.0
    """Probability that an image is cropped."""
    overlap: bool = True
    """Whether each round draws a mode with a minimum IoU.

    If False, any crop that contains the center of an object is accepted.
    """
    attempts: int = 1
    """Number of attempts per round (option `max_samples`)."""

    @classmethod
    def of(cls, model: Mapping[str, Json], attempts: int) -> CropRule:
        """Return the crop rule in the settings `model` (settings.py)."""
        return cls(
            float(model["crop_side_minimum"]),
            float(model["crop_chance"]),
            bool(model["crop_overlap"]),
            int(attempts),
        )


def windows(
    seed: int, epoch: int, images: Int64s, boxes: Float32s, ends: Int64s, rule: CropRule
) -> Float64s:
    """Return the crop windows (b, 4) of images (b,).

    A window is (left, top, right, bottom) as fractions of the image. `boxes` contains the
    concatenated boxes of the images' objects. `ends` (b,) contains the end offset of each image's
    objects.
    """
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
    """Return whether each image (b,) is flipped, with a probability of 50 %."""
    return integers(bits(stream(seed, "detection flip", epoch), images), 2).astype(bool)


def inside(
    windows: Float64s, mirrored: Bools, boxes: Float32s, labels: Int32s, ends: Int64s
) -> tuple[Float32s, Int32s, Int64s]:
    """Return boxes, labels, and end offsets of the objects inside of the crop windows.

    An object is inside of a window if the window contains the center of the object. The boxes are
    fractions of the window, and the boxes of flipped images are flipped, too. If an image is not
    cropped, all of its objects are kept without clipping, even if they extend beyond the image.
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
    """Return windows (b, 4) as left, top, width, height in pixels of the images.

    Fractions of a pixel are rounded down.
    """
    width, height = np.asarray(widths, np.int64), np.asarray(heights, np.int64)
    size = np.stack([width, height, width, height], axis=1)
    edges = np.floor(windows * size).astype(np.int64)
    first = np.minimum(edges[:, :2], size[:, :2] - 1)
    return np.concatenate([first, np.maximum(edges[:, 2:] - first, 1)], axis=1)


def _draw(key: np.uint64, images: Int64s, side_minimum: float) -> Float64s:
    """Return a random crop window for each image.

    If the aspect ratio is rejected, the function returns an empty window outside of the image.
    """
    width, height, left, top = (uniform(bits(key, draw, images)) for draw in range(4))
    width = side_minimum + (1.0 - side_minimum) * width
    height = side_minimum + (1.0 - side_minimum) * height
    left, top = left * (1.0 - width), top * (1.0 - height)
    shape = width / height
    window = np.stack([left, top, left + width, top + height], axis=1)
    window[(shape < 1.0 / LARGEST_SHAPE) | (shape > LARGEST_SHAPE)] = -1.0
    return window


def _objects_of(rows: Int64s, boxes: Float32s, ends: Int64s) -> tuple[Float64s, Int64s]:
    """Return the boxes of the images `rows` (k,), and the index into `rows` of each box."""
    counts = np.diff(ends, prepend=0)[rows]
    stops = np.cumsum(counts)
    image = np.repeat(np.arange(len(rows)), counts)
    return (
        boxes[np.arange(len(image)) + np.repeat(ends[rows] - stops, counts)].astype(np.float64),
        image,
    )


def _accepted(window: Float64s, minimum: Float64s, boxes: Float64s, image: Int64s) -> Bools:
    """Return whether each window (k, 4) is accepted.

    A window is accepted if its IoU with every object of its image is above `minimum` (k,) and the
    window contains the center of an object.
    """
    window_of_box = window[image]
    size = np.minimum(boxes[:, 2:], window_of_box[:, 2:]) - np.maximum(
        boxes[:, :2], window_of_box[:, :2]
    )
    shared = np.maximum(size, 0.0).prod(axis=1)
    union = (
        (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
        + (window_of_box[:, 2:] - window_of_box[:, :2]).prod(axis=1)
        - shared
    )
    above = shared > minimum[image] * union
    count = len(window)
    all_above = np.bincount(image[~above], minlength=count) == 0
    any_inside = np.bincount(image[_centred(boxes, window_of_box)], minlength=count) > 0
    return np.asarray(all_above & any_inside)


def _centred(boxes: npt.NDArray[np.floating], windows: Float64s) -> Bools:
    """Return whether the center of each box (m, 4) is inside of its window (m, 4)."""
    middle = (boxes[:, :2].astype(np.float64) + boxes[:, 2:]) / 2
    return np.asarray(((middle > windows[:, :2]) & (middle < windows[:, 2:])).all(axis=1))
