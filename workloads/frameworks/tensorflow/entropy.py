"""Cross-entropy with smoothed labels in TensorFlow.

The implementation allocates no array of smoothed labels.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def smoothed_entropy(
    logits: tf.Tensor, labels: tf.Tensor, on_label: float, on_mean: float, padding: int
) -> tf.Tensor:
    """Return the smoothed cross-entropy of fp32 logits (R, V) and labels (R,).

    The cross-entropy is summed over the rows.

    The formula is Σ -(on_label · log p of the label + on_mean · mean over V of log p). The weights
    `on_label` and `on_mean` add up to 1. Rows with the label `padding` contribute 0. The gradient
    is derived from the gradient of TensorFlow's cross-entropy (softmax minus 1 at the label), which
    TensorFlow computes together with the cross-entropy.
    """

    @tf.custom_gradient
    def entropy(features: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        of_label, by_logits = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=features, labels=labels
        )
        places = tf.stack([tf.range(tf.shape(labels)[0]), labels], 1)
        of_all = of_label + tf.gather_nd(features, places) - tf.reduce_mean(features, 1)
        valid = tf.cast(labels != padding, features.dtype)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            share = valid * upstream
            losses = (by_logits - on_mean / features.shape[1]) * share[:, None]
            return tf.tensor_scatter_nd_add(losses, places, on_mean * share)

        return tf.reduce_sum((on_label * of_label + on_mean * of_all) * valid), gradient

    return entropy(logits)
