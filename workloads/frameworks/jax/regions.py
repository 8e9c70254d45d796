"""ROIAlign in JAX: bilinear pooling of regions over the levels of a feature pyramid.

The implementation follows He et al. 2017 and the reference implementation of the paper: no
half-pixel shift, two samples in each direction of a bin, and regions that are at least one cell
wide.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

SAMPLES = 2
"""Number of samples in each direction of a bin. Each sample reads two cells in each direction."""


def pool(
    maps: Sequence[jax.Array], strides: Sequence[int], box: jax.Array, level: jax.Array, side: int
) -> jax.Array:
    """Pool regions of feature maps.

    The pooling uses fp32, because coordinates on a feature map need more precision than bf16 has.

    Args:
        maps: Feature maps (B, h, w, channels) of the pyramid's levels.
        strides: Number of pixels per cell of each level.
        box: Regions (B, R, 4) in pixels.
        level: Index of the level of each region, (B, R).
        side: Number of bins of a region in each direction.

    Returns:
        Pooled regions (B·R, side, side, channels) in fp32.
    """
    images, channels = len(box), maps[0].shape[-1]
    rows, columns = (
        np.array([level_map.shape[axis] for level_map in maps], np.int32) for axis in (1, 2)
    )
    cells = jnp.concatenate(
        [level_map.reshape(images, -1, channels).astype(jnp.float32) for level_map in maps], 1
    )
    starts = np.cumsum(rows * columns) - rows * columns
    first = jnp.asarray(starts, jnp.int32)[level] + jnp.arange(images)[:, None] * cells.shape[1]
    ends = box / jnp.asarray(strides, jnp.float32)[level][..., None]
    width = jnp.asarray(columns)[level]
    x, of_x = _samples(ends[..., 0], ends[..., 2], width, side)
    y, of_y = _samples(ends[..., 1], ends[..., 3], jnp.asarray(rows)[level], side)
    # Indices (4, 4, B, R, side, side) of the feature map cells that each bin reads, by row and by
    # column.
    place = (
        first[..., None, None] + (y * width[..., None])[:, None, ..., None] + x[None, ..., None, :]
    )
    weight = of_y[:, None, ..., None] * of_x[None, ..., None, :]
    count = (2 * SAMPLES) ** 2
    pooled = _blended(
        cells.reshape(-1, channels), place.reshape(count, -1), weight.reshape(count, -1)
    )
    return pooled.reshape(-1, side, side, channels)


def _samples(
    low: jax.Array, high: jax.Array, count: jax.Array, side: int
) -> tuple[jax.Array, jax.Array]:
    """Return the cells that the bins of regions read along one axis, and their weights.

    Both arrays have the shape (4, B, R, side).

    A sample that is more than one cell outside of the feature map has weight 0. A sample that is
    less than one cell outside of the feature map is moved to the map's edge.

    Args:
        low: First coordinate of the regions, (B, R).
        high: Last coordinate of the regions, (B, R).
        count: Number of cells of each region's feature map along this axis, (B, R).
        side: Number of bins of a region along this axis.
    """
    size = jnp.maximum(high - low, 1) / side
    steps = (jnp.arange(side * SAMPLES) + 0.5) / SAMPLES
    at, last = low[..., None] + steps * size[..., None], (count - 1)[..., None]
    share = ((at >= -1) & (at <= last + 1)) / SAMPLES
    at = jnp.clip(at, 0, last)
    before = jnp.floor(at)
    after = at - before
    cell = jnp.stack([before, jnp.minimum(before + 1, last)]).astype(jnp.int32)
    weight = jnp.stack([(1 - after) * share, after * share])
    x, of_x = (
        jnp.moveaxis(array.reshape(2, *low.shape, side, SAMPLES), -1, 0) for array in (cell, weight)
    )
    return x.reshape(-1, *low.shape, side), of_x.reshape(-1, *low.shape, side)


def _weighted(cells: jax.Array, place: jax.Array, weight: jax.Array) -> jax.Array:
    """Return a weighted sum (n, channels) of feature map cells.

    For each k, the function multiplies the cells with the indices `place` (k, n) by `weight` (k,
    n), and adds the products to the sum. `cells` has the shape (N, channels).

    The module defines a custom gradient, which adds all rows into one array. JAX's default gradient
    would allocate k arrays of zeros.
    """
    return sum(
        (share[:, None] * cells[index] for index, share in zip(place, weight, strict=True)),
        jnp.float32(0),
    )


def _blend(
    cells: jax.Array, place: jax.Array, weight: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _weighted(cells, place, weight), (cells, place, weight)


def _back(residuals: tuple[jax.Array, ...], gradient: jax.Array) -> tuple[jax.Array, None, None]:
    cells, place, weight = residuals

    def add(total: jax.Array, part: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return total.at[part[0]].add(part[1][:, None] * gradient), None

    return jax.lax.scan(add, jnp.zeros_like(cells), (place, weight))[0], None, None


_blended = jax.custom_vjp(_weighted)
_blended.defvjp(_blend, _back)
