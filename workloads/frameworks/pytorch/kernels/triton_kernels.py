"""Triton kernels for dropout, box suppression, NCF samples, and cross-entropy.

This module may be imported only if Triton and a GPU are available, or by tests in Triton's
interpreter.
"""

from __future__ import annotations

import triton
import triton.language as tl

from workloads.common.randomness import GAMMA, MULTIPLIER_1, MULTIPLIER_2


def _signed(value: int) -> tl.constexpr:
    """Convert a uint64 to the int64 with the same bits.

    Products and sums of int64 and uint64 overflow equally.
    """
    return tl.constexpr(value - (1 << 64) if value >> 63 else value)


_GAMMA, _MULTIPLIER_1, _MULTIPLIER_2 = _signed(GAMMA), _signed(MULTIPLIER_1), _signed(MULTIPLIER_2)


@triton.jit
def _hashed(state, coordinate):  # type: ignore[no-untyped-def]
    """Apply one step of the hash of `randomness.bits`, with logical right shifts."""
    state = state + (coordinate + 1) * _GAMMA
    state = (state ^ ((state >> 30) & ((1 << 34) - 1))) * _MULTIPLIER_1
    state = (state ^ ((state >> 27) & ((1 << 37) - 1))) * _MULTIPLIER_2
    return state ^ ((state >> 31) & ((1 << 33) - 1))


@triton.jit
def _kept(state, least, factor):  # type: ignore[no-untyped-def]
    """Return four dropout factors for each hash.

    A factor is 0 if its 16 bits of the hash are below `least`, else `factor`.
    """
    even = tl.interleave(state & 65535, (state >> 32) & 65535)
    odd = tl.interleave((state >> 16) & 65535, (state >> 48) & 65535)
    return tl.where(tl.interleave(even, odd) >= least, factor, 0.0).to(tl.float32)


