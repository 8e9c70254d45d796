"""Regions of maps in TensorFlow: pooling by bilinear samples (ROIAlign) over the levels of a pyramid, and suppression.

ROIAlign as He et al. 2017 and their reference have it: no half-pixel shift, two samples in each direction of a bin, regions at
least one cell wide. `crop_and_resize` takes the samples. It gives 0 beyond a map's outermost cells, ROIAlign beyond one more;
so maps get a border of one cell, which repeats the outermost ones (`bordered`). XLA refuses the operator: pooling stays out of
compiled functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from workloads.common.arrays import Float32s, Int64s

SAMPLES = 2
"""In each direction of a bin."""


def suppress(boxes: Float32s, scores: Float32s, most_iou: float) -> Int64s:
    """Places of the boxes (n, 4) that no better kept one overlaps by more than `most_iou`, best first."""
    with tf.device("CPU:0"):
        kept = tf.raw_ops.NonMaxSuppressionV3(
            boxes=boxes, scores=scores, max_output_size=len(boxes), iou_threshold=most_iou, score_threshold=-np.inf
        )
    return np.asarray(kept.numpy(), np.int64)


def bordered(maps: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Maps (B, h, w, C) as `pool` takes them: (B, h + 2, w + 2, C) in fp32, a place needs more digits than bf16 has."""
    return [tf.pad(tf.cast(one, tf.float32), [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC") for one in maps]


def pool(maps: Sequence[tf.Tensor], strides: Sequence[int], boxes: tf.Tensor, level: tf.Tensor, side: int) -> tf.Tensor:
    """(B·R, side, side, C) of regions (B, R, 4) in pixels, each from the bordered map that `level` (B, R) names.

    Each level pools its own regions; how many these are is no part of the trace.
    """
    count, rows, of_level = tf.shape(boxes)[1], tf.reshape(boxes, [-1, 4]), tf.reshape(level, [-1])
    places, parts = [], []
    for number, (one, stride) in enumerate(zip(maps, strides, strict=True)):
        here = tf.cast(tf.where(of_level == number)[:, 0], tf.int32)
        places.append(here)
        parts.append(_pool_one(one, tf.gather(rows, here) / stride, here // count, side))
    return tf.dynamic_stitch(places, parts)


def _pool_one(one: tf.Tensor, boxes: tf.Tensor, images: tf.Tensor, side: int) -> tf.Tensor:
    """(n, side, side, C) of boxes (n, 4) in cells of a bordered map, of these `images` (n,)."""
    size = tf.maximum(boxes[:, 2:] - boxes[:, :2], 1)
    to_first = size / (2 * SAMPLES * side)  # half of the distance between samples
    first, last = boxes[:, :2] + to_first + 1, boxes[:, :2] + size - to_first + 1
    last_cell = tf.constant([one.shape[2] - 1, one.shape[1] - 1], tf.float32)
    ends = tf.reverse(tf.stack([first / last_cell, last / last_cell], 1), [2])  # as shares of the map, y before x
    samples = tf.image.crop_and_resize(one, tf.reshape(ends, [-1, 4]), images, [SAMPLES * side] * 2)
    return tf.nn.avg_pool2d(samples, SAMPLES, SAMPLES, "VALID")
