"""ROIAlign over the levels of a pyramid, and non-maximum suppression, in TensorFlow.

ROIAlign follows He et al. 2017 and the reference implementation of the paper: no half-pixel shift,
two samples in each direction of a bin, and regions that are at least one cell wide. TensorFlow's
operator `crop_and_resize` computes the samples. Outside of a feature map, `crop_and_resize` returns
0, while ROIAlign extends the feature map by one cell. The function `bordered` therefore adds a
border of one cell, which repeats the outermost cells. XLA does not support `crop_and_resize`, so
functions that XLA compiles do not include the pooling.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from workloads.common.arrays import Float32s, Int64s

SAMPLES = 2
"""Number of samples in each direction of a bin."""


def suppress(boxes: Float32s, scores: Float32s, most_iou: float) -> Int64s:
    """Return the indices of the boxes (n, 4) that remain after non-maximum suppression.

    The indices are sorted by score, with the best box first. A box is dropped if a kept box with a
    better score overlaps it by more than `most_iou`.
    """
    with tf.device("CPU:0"):
        kept = tf.raw_ops.NonMaxSuppressionV3(
            boxes=boxes,
            scores=scores,
            max_output_size=len(boxes),
            iou_threshold=most_iou,
            score_threshold=-np.inf,
        )
    return np.asarray(kept.numpy(), np.int64)


def bordered(maps: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Pad feature maps (B, h, w, C) for `pool`, to (B, h + 2, w + 2, C) in fp32.

    The feature maps are fp32, because coordinates on a feature map need more precision than bf16
    has.
    """
    return [
        tf.pad(tf.cast(level_map, tf.float32), [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
        for level_map in maps
    ]


def pool(
    maps: Sequence[tf.Tensor], strides: Sequence[int], boxes: tf.Tensor, level: tf.Tensor, side: int
) -> tf.Tensor:
    """Return the pooled regions (B·R, side, side, C) of regions (B, R, 4) in pixels.

    `level` (B, R) is the index of each region's bordered feature map. On each level, only the
    regions of this level are pooled. The trace does not depend on the number of regions per level.
    """
    count, rows, of_level = tf.shape(boxes)[1], tf.reshape(boxes, [-1, 4]), tf.reshape(level, [-1])
    places, parts = [], []
    for number, (level_map, stride) in enumerate(zip(maps, strides, strict=True)):
        here = tf.cast(tf.where(of_level == number)[:, 0], tf.int32)
        places.append(here)
        parts.append(_pool_level(level_map, tf.gather(rows, here) / stride, here // count, side))
    return tf.dynamic_stitch(places, parts)


def _pool_level(level_map: tf.Tensor, boxes: tf.Tensor, images: tf.Tensor, side: int) -> tf.Tensor:
    """Return the pooled regions (n, side, side, C) of a bordered feature map.

    `boxes` (n, 4) are in units of cells. `images` (n,) contains the image index of each box.
    """
    size = tf.maximum(boxes[:, 2:] - boxes[:, :2], 1)
    to_first = size / (2 * SAMPLES * side)  # The value is half of the distance between two samples.
    first, last = boxes[:, :2] + to_first + 1, boxes[:, :2] + size - to_first + 1
    last_cell = tf.constant([level_map.shape[2] - 1, level_map.shape[1] - 1], tf.float32)
    # `crop_and_resize` expects the ends of a box as fractions of the feature map, with y before x.
    ends = tf.reverse(tf.stack([first / last_cell, last / last_cell], 1), [2])
    samples = tf.image.crop_and_resize(
        level_map, tf.reshape(ends, [-1, 4]), images, [SAMPLES * side] * 2
    )
    return tf.nn.avg_pool2d(samples, SAMPLES, SAMPLES, "VALID")