@triton.jit
def draw(keys, positions, out, begin, least, factor, count, each, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute dropout masks with `count` hashes, each of which gives four factors.

    Each row of a mask has a key and a position, and uses `each` hashes.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    at = first + tl.arange(0, BLOCK)
    row = at // each
    key = tl.load(keys + row, mask=at < count, other=0)
    position = tl.load(positions + row, mask=at < count, other=0)
    state = _hashed(_hashed(_hashed(begin + tl.zeros([BLOCK], tl.int64), key), position), at % each)
    places = first * 4 + tl.arange(0, BLOCK * 4)
    tl.store(out + places, _kept(state, least, factor), mask=places < count * 4)


@triton.jit
def drop(  # type: ignore[no-untyped-def]
    y,
    x,
    keys,
    positions,
    out,
    begin,
    first,
    least,
    factor,
    each,
    ADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Multiply rows y (R, 4 · each) by dropout masks.

    The masks are the masks that `draw` computes from keys and positions.

    The first `first` hashes of each row are skipped. With ADDED, x is added to the product.
    """
    row = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    state = _hashed(_hashed(begin, tl.load(keys + row)), tl.load(positions + row))
    kept = _kept(
        _hashed(state + tl.zeros([BLOCK], tl.int64), (first + number).to(tl.int64)), least, factor
    )
    places = tl.program_id(1) * (BLOCK * 4) + tl.arange(0, BLOCK * 4)
    inside, at = places < each * 4, row * each * 4 + places
    value = tl.load(y + at, mask=inside, other=0.0).to(tl.float32) * kept
    if ADDED:
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) + value
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def suppress(boxes, keeps, count, most_iou, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Mark the boxes (count, 4) of an image that remain after non-maximum suppression.

    Each program processes one image.

    The boxes must be sorted, with the best box first. A box is dropped if a kept box with a better
    score overlaps it by more than `most_iou`.
    """
    boxes += tl.program_id(0).to(tl.int64) * count * 4
    at = tl.arange(0, SIZE)
    inside = at < count
    left, top = (
        tl.load(boxes + at * 4, mask=inside, other=0.0),
        tl.load(boxes + at * 4 + 1, mask=inside, other=0.0),
    )
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


@triton.jit
def _permuted(order, x, inside, left_size, right_size, width, ROUNDS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Apply one pass of `randomness.Permutation` with the tables `order`.

    The tables are int32 (ROUNDS, width).
    """
    left = x // right_size
    right = x - left * right_size
    for number in tl.static_range(ROUNDS):
        if number % 2:
            right = right + tl.load(order + number * width + left, mask=inside, other=0)
            right = tl.where(right >= right_size, right - right_size, right)
        else:
            left = left + tl.load(order + number * width + right, mask=inside, other=0)
            left = tl.where(left >= left_size, left - left_size, left)
    return left * right_size + right


@triton.jit
def rated(  # type: ignore[no-untyped-def]
    order, draw, of_user, of_item, bitmap, users, items, labels, weights, count, size, left_size,
    right_size, width,
    items_total, row_bytes, ROUNDS: tl.constexpr, NEGATIVES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the training samples of NCF (workloads/ncf/data.py).

    `draw` contains the first position in the permutation, the number of valid samples, and the key
    of the negative samples. Users, items, labels, and weights after the valid samples are 0. Every
    (1 + NEGATIVES)-th of the `size` samples is a positive sample.
    """
    first, real, key = tl.load(draw), tl.load(draw + 1), tl.load(draw + 2)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < real
    sample = _permuted(
        order, tl.where(inside, first + at, first), inside, left_size, right_size, width, ROUNDS
    )
    # The loop repeats the permutation until all samples are below `size`.
    while tl.max(((sample >= size) & inside).to(tl.int32), 0) > 0:
        beyond = sample >= size
        walked = _permuted(order, sample, inside & beyond, left_size, right_size, width, ROUNDS)
        sample = tl.where(beyond, walked, sample)
    positive = sample // (1 + NEGATIVES)
    k = sample - positive * (1 + NEGATIVES)
    user = tl.load(of_user + positive, mask=inside, other=0).to(tl.int64)
    item = tl.load(of_item + positive, mask=inside, other=0).to(tl.int64)
    rejected, attempt = inside & (k > 0), key * 0
    while tl.max(rejected.to(tl.int32), 0) > 0:
        random = _hashed(
            _hashed(key, attempt) + tl.zeros([BLOCK], tl.int64), positive * NEGATIVES + k - 1
        )
        drawn = (((random >> 32) & 0xFFFFFFFF) * items_total) >> 32
        item = tl.where(rejected, drawn, item)
        byte = tl.load(bitmap + user * row_bytes + (item >> 3), mask=rejected, other=0).to(tl.int64)
        rejected = rejected & (((byte >> (item & 7)) & 1) > 0)
        attempt += 1
    tl.store(users + at, user, mask=at < count)
    tl.store(items + at, item, mask=at < count)
    tl.store(labels + at, (inside & (k == 0)).to(tl.float32), mask=at < count)
    tl.store(weights + at, inside.to(tl.float32), mask=at < count)


@triton.jit
def entropy(  # type: ignore[no-untyped-def]
    logits, labels, terms, normal, on_label, on_mean, padding, width, BLOCK: tl.constexpr
):
    """Compute the smoothed cross-entropy of each row of logits (R, width).

    Each program processes one row. `normal` receives the logarithm of each row's sum of
    exponentials.
    """
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    logits += row * width
    most = tl.full([BLOCK], -1e30, tl.float32)
    total, plain = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    first = 0
    while first < width:
        at = first + tl.arange(0, BLOCK)
        value = tl.load(logits + at, mask=at < width, other=-1e30).to(tl.float32)
        higher = tl.maximum(most, value)
        total = total * tl.exp(most - higher) + tl.where(at < width, tl.exp(value - higher), 0.0)
        plain += tl.where(at < width, value, 0.0)
        most = higher
        first += BLOCK
    highest = tl.max(most, 0)
    summed = tl.log(tl.sum(total * tl.exp(most - highest), 0)) + highest
    of_label = tl.load(logits + label).to(tl.float32)
    term = on_label * (summed - of_label) + on_mean * (summed - tl.sum(plain, 0) / width)
    tl.store(terms + row, tl.where(label != padding, term, 0.0))
    tl.store(normal + row, summed)


@triton.jit
def entropy_gradient(  # type: ignore[no-untyped-def]
    logits, labels, normal, gradient, out, on_label, on_mean, padding, width, BLOCK: tl.constexpr
):
    """Compute the gradient of `entropy` times `gradient`, in the data type of the logits.

    Each program processes BLOCK elements of a row.
    """
    row = tl.program_id(0).to(tl.int64)
    label, summed = tl.load(labels + row), tl.load(normal + row)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(logits + row * width + at, mask=at < width, other=0.0).to(tl.float32)
    value = tl.exp(value - summed) - on_mean / width - tl.where(at == label, on_label, 0.0)
    value *= tl.load(gradient) * tl.where(label != padding, 1.0, 0.0)
    tl.store(out + row * width + at, value.to(out.dtype.element_ty), mask=at < width)
