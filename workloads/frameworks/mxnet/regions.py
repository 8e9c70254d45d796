"""ROIAlign over the levels of a pyramid, and non-maximum suppression, in MXNet.

ROIAlign follows He et al. 2017 and the reference implementation of the paper: no half-pixel shift,
two samples in each direction of a bin, and regions that are at least one cell wide. On a CPU, each
bin is a row of a sparse matrix with the weights of 16 cells, and the matrix is multiplied by all
cells. `contrib.ROIAlign` with its backward pass is 7 times as slow as the sparse matrix, because
the backward pass of `contrib.ROIAlign` processes the channels of a feature map sequentially.

The shapes use these symbols: B images, R regions per image, N = B·R, C channels, K cells of all
levels of an image, row by row, starting with the finest level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mxnet as mx
import numpy as np

from workloads.common.arrays import Float32s, Int32s, Int64s

MapShapes = Sequence[tuple[int, int]]
"""Shape (rows, columns) of the feature map of each level."""

SAMPLES = 2
"""Number of samples in each direction of a bin."""
CORNERS = 2 * SAMPLES
"""Number of feature map cells per axis that a bin reads. A bin may read the same cell twice."""
MAX_VALUES = 2**31 - 1
"""Maximum number of elements in a matrix, including zeros. MXNet's packages use 32-bit sizes."""


def suppress(boxes: Float32s, scores: Float32s, most_iou: float, context: mx.Context) -> Int64s:
    """Return the indices of the boxes (n, 4) that remain after non-maximum suppression.

    The indices are sorted by score, with the best box first. A box is dropped if a kept box with a
    higher score overlaps it by more than `most_iou`. For equal scores, the first box is kept.
    MXNet's operator receives the ranks of the boxes instead of their scores, so the indices do not
    depend on how the operator sorts equal or negative scores.
    """
    order = np.argsort(-scores, kind="stable")
    rows = np.empty((len(boxes), 6), np.float32)
    rows[:, 0], rows[:, 1:5], rows[:, 5] = (
        np.arange(len(boxes), 0, -1),
        boxes[order],
        np.arange(len(boxes)),
    )
    ranked = mx.nd.from_numpy(rows).as_in_context(context)
    columns = {"score_index": 0, "coord_start": 1, "id_index": -1}
    kept = mx.nd.contrib.box_nms(
        ranked, overlap_thresh=most_iou, valid_thresh=0, **columns
    ).asnumpy()[:, 5]
    return np.asarray(order[kept[kept >= 0].astype(np.int64)])


