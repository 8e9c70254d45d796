"""The kernels themselves. Imported where Triton is there and a GPU, or by tests in Triton's interpreter."""

from __future__ import annotations

import triton
import triton.language as tl

from workloads.common.randomness import GAMMA, MULTIPLIER_1, MULTIPLIER_2


def _signed(value: int) -> tl.constexpr:
    """The int64 with the bits of a uint64: products and sums of both wrap alike."""
    return tl.constexpr(value - (1 << 64) if value >> 63 else value)


_GAMMA, _MULTIPLIER_1, _MULTIPLIER_2 = _signed(GAMMA), _signed(MULTIPLIER_1), _signed(MULTIPLIER_2)


@triton.jit
def _hashed(state, coordinate):  # type: ignore[no-untyped-def]
    """`randomness.bits` of one coordinate more; its shifts keep no sign."""
    state = state + (coordinate + 1) * _GAMMA
    state = (state ^ ((state >> 30) & ((1 << 34) - 1))) * _MULTIPLIER_1
    state = (state ^ ((state >> 27) & ((1 << 37) - 1))) * _MULTIPLIER_2
    return state ^ ((state >> 31) & ((1 << 33) - 1))


@triton.jit
def draw(keys, positions, out, begin, least, factor, count, each, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Dropout masks: `count` hashes, `each` of them to a row, which has a key and a position; four values of a hash."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    at = first + tl.arange(0, BLOCK)
    row = at // each
    key = tl.load(keys + row, mask=at < count, other=0)
    position = tl.load(positions + row, mask=at < count, other=0)
    state = _hashed(_hashed(_hashed(begin + tl.zeros([BLOCK], tl.int64), key), position), at % each)
    even = tl.interleave(state & 65535, (state >> 32) & 65535)
    odd = tl.interleave((state >> 16) & 65535, (state >> 48) & 65535)
    kept = tl.where(tl.interleave(even, odd) >= least, factor, 0.0)
    places = first * 4 + tl.arange(0, BLOCK * 4)
    tl.store(out + places, kept.to(tl.float32), mask=places < count * 4)


@triton.jit
def suppress(boxes, keeps, count, most_iou, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Which of an image's boxes (count, 4), best first, no better kept one overlaps by more; one program for an image."""
    boxes += tl.program_id(0).to(tl.int64) * count * 4
    at = tl.arange(0, SIZE)
    inside = at < count
    left, top = tl.load(boxes + at * 4, mask=inside, other=0.0), tl.load(boxes + at * 4 + 1, mask=inside, other=0.0)
    right, bottom = (
        tl.load(boxes + at * 4 + 2, mask=inside, other=0.0),
        tl.load(boxes + at * 4 + 3, mask=inside, other=0.0),
    )
    areas = (right - left) * (bottom - top)
    alive = tl.where(inside, 1, 0)
    number = 0
    while number < count:
        if tl.sum(tl.where(at == number, alive, 0)) > 0:
            x1, y1 = tl.load(boxes + number * 4), tl.load(boxes + number * 4 + 1)
            x2, y2 = tl.load(boxes + number * 4 + 2), tl.load(boxes + number * 4 + 3)
            width = tl.maximum(tl.minimum(right, x2) - tl.maximum(left, x1), 0.0)
            height = tl.maximum(tl.minimum(bottom, y2) - tl.maximum(top, y1), 0.0)
            shared = width * height
            overlap = shared / (areas + (x2 - x1) * (y2 - y1) - shared)
            alive = tl.where((at > number) & (overlap > most_iou), 0, alive)
        number += 1
    tl.store(keeps + tl.program_id(0).to(tl.int64) * count + at, alive.to(tl.float32), mask=inside)
