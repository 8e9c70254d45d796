"""LSTMs over whole sequences in TensorFlow, one loop in the graph forwards and one backwards, with a gradient of our own.

Against the alternatives on a CPU (docs/gnmt.md): `BlockLSTMV2` has wrong gradients; `BlockLSTM` multiplies input and state in
every step and takes ten times as long at 1,024 values; TensorFlow's own gradient of a loop adds up the recurrent weight's in
every step, instead of by one product at the end.

Shapes: L positions, B sentences, h hidden values. Weights as PyTorch has them: (4h, …), gates input, forget, cell, output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def lstm(x: tf.Tensor, weights: tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """x (L, B, inputs), weights of input and state and both biases, to hidden values (L, B, h), from zeros."""
    of_input, of_state, bias, other_bias = weights
    positions, sentences, width = x.shape
    given = tf.matmul(tf.reshape(x, [-1, width]), of_input, transpose_b=True) + (bias + other_bias)
    return _recurrence(tf.reshape(given, [positions, sentences, -1]), of_state)


def lstm_cell(
    x: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, weights: tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """One step of x (N, inputs) from hidden and cell (N, h): both anew."""
    of_input, of_state, bias, other_bias = weights
    given = tf.matmul(x, of_input, transpose_b=True) + (bias + other_bias)
    _, cell, hidden = _advance(given, hidden, cell, of_state)
    return hidden, cell


def _advance(
    given: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, weight: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gates (B, 4h) after their functions, cell and hidden values (B, h) of one step."""
    i, f, g, o = tf.split(given + tf.matmul(hidden, weight, transpose_b=True), 4, 1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    cell = f * cell + i * g
    return tf.concat([i, f, g, o], 1), cell, o * tf.tanh(cell)


@tf.custom_gradient
def _recurrence(given: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """What the input gives to the gates (L, B, 4h), and the recurrent weight (4h, h), to hidden values (L, B, h)."""
    positions, sentences, width = given.shape
    zeros = tf.zeros((sentences, width // 4), given.dtype)
    arrays = [tf.TensorArray(given.dtype, positions) for _ in range(3)]

    def step(place: Any, hidden: Any, cell: Any, *written: Any) -> tuple[Any, ...]:
        gates, cell, hidden = _advance(given[place], hidden, cell, weight)
        values = (gates, cell, hidden)
        return place + 1, hidden, cell, *(one.write(place, value) for one, value in zip(written, values, strict=True))

    begin = (0, zeros, zeros, *arrays)
    _, _, _, *written = tf.while_loop(lambda place, *_: place < positions, step, begin, parallel_iterations=1)
    gates, cells, hidden = (array.stack() for array in written)

    def gradient(by_hidden: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        by_gates = _backwards(by_hidden, gates, cells, weight)
        before = tf.concat([zeros[None], hidden[:-1]], 0)
        flat = tf.reshape(by_gates, [-1, width])
        return by_gates, tf.matmul(flat, tf.reshape(before, [-1, width // 4]), transpose_a=True)

    return hidden, gradient


def _backwards(by_hidden: tf.Tensor, gates: tf.Tensor, cells: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Gradients by the gates before their functions (L, B, 4h), from those by the hidden values (L, B, h)."""
    positions = by_hidden.shape[0]
    zeros = tf.zeros_like(by_hidden[0])
    before = tf.concat([zeros[None], cells[:-1]], 0)

    def step(place: Any, later: Any, by_cell: Any, written: Any) -> tuple[Any, ...]:
        i, f, g, o = tf.split(gates[place], 4, 1)
        said = tf.tanh(cells[place])
        by_this = by_hidden[place] + later
        by_cell = by_cell + by_this * o * (1 - said * said)
        parts = (
            by_cell * g * i * (1 - i),
            by_cell * before[place] * f * (1 - f),
            by_cell * i * (1 - g * g),
            by_this * said * o * (1 - o),
        )
        by_gates = tf.concat(parts, 1)
        return place - 1, tf.matmul(by_gates, weight), by_cell * f, written.write(place, by_gates)

    begin = (positions - 1, zeros, zeros, tf.TensorArray(by_hidden.dtype, positions))
    *_, written = tf.while_loop(lambda place, *_: place >= 0, step, begin, parallel_iterations=1)
    return written.stack()
