"""Hashed dropout masks in TensorFlow.

On a CPU without XLA, NumPy computes the masks. On GPUs or with XLA, the TensorFlow graph computes
the same hash.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.common import dropout
from workloads.common.randomness import GAMMA, MULTIPLIER_1, MULTIPLIER_2, stream


def multipliers_at(
    keys: tf.Tensor,
    positions: tf.Tensor,
    label: str,
    width: int | tf.Tensor,
    rate: float,
    on_host: bool,
) -> tf.Tensor:
    """Compute `workloads.common.dropout.multipliers_at` (…, width) in a graph.

    With `on_host`, NumPy computes the multipliers. XLA does not support `on_host`.
    """
    if not on_host:
        return hashed(keys, positions, label, width, rate)
    drawn = tf.numpy_function(
        functools.partial(_drawn, label, rate), [keys, positions, width], tf.float32, stateful=False
    )
    dims = tf.broadcast_static_shape(keys.shape, positions.shape)
    return tf.ensure_shape(drawn, [*dims, width if isinstance(width, int) else None])


def _drawn(label: str, rate: float, keys: Any, positions: Any, width: Any) -> Any:
    return dropout.multipliers_at(keys, positions, label, int(width), rate)


def hashed(
    keys: tf.Tensor, positions: tf.Tensor, label: str, width: int | tf.Tensor, rate: float
) -> tf.Tensor:
    """Compute the dropout multipliers with the integer operators of the graph.

    The hash is defined in workloads/common/randomness.py.
    """
    state = tf.constant(stream(0, f"dropout/{label}"), tf.uint64)
    for coordinate in (keys[..., None], positions[..., None], tf.range(width // dropout.DRAWS)):
        state = _mixed(state + (tf.cast(coordinate, tf.uint64) + 1) * GAMMA)
    draws = tf.cast(tf.bitcast(state, tf.uint16), tf.int32)
    kept = tf.cast(draws >= dropout.threshold(rate), tf.float32) * np.float32(1 / (1 - rate))
    return tf.reshape(kept, tf.concat([tf.shape(kept)[:-2], [width]], 0))


def _mixed(state: tf.Tensor) -> tf.Tensor:
    """Apply the finalizer of SplitMix64."""
    for shift, multiplier in ((30, MULTIPLIER_1), (27, MULTIPLIER_2)):
        state = (
            tf.bitwise.bitwise_xor(state, tf.bitwise.right_shift(state, np.uint64(shift)))
            * multiplier
        )
    return tf.bitwise.bitwise_xor(state, tf.bitwise.right_shift(state, np.uint64(31)))
