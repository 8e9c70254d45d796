"""Cross-entropy with smoothed labels in TensorFlow, without an array of soft targets."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def smoothed_entropy(logits: tf.Tensor, labels: tf.Tensor, on_label: float, on_mean: float, padding: int) -> tf.Tensor:
    """Logits (R, V) fp32, labels (R,) to Σ -(on_label · log p of the label + on_mean · mean over V of log p).

    The two shares add up to 1. Rows labelled `padding` count nothing. The gradient is made from the one of the framework's own
    cross-entropy, which it computes along with the value: softmax less 1 at the label.
    """

    @tf.custom_gradient
    def entropy(given: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        of_label, by_logits = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=given, labels=labels)
        places = tf.stack([tf.range(tf.shape(labels)[0]), labels], 1)
        of_all = of_label + tf.gather_nd(given, places) - tf.reduce_mean(given, 1)
        valid = tf.cast(labels != padding, given.dtype)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            share = valid * upstream
            losses = (by_logits - on_mean / given.shape[1]) * share[:, None]
            return tf.tensor_scatter_nd_add(losses, places, on_mean * share)

        return tf.reduce_sum((on_label * of_label + on_mean * of_all) * valid), gradient

    return entropy(logits)