class Pool(Protocol):
    """Pooling of regions of feature map cells, with its gradient."""

    def __call__(self, cells: mx.nd.NDArray) -> mx.nd.NDArray:
        """Return the pooled regions (N, side², C) of cells (B, K, C).

        Autograd does not record the pooling.
        """

    def back(self, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        """Return the gradient with respect to the cells (B, K, C).

        `gradient` is the gradient with respect to the regions that the last call pooled.
        """


def pool(
    shapes: MapShapes,
    strides: Sequence[int],
    boxes: Float32s,
    level: Int32s,
    side: int,
    context: mx.Context,
) -> Pool:
    """Return the `Pool` of regions (B, R, 4) in pixels, with `side`² bins per region.

    `level` (B, R) is the pyramid level of each region.
    """
    kind = BySamples if context.device_type == "cpu" else ByOperator
    return kind(shapes, strides, boxes, level, side, context)


class BySamples:
    """Pooling by products of sparse matrices (bins, B·K) and cells (B·K, C).

    The maximum size of a matrix determines the number of matrices.
    """

    def __init__(
        self,
        shapes: MapShapes,
        strides: Sequence[int],
        boxes: Float32s,
        level: Int32s,
        side: int,
        context: mx.Context,
    ) -> None:
        images, self.bins = len(boxes), side * side
        cells, weights = samples(shapes, strides, boxes, level, side)
        self.columns = images * sum(rows * columns for rows, columns in shapes)
        count, most = len(cells), MAX_VALUES // (self.columns * self.bins)
        parts = [slice(first, first + most) for first in range(0, count, most)]
        self.matrices = [self._matrix(cells[part], weights[part], context) for part in parts]

    def _matrix(
        self, cells: Int64s, weights: Float32s, context: mx.Context
    ) -> mx.nd.sparse.CSRNDArray:
        rows, values = len(cells) * self.bins, CORNERS * CORNERS
        parts = weights.reshape(-1), cells.reshape(-1), np.arange(0, (rows + 1) * values, values)
        return mx.nd.sparse.csr_matrix(parts, shape=(rows, self.columns), ctx=context)

    def __call__(self, cells: mx.nd.NDArray) -> mx.nd.NDArray:
        self.shape = cells.shape
        flat = cells.detach().reshape((self.columns, -1))
        parts = [mx.nd.sparse.dot(matrix, flat) for matrix in self.matrices]
        pooled = parts[0] if len(parts) == 1 else mx.nd.concat(*parts, dim=0)
        return pooled.reshape((-1, self.bins, self.shape[2]))

    def back(self, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        flat, total, first = gradient.reshape((-1, self.shape[2])), None, 0
        for matrix in self.matrices:
            last = first + matrix.shape[0]
            # On large feature maps, a transposed product with a dense result is 30 times as slow as
            # this product with a sparse result.
            part = mx.nd.sparse.dot(matrix, flat[first:last], transpose_a=True).tostype("default")
            total, first = part if total is None else total + part, last
        assert total is not None, "no regions"
        return total.reshape(self.shape)


def samples(
    shapes: MapShapes, strides: Sequence[int], boxes: Float32s, level: Int32s, side: int
) -> tuple[Int64s, Float32s]:
    """Return the cells that each bin reads, and their weights.

    A cell is an index into the cells of all images (B·K). Both arrays have the shape (N, side,
    side, 4, 4).
    """
    flat, chosen = boxes.reshape(-1, 4), level.reshape(-1)
    sizes = np.array(shapes, np.int64)
    counts = sizes.prod(axis=1)
    first = (
        np.repeat(np.arange(len(boxes)), boxes.shape[1]) * counts.sum()
        + (np.cumsum(counts) - counts)[chosen]
    )
    scale = (1 / np.array(strides, np.float64)).astype(np.float32)[chosen]
    rows, of_rows = _lines(flat[:, 1] * scale, flat[:, 3] * scale, sizes[chosen, 0], side)
    columns, of_columns = _lines(flat[:, 0] * scale, flat[:, 2] * scale, sizes[chosen, 1], side)
    starts = rows * sizes[chosen, 1][:, None, None] + first[:, None, None]
    cells = starts[:, :, None, :, None] + columns[:, None, :, None, :]
    return cells, of_rows[:, :, None, :, None] * of_columns[:, None, :, None, :]


def _lines(low: Float32s, high: Float32s, cells: Int64s, side: int) -> tuple[Int64s, Float32s]:
    """Return the cells that the bins of regions read along an axis, and their weights.

    Both arrays have the shape (N, side, 4).

    The regions extend from `low` to `high` (N,) on an axis of `cells` (N,) cells. A sample that is
    more than one cell outside of the feature map has weight 0. A sample that is less than one cell
    outside of the feature map is moved to the map's edge.
    """
    size = np.maximum(high - low, np.float32(1)) / np.float32(side)
    inner = (np.arange(SAMPLES, dtype=np.float32) + np.float32(0.5)) / np.float32(SAMPLES)
    bins = np.arange(side, dtype=np.float32)[:, None]
    at = low[:, None, None] + bins * size[:, None, None] + inner * size[:, None, None]
    ends = cells[:, None, None]
    inside = ((at >= -1) & (at <= ends)).astype(np.float32) / np.float32(SAMPLES)
    at = np.minimum(np.maximum(at, np.float32(0)), (ends - 1).astype(np.float32))
    lower = at.astype(np.int64)
    part = at - lower.astype(np.float32)
    places = np.stack([lower, np.minimum(lower + 1, ends - 1)], axis=-1)
    weights = np.stack([(1 - part) * inside, part * inside], axis=-1)
    shape = (len(low), side, CORNERS)
    return places.reshape(shape), weights.reshape(shape)


class ByOperator:
    """Pooling by `contrib.ROIAlign`, separately for each level that has regions."""

    def __init__(
        self,
        shapes: MapShapes,
        strides: Sequence[int],
        boxes: Float32s,
        level: Int32s,
        side: int,
        context: mx.Context,
    ) -> None:
        self.shapes, self.strides, self.side = shapes, strides, side
        images = np.repeat(np.arange(len(boxes), dtype=np.float32), boxes.shape[1])
        rows, chosen = (
            np.concatenate([images[:, None], boxes.reshape(-1, 4)], axis=1),
            level.reshape(-1),
        )
        order = np.argsort(chosen, kind="stable")
        self.back_to = mx.nd.array(np.argsort(order), ctx=context, dtype=np.int32)
        self.rows = {
            int(number): mx.nd.array(rows[chosen == number], ctx=context, dtype=np.float32)
            for number in np.unique(chosen)
        }

    def __call__(self, cells: mx.nd.NDArray) -> mx.nd.NDArray:
        self.cells = cells.detach()
        self.cells.attach_grad()
        with mx.autograd.record():
            self.pooled = self._pooled()
        return self.pooled.detach()

    def _pooled(self) -> mx.nd.NDArray:
        parts, first = [], 0
        for number, (height, width) in enumerate(self.shapes):
            last = first + height * width
            if number in self.rows:
                of_level = mx.nd.slice_axis(self.cells, axis=1, begin=first, end=last)
                planes = mx.nd.reshape(mx.nd.transpose(of_level, (0, 2, 1)), (0, 0, height, width))
                settings = {
                    "spatial_scale": 1 / self.strides[number],
                    "sample_ratio": SAMPLES,
                    "aligned": False,
                }
                size = (self.side, self.side)
                parts.append(
                    mx.nd.contrib.ROIAlign(planes, self.rows[number], pooled_size=size, **settings)
                )
            first = last
        pooled = mx.nd.transpose(mx.nd.reshape(mx.nd.concat(*parts, dim=0), (0, 0, -1)), (0, 2, 1))
        return mx.nd.take(pooled, self.back_to)

    def back(self, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        self.pooled.backward(gradient)
        return self.cells.grad
