"""What the anchors of an image learn: labels, a sample of them by hash, regression targets.

Reference rpn/loss.py, matcher.py, balanced_positive_negative_sampler.py: an anchor is positive where it overlaps an object by
0.7 or more, and where no anchor overlaps that object more; negative where it overlaps none by 0.3; and neither of both if it
reaches beyond the image. Half of a sample are positives, or as many as there are.

Most anchors are far from every object. The anchors of one level and one ratio have one size, so what they overlap depends on
the shared width, a function of the column alone, times the shared height, one of the row alone. Those above a limit lie in a
window of columns and rows, which is found without looking at any anchor. The numbers compared are those that looking at all
of them would give, to the last bit.
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
"""Reference defaults.py, RPN.FG_IOU_THRESHOLD and BG_IOU_THRESHOLD."""
POSITIVE_FRACTION = 0.5
"""Of a sample, at most (reference defaults.py)."""


@dataclass(frozen=True)
class Labels:
    """Of all A anchors of an image."""

    value: npt.NDArray[np.int8]
    """(A,) 1 positive, 0 negative, -1 not to be learned."""
    positive: Int64s
    """(p,) flat numbers of the positives, rising."""
    owner: Int64s
    """(p,) the object that each overlaps most."""


@dataclass(frozen=True)
class Sample:
    """S slots of an image, positives first; unused ones have weight 0."""

    anchor: Int32s
    """(S,) flat numbers."""
    label: Float32s
    weight: Float32s
    offset: Float32s
    """(S, 4) what positives regress to."""


@dataclass(frozen=True)
class _Shared:
    """What objects (G,) share with the anchors of a level."""

    level: Level
    width: Float64s
    """(G, columns, R)"""
    height: Float64s
    """(G, rows, R)"""
    areas: Float64s
    """(G, R) areas of both together."""

    def overlap(self, pixels: Float64s, areas: Float64s) -> Float64s:
        """IoU where so many pixels are shared, computed as `boxes.iou` does."""
        return np.asarray(pixels / (areas - pixels))


def label(levels: Sequence[Level], box: Float32s, height: int, width: int) -> Labels:
    """Labels of the anchors of an image with these valid `height` and `width` in pixels and objects (G, 4)."""
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
    """The (rows, columns, R) part of an array over all anchors."""
    return flat[level.first : level.stop].reshape(level.height, level.width, len(level.base))


def _mark_inside(level: Level, value: npt.NDArray[np.generic], height: int, width: int) -> None:
    """Write 0 for the anchors that lie wholly inside the image."""
    for ratio, (left, top, right, bottom) in enumerate(level.base.tolist()):
        columns = _inside(left, right, width, level.stride)
        value[_inside(top, bottom, height, level.stride), columns, ratio] = 0


def _inside(low: float, high: float, side: int, stride: int) -> slice:
    """The cells whose anchor, from `low` to `high` in the first one, lies inside 0 … side - 1."""
    return slice(max(math.ceil(-low / stride), 0), max(math.ceil((side - high) / stride), 0))


def _best(levels: Sequence[Level], box: Float64s) -> tuple[Float64s, Int64s]:
    """Largest overlap (A,) of each anchor, where it matters; and the anchors that some object overlaps most."""
    shared = [_shared(level, box) for level in levels]
    peaks = [one.overlap(one.width.max(axis=1) * one.height.max(axis=1), one.areas) for one in shared]
    of_object = np.max([peak.max(axis=1) for peak in peaks], axis=0)
    limit = np.minimum(of_object, NEGATIVE_IOU)
    best = np.zeros(levels[-1].stop)
    closest: list[Int64s] = []
    for one, peak in zip(shared, peaks, strict=True):
        view = _of_level(best, one.level)
        for number, ratio, rows, columns, overlap in _windows(one, peak, limit):
            part = view[rows, columns, ratio]
            np.maximum(part, overlap, out=part)
            if peak[number, ratio] == of_object[number]:
                y, x = np.nonzero(overlap == of_object[number])
                cell = (y + rows.start) * one.level.width + x + columns.start
                closest.append(one.level.first + cell * len(one.level.base) + ratio)
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


def _windows(one: _Shared, peak: Float64s, limit: Float64s) -> Iterator[tuple[int, int, slice, slice, Float64s]]:
    """Object, ratio, rows, columns and overlaps (rows, columns) wherever these may reach the object's limit (G,)."""
    for number, ratio in zip(*np.nonzero(peak >= limit[:, None]), strict=True):
        across, down = one.width[number, :, ratio], one.height[number, :, ratio]
        areas, least = one.areas[number, ratio], limit[number]
        columns = _span(one.overlap(across * down.max(), areas) >= least)
        rows = _span(one.overlap(down * across.max(), areas) >= least)
        overlap = one.overlap(down[rows, None] * across[columns], areas)
        yield int(number), int(ratio), rows, columns, overlap


def _span(enough: Bools) -> slice:
    """From the first to the last that is True; what is shared grows up to a place and falls after it."""
    first = int(enough.argmax())
    return slice(first, len(enough) - int(enough[::-1].argmax()))


def take(levels: Sequence[Level], flat: Int64s) -> Float32s:
    """Anchors (n, 4) of flat numbers (n,)."""
    taken = np.empty((len(flat), 4), np.float32)
    for level in levels:
        mine = (flat >= level.first) & (flat < level.stop)
        cell, ratio = np.divmod(flat[mine] - level.first, len(level.base))
        row, column = np.divmod(cell, level.width)
        moves = np.stack([column, row, column, row], axis=1) * level.stride
        taken[mine] = moves.astype(np.float32) + level.base[ratio]
    return taken


def sample(labels: Labels, levels: Sequence[Level], box: Float32s, slots: int, key: np.uint64) -> Sample:
    """Draw `slots` anchors: at most half positives, then negatives, each by a hash of its flat number."""
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
        sampled.offset[: len(positive)] = boxes.encode(box[owner], take(levels, positive), boxes.RPN_WEIGHTS)
    return sampled


def _negatives(value: npt.NDArray[np.int8], count: int, key: np.uint64) -> Int64s:
    """The first `count` negatives of a random order of all anchors; all, if there are fewer."""
    order = Permutation(key, len(value))
    blocks: list[Int64s] = []
    have, first, size = 0, 0, max(2 * count, 1)
    while have < count and first < len(value):
        some = order(np.arange(first, min(first + size, len(value))))
        blocks.append(some[value[some] == 0])
        have, first, size = have + len(blocks[-1]), first + size, 4 * size
    return np.concatenate(blocks)[:count] if blocks else np.zeros(0, np.int64)
