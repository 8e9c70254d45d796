"""ROIAlign in JAX: pooling of regions by bilinear samples over the levels of a pyramid.

As in He et al. 2017 and their reference: no half-pixel shift, two samples in each direction of a bin, regions at least one
cell wide.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

SAMPLES = 2
"""Samples in each direction of a bin. Each sample reads two cells in each direction."""


def pool(maps: Sequence[jax.Array], strides: Sequence[int], box: jax.Array, level: jax.Array, side: int) -> jax.Array:
    """(B·R, side, side, channels), fp32, of regions (B, R, 4) in pixels, each from the map (B, h, w, channels) that `level`
    (B, R) names; computed in fp32: a place on a map needs more digits than bf16 has."""
    images, channels = len(box), maps[0].shape[-1]
    rows, columns = (np.array([one.shape[axis] for one in maps], np.int32) for axis in (1, 2))
    cells = jnp.concatenate([one.reshape(images, -1, channels).astype(jnp.float32) for one in maps], 1)
    starts = np.cumsum(rows * columns) - rows * columns
    first = jnp.asarray(starts, jnp.int32)[level] + jnp.arange(images)[:, None] * cells.shape[1]
    ends = box / jnp.asarray(strides, jnp.float32)[level][..., None]
    width = jnp.asarray(columns)[level]
    x, of_x = _samples(ends[..., 0], ends[..., 2], width, side)
    y, of_y = _samples(ends[..., 1], ends[..., 3], jnp.asarray(rows)[level], side)
    # (4, 4, B, R, side, side): each of a bin's cells by row and by column.
    place = first[..., None, None] + (y * width[..., None])[:, None, ..., None] + x[None, ..., None, :]
    weight = of_y[:, None, ..., None] * of_x[None, ..., None, :]
    count = (2 * SAMPLES) ** 2
    pooled = _blended(cells.reshape(-1, channels), place.reshape(count, -1), weight.reshape(count, -1))
    return pooled.reshape(-1, side, side, channels)


def _samples(low: jax.Array, high: jax.Array, count: jax.Array, side: int) -> tuple[jax.Array, jax.Array]:
    """The cells that bins of regions from `low` to `high` (B, R) take of lines of `count` (B, R) cells, and how much of each:
    (4, B, R, side) both. A sample beyond a line's ends by more than a cell counts nothing; others take the nearest place."""
    size = jnp.maximum(high - low, 1) / side
    steps = (jnp.arange(side * SAMPLES) + 0.5) / SAMPLES
    at, last = low[..., None] + steps * size[..., None], (count - 1)[..., None]
    share = ((at >= -1) & (at <= last + 1)) / SAMPLES
    at = jnp.clip(at, 0, last)
    before = jnp.floor(at)
    after = at - before
    cell = jnp.stack([before, jnp.minimum(before + 1, last)]).astype(jnp.int32)
    weight = jnp.stack([(1 - after) * share, after * share])
    x, of_x = (jnp.moveaxis(one.reshape(2, *low.shape, side, SAMPLES), -1, 0) for one in (cell, weight))
    return x.reshape(-1, *low.shape, side), of_x.reshape(-1, *low.shape, side)


def _weighted(cells: jax.Array, place: jax.Array, weight: jax.Array) -> jax.Array:
    """(n, channels): the cells (N, channels) at `place` (k, n), times `weight` (k, n), summed over k.

    Its own gradient adds all rows into one array; JAX's would make k arrays of zeros.
    """
    return sum((of_one[:, None] * cells[one] for one, of_one in zip(place, weight, strict=True)), jnp.float32(0))


def _blend(cells: jax.Array, place: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _weighted(cells, place, weight), (cells, place, weight)


def _back(residuals: tuple[jax.Array, ...], gradient: jax.Array) -> tuple[jax.Array, None, None]:
    cells, place, weight = residuals

    def add(total: jax.Array, one: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return total.at[one[0]].add(one[1][:, None] * gradient), None

    return jax.lax.scan(add, jnp.zeros_like(cells), (place, weight))[0], None, None


_blended = jax.custom_vjp(_weighted)
_blended.defvjp(_blend, _back)
