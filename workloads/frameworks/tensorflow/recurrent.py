"""LSTMs over whole sequences in TensorFlow.

Each direction has one graph loop with a custom gradient.

On a CPU, the alternatives to the graph loop are worse (docs/reference/workloads/gnmt.md).
`BlockLSTMV2` has wrong gradients. `BlockLSTM` multiplies inputs and hidden states in every step and
is ten times slower with 1,024 hidden units. TensorFlow's automatic gradient of a loop accumulates
the gradient of the recurrent weight in every step. The custom gradient computes the gradient of the
recurrent weight in a single product at the end.

The shapes use these symbols: L positions, B sentences, h hidden units. Weights have PyTorch's
layout: (4h, …), with the gates in the order input, forget, cell, output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def lstm(x: tf.Tensor, weights: tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """Return the hidden states (L, B, h) of an LSTM for inputs x (L, B, inputs).

    The initial hidden and cell states are 0. `weights` contains the input weight, the recurrent
    weight, and two biases.
    """
    of_input, of_state, bias, state_bias = weights
    positions, sentences, width = x.shape
    projected = tf.matmul(tf.reshape(x, [-1, width]), of_input, transpose_b=True) + (
        bias + state_bias
    )
    return _recurrence(tf.reshape(projected, [positions, sentences, -1]), of_state)


def lstm_cell(
    x: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    weights: tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor]:
    """Run an LSTM step on x (N, inputs), and return the new hidden and cell states (N, h)."""
    of_input, of_state, bias, state_bias = weights
    projected = tf.matmul(x, of_input, transpose_b=True) + (bias + state_bias)
    _, cell, hidden = _advance(projected, hidden, cell, of_state)
    return hidden, cell


def _advance(
    projected: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, weight: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Compute one step of the LSTM.

    Returns:
        Activated gates (B, 4h), cell states (B, h), and hidden states (B, h).
    """
    i, f, g, o = tf.split(projected + tf.matmul(hidden, weight, transpose_b=True), 4, 1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    cell = f * cell + i * g
    return tf.concat([i, f, g, o], 1), cell, o * tf.tanh(cell)


@tf.custom_gradient
def _recurrence(projected: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """Return the hidden states (L, B, h) of all positions.

    Args:
        projected: Contribution of the inputs to the gates, (L, B, 4h).
        weight: Recurrent weight (4h, h).
    """
    positions, sentences, width = projected.shape
    zeros = tf.zeros((sentences, width // 4), projected.dtype)
    arrays = [tf.TensorArray(projected.dtype, positions) for _ in range(3)]

    def step(place: Any, hidden: Any, cell: Any, *written: Any) -> tuple[Any, ...]:
        gates, cell, hidden = _advance(projected[place], hidden, cell, weight)
        values = (gates, cell, hidden)
        return (
            place + 1,
            hidden,
            cell,
            *(array.write(place, value) for array, value in zip(written, values, strict=True)),
        )

    begin = (0, zeros, zeros, *arrays)
    _, _, _, *written = tf.while_loop(
        lambda place, *_: place < positions, step, begin, parallel_iterations=1
    )
    gates, cells, hidden = (array.stack() for array in written)

    def gradient(by_hidden: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        by_gates = _backwards(by_hidden, gates, cells, weight)
        before = tf.concat([zeros[None], hidden[:-1]], 0)
        flat = tf.reshape(by_gates, [-1, width])
        return by_gates, tf.matmul(flat, tf.reshape(before, [-1, width // 4]), transpose_a=True)

    return hidden, gradient


def _backwards(
    by_hidden: tf.Tensor, gates: tf.Tensor, cells: tf.Tensor, weight: tf.Tensor
) -> tf.Tensor:
    """Return the gradients of the gates' pre-activations (L, B, 4h).

    `by_hidden` (L, B, h) contains the gradients with respect to the hidden states.
    """
    positions = by_hidden.shape[0]
    zeros = tf.zeros_like(by_hidden[0])
    before = tf.concat([zeros[None], cells[:-1]], 0)

    def step(place: Any, later: Any, by_cell: Any, written: Any) -> tuple[Any, ...]:
        i, f, g, o = tf.split(gates[place], 4, 1)
        squashed = tf.tanh(cells[place])
        by_this = by_hidden[place] + later
        by_cell = by_cell + by_this * o * (1 - squashed * squashed)
        parts = (
            by_cell * g * i * (1 - i),
            by_cell * before[place] * f * (1 - f),
            by_cell * i * (1 - g * g),
            by_this * squashed * o * (1 - o),
        )
        by_gates = tf.concat(parts, 1)
        return place - 1, tf.matmul(by_gates, weight), by_cell * f, written.write(place, by_gates)

    begin = (positions - 1, zeros, zeros, tf.TensorArray(by_hidden.dtype, positions))
    *_, written = tf.while_loop(lambda place, *_: place >= 0, step, begin, parallel_iterations=1)
    return written.stack()
