"""Triton kernels of batch norm, with the optional shortcut sum and ReLU.

The feature map is a matrix (rows, channels). This module may be imported under the same conditions
as triton_kernels.py. Each program of `statistics` and `slopes` processes `each` rows of CHANNELS
channels, in blocks of ROWS rows.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def statistics(  # type: ignore[no-untyped-def]
    x, means, squares, rows, channels, each, ROWS: tl.constexpr, CHANNELS: tl.constexpr
):
    """Compute the mean and the sum of squared deviations for each chunk of rows.

    `means` and `squares` have the shape (chunks, channels).
    """
    part = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    count = tl.zeros([CHANNELS], tl.float32)
    mean, square = tl.zeros([CHANNELS], tl.float32), tl.zeros([CHANNELS], tl.float32)
    first = 0
    while first < each:
        inner = first + tl.arange(0, ROWS)
        row = part.to(tl.int64) * each + inner
        valid = (inner < each) & (row < rows)
        inside = valid[:, None] & (channel < channels)[None, :]
        value = tl.load(x + row[:, None] * channels + channel[None, :], mask=inside, other=0.0).to(
            tl.float32
        )
        here = tl.maximum(tl.sum(valid.to(tl.float32), 0), 1.0)
        block_mean = tl.sum(value, 0) / here
        apart = tl.where(inside, value - block_mean[None, :], 0.0)
        here = tl.sum(valid.to(tl.float32), 0)
        total = tl.maximum(count + here, 1.0)
        away = block_mean - mean
        square += tl.sum(apart * apart, 0) + away * away * count * here / total
        mean += away * here / total
        count += here
        first += ROWS
    tl.store(means + part * channels + channel, mean, mask=channel < channels)
    tl.store(squares + part * channels + channel, square, mask=channel < channels)


@triton.jit
def joined(  # type: ignore[no-untyped-def]
    means, squares, mean, scale, running_mean, running_var, rows, channels, each, parts, momentum,
    epsilon,
    PARTS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute each channel's `mean` and `scale` from all chunks of rows.

    `scale` is 1 / √(variance + ε). The kernel also updates the running statistics.
    """
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    part = tl.arange(0, PARTS)
    inside = (part < parts)[:, None] & (channel < channels)[None, :]
    at = part[:, None] * channels + channel[None, :]
    count = tl.minimum(tl.maximum(rows - part * each, 0), each).to(tl.float32)[:, None]
    of_parts = tl.load(means + at, mask=inside, other=0.0)
    whole = tl.sum(of_parts * count, 0) / rows
    away = of_parts - whole[None, :]
    square = tl.sum(
        tl.load(squares + at, mask=inside, other=0.0) + tl.where(inside, away * away * count, 0.0),
        0,
    )
    here = channel < channels
    tl.store(mean + channel, whole, mask=here)
    tl.store(scale + channel, 1 / tl.sqrt(square / rows + epsilon), mask=here)
    old = tl.load(running_mean + channel, mask=here, other=0.0)
    tl.store(running_mean + channel, old + momentum * (whole - old), mask=here)
    old = tl.load(running_var + channel, mask=here, other=0.0)
    tl.store(running_var + channel, old + momentum * (square / (rows - 1) - old), mask=here)


@triton.jit
def applied(  # type: ignore[no-untyped-def]
    x, shortcut, out, mean, scale, weight, bias, rows, channels,
    SUM: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute the ReLU of the normalized map. With SUM, add `shortcut` before the ReLU."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    here = channel < channels
    inside = (row < rows)[:, None] & here[None, :]
    at = row[:, None] * channels + channel[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(scale + channel, mask=here, other=0.0) * tl.load(
        weight + channel, mask=here, other=0.0
    )
    value = (value - tl.load(mean + channel, mask=here, other=0.0)[None, :]) * factor[None, :]
    value += tl.load(bias + channel, mask=here, other=0.0)[None, :]
    if SUM:
        value += tl.load(shortcut + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, tl.maximum(value, 0.0).to(out.dtype.element_ty), mask=inside)


@triton.jit
def slopes(  # type: ignore[no-untyped-def]
    gradient, out, x, passed, sums, mean, scale, weight, bias, rows, channels, each,
    SUM: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute the sums of two matrices over each chunk of rows, (2, chunks, channels).

    The first matrix is the gradient with respect to the input of ReLU. The second matrix is the
    product of the first matrix and the normalized feature map. With SUM, the first matrix is also
    stored in `passed`, because it is the gradient of the shortcut. Without SUM, the input of ReLU
    is recomputed.
    """
    part, parts = tl.program_id(0), tl.num_programs(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    here = channel < channels
    middle = tl.load(mean + channel, mask=here, other=0.0)[None, :]
    factor = tl.load(scale + channel, mask=here, other=0.0)[None, :]
    slope = factor * tl.load(weight + channel, mask=here, other=0.0)[None, :]
    shift = tl.load(bias + channel, mask=here, other=0.0)[None, :]
    of_bias, of_weight = tl.zeros([CHANNELS], tl.float32), tl.zeros([CHANNELS], tl.float32)
    first = 0
    while first < each:
        inner = first + tl.arange(0, ROWS)
        row = part.to(tl.int64) * each + inner
        inside = ((inner < each) & (row < rows))[:, None] & here[None, :]
        at = row[:, None] * channels + channel[None, :]
        steep = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - middle
        if SUM:
            steep = tl.where(tl.load(out + at, mask=inside, other=0.0) > 0, steep, 0.0)
            tl.store(passed + at, steep.to(passed.dtype.element_ty), mask=inside)
        else:
            steep = tl.where(value * slope + shift > 0, steep, 0.0)
        of_bias += tl.sum(steep, 0)
        of_weight += tl.sum(steep * value * factor, 0)
        first += ROWS
    tl.store(sums + part * channels + channel, of_bias, mask=here)
    tl.store(sums + (parts + part) * channels + channel, of_weight, mask=here)


@triton.jit
def returned(  # type: ignore[no-untyped-def]
    gradient, x, back, totals, mean, scale, weight, bias, rows, channels,
    SUM: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute the gradient with respect to x.

    `totals` (2, channels) contains the sums of `slopes` over all chunks of rows. With SUM,
    `gradient` already includes the derivative of ReLU.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    here = channel < channels
    inside = (row < rows)[:, None] & here[None, :]
    at = row[:, None] * channels + channel[None, :]
    factor = tl.load(scale + channel, mask=here, other=0.0)[None, :]
    slope = factor * tl.load(weight + channel, mask=here, other=0.0)[None, :]
    steep = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    value -= tl.load(mean + channel, mask=here, other=0.0)[None, :]
    if not SUM:
        shift = tl.load(bias + channel, mask=here, other=0.0)[None, :]
        steep = tl.where(value * slope + shift > 0, steep, 0.0)
    steep -= tl.load(totals + channel, mask=here, other=0.0)[None, :] / rows
    of_weight = tl.load(totals + channels + channel, mask=here, other=0.0)[None, :] / rows
    steep = (steep - value * factor * of_weight) * slope
    tl.store(back + at, steep.to(back.dtype.element_ty), mask=inside)
