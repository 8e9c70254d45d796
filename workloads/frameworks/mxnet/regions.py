"""Regions of maps in MXNet: pooling by bilinear samples (ROIAlign) over the levels of a pyramid, and suppression.

ROIAlign as He et al. 2017 and their reference have it: no half-pixel shift, two samples in each direction of a bin, regions at
least one cell wide. On a CPU a bin is a row of a sparse matrix, 16 weights of cells, which is multiplied by all cells at once:
`contrib.ROIAlign` takes 7 times as long with its backward pass, which goes through a map's planes one by one.

Shapes: B images, R regions of each, N = B·R, K cells of all levels of an image, the finest level first, row by row; C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mxnet as mx
import numpy as np

from workloads.common.arrays import Float32s, Int32s, Int64s

MapShapes = Sequence[tuple[int, int]]
"""(rows, columns) of each level."""

SAMPLES = 2
"""In each direction of a bin."""
CORNERS = 2 * SAMPLES
"""Cells of a line that a bin is made of; the same cell may be two of them."""
MAX_VALUES = 2**31 - 1
"""Of a matrix, zeros among them: MXNet's packages count with 32 bits."""


def suppress(boxes: Float32s, scores: Float32s, most_iou: float, context: mx.Context) -> Int64s:
    """Places of the boxes (n, 4) that no better kept one overlaps by more than `most_iou`, best first; of equal scores the
    first place.

    The operator sorts by a column: it gets the ranks, and so depends neither on ties nor on the scores' signs.
    """
    order = np.argsort(-scores, kind="stable")
    rows = np.empty((len(boxes), 6), np.float32)
    rows[:, 0], rows[:, 1:5], rows[:, 5] = np.arange(len(boxes), 0, -1), boxes[order], np.arange(len(boxes))
    given = mx.nd.from_numpy(rows).as_in_context(context)
    columns = {"score_index": 0, "coord_start": 1, "id_index": -1}
    kept = mx.nd.contrib.box_nms(given, overlap_thresh=most_iou, valid_thresh=0, **columns).asnumpy()[:, 5]
    return np.asarray(order[kept[kept >= 0].astype(np.int64)])


class Pool(Protocol):
    """Pools some regions of cells, and brings gradients back."""

    def __call__(self, cells: mx.nd.NDArray) -> mx.nd.NDArray:
        """(N, side², C) of cells (B, K, C), which autograd does not see."""

    def back(self, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        """The cells' gradient (B, K, C), from that of what was pooled last."""


def pool(
    shapes: MapShapes, strides: Sequence[int], boxes: Float32s, level: Int32s, side: int, context: mx.Context
) -> Pool:
    """For regions (B, R, 4) in pixels, each of the level that `level` (B, R) names, to `side`² bins."""
    kind = BySamples if context.device_type == "cpu" else ByOperator
    return kind(shapes, strides, boxes, level, side, context)


class BySamples:
    """Matrices (bins, B·K) times cells (B·K, C), as few as their size allows."""

    def __init__(
        self, shapes: MapShapes, strides: Sequence[int], boxes: Float32s, level: Int32s, side: int, context: mx.Context
    ) -> None:
        images, self.bins = len(boxes), side * side
        cells, weights = samples(shapes, strides, boxes, level, side)
        self.columns = images * sum(rows * columns for rows, columns in shapes)
        count, most = len(cells), MAX_VALUES // (self.columns * self.bins)
        parts = [slice(first, first + most) for first in range(0, count, most)]
        self.matrices = [self._matrix(cells[part], weights[part], context) for part in parts]

    def _matrix(self, cells: Int64s, weights: Float32s, context: mx.Context) -> mx.nd.sparse.CSRNDArray:
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
            # The transposed product into a dense result takes 30 times as long on large maps.
            part = mx.nd.sparse.dot(matrix, flat[first:last], transpose_a=True).tostype("default")
            total, first = part if total is None else total + part, last
        assert total is not None, "no regions"
        return total.reshape(self.shape)


def samples(
    shapes: MapShapes, strides: Sequence[int], boxes: Float32s, level: Int32s, side: int
) -> tuple[Int64s, Float32s]:
    """(N, side, side, 4, 4) the cells of each bin, counted over the images (B·K), and their weights."""
    flat, chosen = boxes.reshape(-1, 4), level.reshape(-1)
    sizes = np.array(shapes, np.int64)
    counts = sizes.prod(axis=1)
    first = np.repeat(np.arange(len(boxes)), boxes.shape[1]) * counts.sum() + (np.cumsum(counts) - counts)[chosen]
    scale = (1 / np.array(strides, np.float64)).astype(np.float32)[chosen]
    rows, of_rows = _lines(flat[:, 1] * scale, flat[:, 3] * scale, sizes[chosen, 0], side)
    columns, of_columns = _lines(flat[:, 0] * scale, flat[:, 2] * scale, sizes[chosen, 1], side)
    starts = rows * sizes[chosen, 1][:, None, None] + first[:, None, None]
    cells = starts[:, :, None, :, None] + columns[:, None, :, None, :]
    return cells, of_rows[:, :, None, :, None] * of_columns[:, None, :, None, :]


def _lines(low: Float32s, high: Float32s, cells: Int64s, side: int) -> tuple[Int64s, Float32s]:
    """(N, side, 4) places on a line of `cells` (N,) that make the bins of regions from `low` to `high` (N,), and weights.

    A sample beyond a line's ends by more than a cell counts nothing; others take the nearest place on it.
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
    """`contrib.ROIAlign` of each level that has regions, alone."""

    def __init__(
        self, shapes: MapShapes, strides: Sequence[int], boxes: Float32s, level: Int32s, side: int, context: mx.Context
    ) -> None:
        self.shapes, self.strides, self.side = shapes, strides, side
        images = np.repeat(np.arange(len(boxes), dtype=np.float32), boxes.shape[1])
        rows, chosen = np.concatenate([images[:, None], boxes.reshape(-1, 4)], axis=1), level.reshape(-1)
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
                settings = {"spatial_scale": 1 / self.strides[number], "sample_ratio": SAMPLES, "aligned": False}
                size = (self.side, self.side)
                parts.append(mx.nd.contrib.ROIAlign(planes, self.rows[number], pooled_size=size, **settings))
            first = last
        pooled = mx.nd.transpose(mx.nd.reshape(mx.nd.concat(*parts, dim=0), (0, 0, -1)), (0, 2, 1))
        return mx.nd.take(pooled, self.back_to)

    def back(self, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        self.pooled.backward(gradient)
        return self.cells.grad
