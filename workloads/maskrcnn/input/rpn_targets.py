"""RPN targets: labels of the anchors of an image, sampled anchors, regression targets.

A hash determines the sampled anchors. The rules follow the reference (rpn/loss.py, matcher.py,
balanced_positive_negative_sampler.py):

- An anchor is positive if its overlap with an object is 0.7 or more, or if no anchor overlaps that
  object more.
- An anchor is negative if its overlap with every object is less than 0.3.
- An anchor that extends beyond the image is neither positive nor negative.
- Up to half of the sampled anchors are positive.

Most anchors are far from every object, so the code searches only some anchors. The anchors of a
level with the same aspect ratio have the same size. The overlap of these anchors with an object
therefore depends only on the intersection's width and height. The width is a function of the
column, and the height is a function of the row. The anchors with an overlap above a limit are
within a rectangle of columns and rows. The code finds the rectangle without computing the overlap
of each anchor. The computed overlaps are bit-identical to the overlaps of an exhaustive search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Bools, Float32s, Float64s, Int32s, Int64s
from workloads.common.randomness import Permutation, bits, fold
from workloads.maskrcnn import boxes
from workloads.maskrcnn.anchors import Level

POSITIVE_IOU, NEGATIVE_IOU = 0.7, 0.3
"""IoU limits of positive and negative anchors (reference defaults.py, RPN.FG_IOU_THRESHOLD and
BG_IOU_THRESHOLD).
"""
POSITIVE_FRACTION = 0.5
"""Maximum fraction of positive anchors in a sample (reference defaults.py)."""


@dataclass(frozen=True)
class Labels:
    """Labels of all A anchors of an image."""

    value: npt.NDArray[np.int8]
    """Label (A,) of each anchor: 1 for positive anchors, 0 for negative anchors, -1 for ignored
    anchors.
    """
    positive: Int64s
    """Indices (p,) of the positive anchors in ascending order."""
    owner: Int64s
    """Index (p,) of the object that each positive anchor overlaps most."""


@dataclass(frozen=True)
class Sample:
    """The S sampled anchors of an image, with the positive anchors first.

    Unused slots of the arrays have weight 0.
    """

    anchor: Int32s
    """Index (S,) of each sampled anchor among all anchors."""
    label: Float32s
    """Label (S,) of each sampled anchor: 1 for positive anchors, else 0."""
    weight: Float32s
    """Weight (S,) of each slot: 1 for used slots, 0 for unused slots."""
    offset: Float32s
    """Regression targets (S, 4) of the positive anchors."""


@dataclass(frozen=True)
class _Shared:
    """Widths and heights of the intersections of G objects and the anchors of a level."""

    level: Level
    width: Float64s
    """Widths (G, columns, R) of the intersections in pixels."""
    height: Float64s
    """Heights (G, rows, R) of the intersections in pixels."""
    areas: Float64s
    """Sums (G, R) of the area of the object and the area of the anchor."""

    def overlap(self, pixels: Float64s, areas: Float64s) -> Float64s:
        """Return the IoU of boxes whose intersections have `pixels` pixels.

        `areas` are the sums of the areas of both boxes. The operations are the same as in
        `boxes.iou`.
        """
        return np.asarray(pixels / (areas - pixels))


def label(levels: Sequence[Level], box: Float32s, height: int, width: int) -> Labels:
    """Return the labels of an image's anchors.

    Args:
        levels: Levels of the anchors.
        box: Boxes (G, 4) of the objects.
        height: Height of the image without padding, in pixels.
        width: Width of the image without padding, in pixels.
    """
    value = np.full(levels[-1].stop, -1, np.int8)
    for level in levels:
        _mark_inside(level, _of_level(value, level), height, width)
    if not len(box):
        none = np.zeros(0, np.int64)
        return Labels(value, none, none)
    wide = box.astype(np.float64)
    best, closest = _best(levels, wide)
    inside = value == 0
    positive = np.union1d(np.flatnonzero(best >= POSITIVE_IOU), closest)
    positive = positive[inside[positive]]
    value[inside & (best >= NEGATIVE_IOU)] = -1
    value[positive] = 1
    owner = boxes.iou(wide, take(levels, positive).astype(np.float64)).argmax(axis=0)
    return Labels(value, positive, owner)


def _of_level(flat: npt.NDArray[np.generic], level: Level) -> npt.NDArray[np.generic]:
    """Return the slice of an array over all anchors that belongs to a pyramid level.

    The slice has the shape (rows, columns, R).
    """
    return flat[level.first : level.stop].reshape(level.height, level.width, len(level.base))


def _mark_inside(level: Level, value: npt.NDArray[np.generic], height: int, width: int) -> None:
    """Set `value` to 0 for the anchors that are entirely inside of the image."""
    for ratio, (left, top, right, bottom) in enumerate(level.base.tolist()):
        columns = _inside(left, right, width, level.stride)
        value[_inside(top, bottom, height, level.stride), columns, ratio] = 0


def _inside(low: float, high: float, side: int, stride: int) -> slice:
    """Return the cells along an axis whose anchors are inside of 0 … `side` - 1.

    The anchor of the first cell extends from `low` to `high`.
    """
    return slice(max(math.ceil(-low / stride), 0), max(math.ceil((side - high) / stride), 0))


def _best(levels: Sequence[Level], box: Float64s) -> tuple[Float64s, Int64s]:
    """Return the largest overlap (A,) of each anchor, and the best anchors of each object.

    Overlaps that cannot influence a label may be replaced by 0.
    """
    shared = [_shared(level, box) for level in levels]
    peaks = [
        part.overlap(part.width.max(axis=1) * part.height.max(axis=1), part.areas)
        for part in shared
    ]
    of_object = np.max([peak.max(axis=1) for peak in peaks], axis=0)
    limit = np.minimum(of_object, NEGATIVE_IOU)
    best = np.zeros(levels[-1].stop)
    closest: list[Int64s] = []
    for level_shared, peak in zip(shared, peaks, strict=True):
        level = level_shared.level
        view = _of_level(best, level)
        for number, ratio, rows, columns, overlap in _windows(level_shared, peak, limit):
            window = view[rows, columns, ratio]
            np.maximum(window, overlap, out=window)
            if peak[number, ratio] == of_object[number]:
                y, x = np.nonzero(overlap == of_object[number])
                cell = (y + rows.start) * level.width + x + columns.start
                closest.append(level.first + cell * len(level.base) + ratio)
    return best, np.concatenate(closest)


def _shared(level: Level, box: Float64s) -> _Shared:
    base = level.base.astype(np.float64)
    sides = []
    for axis, count in ((0, level.width), (1, level.height)):
        moves = (np.arange(count) * level.stride)[:, None]
        low = np.maximum(base[:, axis] + moves, box[:, None, None, axis])
        high = np.minimum(base[:, axis + 2] + moves, box[:, None, None, axis + 2])
        sides.append(np.maximum(high - low + 1, 0))
    return _Shared(level, sides[0], sides[1], boxes.area(box)[:, None] + boxes.area(base))


def _windows(
    shared: _Shared, peak: Float64s, limit: Float64s
) -> Iterator[tuple[int, int, slice, slice, Float64s]]:
    """Yield the rectangles of anchors whose overlap may reach an object's limit.

    `limit` (G,) contains the limits of the objects. Each tuple consists of the object, the aspect
    ratio, rows, columns, and the overlaps (rows, columns).
    """
    for number, ratio in zip(*np.nonzero(peak >= limit[:, None]), strict=True):
        across, down = shared.width[number, :, ratio], shared.height[number, :, ratio]
        areas, least = shared.areas[number, ratio], limit[number]
        columns = _span(shared.overlap(across * down.max(), areas) >= least)
        rows = _span(shared.overlap(down * across.max(), areas) >= least)
        overlap = shared.overlap(down[rows, None] * across[columns], areas)
        yield int(number), int(ratio), rows, columns, overlap


def _span(enough: Bools) -> slice:
    """Return the slice from the first True to the last True.

    All elements in between are True, because the length of the intersection along the axis
    increases to a maximum and then decreases.
    """
    first = int(enough.argmax())
    return slice(first, len(enough) - int(enough[::-1].argmax()))


def take(levels: Sequence[Level], flat: Int64s) -> Float32s:
    """Return the anchors (n, 4) with indices `flat` (n,)."""
    taken = np.empty((len(flat), 4), np.float32)
    for level in levels:
        in_level = (flat >= level.first) & (flat < level.stop)
        cell, ratio = np.divmod(flat[in_level] - level.first, len(level.base))
        row, column = np.divmod(cell, level.width)
        moves = np.stack([column, row, column, row], axis=1) * level.stride
        taken[in_level] = moves.astype(np.float32) + level.base[ratio]
    return taken


def sample(
    labels: Labels, levels: Sequence[Level], box: Float32s, slots: int, key: np.uint64
) -> Sample:
    """Draw up to `slots` anchors by a hash of their indices.

    At most half of the slots are positive anchors. Negative anchors fill the remaining slots.
    """
    positive, owner = labels.positive, labels.owner
    most = int(slots * POSITIVE_FRACTION)
    if len(positive) > most:
        chosen = np.sort(np.argsort(bits(key, 1, positive), kind="stable")[:most])
        positive, owner = positive[chosen], owner[chosen]
    negative = _negatives(labels.value, slots - len(positive), fold(key, 2))
    used = len(positive) + len(negative)
    sampled = Sample(
        anchor=np.zeros(slots, np.int32),
        label=np.zeros(slots, np.float32),
        weight=np.zeros(slots, np.float32),
        offset=np.zeros((slots, 4), np.float32),
    )
    sampled.anchor[: len(positive)], sampled.anchor[len(positive) : used] = positive, negative
    sampled.label[: len(positive)] = 1
    sampled.weight[:used] = 1
    if len(positive):
        sampled.offset[: len(positive)] = boxes.encode(
            box[owner], take(levels, positive), boxes.RPN_WEIGHTS
        )
    return sampled


def _negatives(value: npt.NDArray[np.int8], count: int, key: np.uint64) -> Int64s:
    """Return the first `count` negative anchors in a random order.

    If the image has fewer than `count` negative anchors, all negative anchors are returned.
    """
    order = Permutation(key, len(value))
    blocks: list[Int64s] = []
    have, first, size = 0, 0, max(2 * count, 1)
    while have < count and first < len(value):
        block = order(np.arange(first, min(first + size, len(value))))
        blocks.append(block[value[block] == 0])
        have, first, size = have + len(blocks[-1]), first + size, 4 * size
    return np.concatenate(blocks)[:count] if blocks else np.zeros(0, np.int64)
