"""Sequences without padding in TensorFlow, with one row per valid position.

Sequences are padded only for attention. The shapes use these symbols: B sequences padded to L, R
rows, H heads of e elements. A single gather pads the sequences, separates the heads, and moves the
head axis to the front. A second gather reverses these operations. Each gather is the gradient of
the other gather, so no transpose is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Graded = tuple[Any, Callable[..., Any]]
"""Pair of a function's result and its gradient function."""


class Rows:
    """The R valid positions of B sequences.

    The valid positions are the first `lengths` positions of each sequence.

    XLA needs static sizes. With XLA, all positions therefore have rows, including padding.
    """

    def __init__(
        self, lengths: tf.Tensor, length: int | tf.Tensor, heads: int, every: bool
    ) -> None:
        """Index the rows of sequences with `lengths` (B,), padded at their ends to `length`.

        With `every`, padding positions have rows, too.
        """
        self.sequences, self.length, self.heads = tf.shape(lengths)[0], length, heads
        self.mask = tf.range(length) < lengths[:, None]
        """Mask (B, L) of the valid positions."""
        self.places = (
            _all_places(lengths.shape[0], length)
            if every
            else tf.cast(tf.where(self.mask), tf.int32)
        )
        """Sequence index and position of each row, as an array (R, 2)."""
        self.sequence, self.position = self.places[:, 0], self.places[:, 1]
        self._parts: dict[int, list[tf.Tensor]] = {}
        places = self.sequence[:, None] * self.heads + tf.range(self.heads)
        self._back = places * length + self.position[:, None]
        """Index (R, H) of each row and head in a flattened array (B, H, L)."""

    def of(self, array: tf.Tensor) -> tf.Tensor:
        """Return the elements (R,) of an array (B, L) that belong to the rows."""
        return tf.gather_nd(array, self.places)

    def padded(self, x: tf.Tensor, parts: int) -> list[tf.Tensor]:
        """Pad x (R, parts · H · e) and split it into `parts` arrays (B, H, L, e).

        Padding positions are 0.
        """
        width, sources = x.shape[1], self._rows_of(parts)
        size = width // (parts * self.heads)

        @tf.custom_gradient
        def cut(x: tf.Tensor) -> Graded:
            def gradient(*upstream: tf.Tensor) -> tf.Tensor:
                planes = [tf.gather(tf.reshape(part, [-1, size]), self._back) for part in upstream]
                return tf.reshape(tf.stack(planes, 1), [-1, width])

            rows = _and_zeros(tf.reshape(x, [-1, size]))
            return [tf.gather(rows, numbers) for numbers in sources], gradient

        return cut(x)

    def packed(self, x: tf.Tensor) -> tf.Tensor:
        """Convert padded heads (B, H, L, e) to rows (R, H · e)."""
        size, (sources,) = x.shape[3], self._rows_of(1)

        @tf.custom_gradient
        def joined(x: tf.Tensor) -> Graded:
            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                return tf.gather(_and_zeros(tf.reshape(upstream, [-1, size])), sources)

            gathered = tf.gather(tf.reshape(x, [-1, size]), self._back)
            return tf.reshape(gathered, [-1, self.heads * size]), gradient

        return joined(x)

    def _rows_of(self, parts: int) -> list[tf.Tensor]:
        """Return the indices (B, H, L) into rows (R, parts, H), for each of `parts` arrays.

        Padding positions have the index after the last row.
        """
        if parts not in self._parts:
            count = tf.shape(self.sequence)[0]
            ranks = (
                tf.scatter_nd(self.places, tf.range(1, count + 1), tf.shape(self.mask))[:, None] - 1
            )
            first = tf.where(ranks < 0, count * parts, ranks * parts) * self.heads
            heads = tf.where(ranks < 0, 0, tf.range(self.heads)[:, None])
            self._parts[parts] = [
                first + heads + tf.where(ranks < 0, 0, part * self.heads) for part in range(parts)
            ]
        return self._parts[parts]


def _and_zeros(x: tf.Tensor) -> tf.Tensor:
    """Append a row of zeros to x (n, e)."""
    return tf.concat([x, tf.zeros([1, x.shape[1]], x.dtype)], 0)


def _all_places(sequences: int, length: int) -> tf.Tensor:
    """Return the sequence index and position of all positions, (B · L, 2)."""
    return tf.reshape(
        tf.stack(tf.meshgrid(tf.range(sequences), tf.range(length), indexing="ij"), -1), [-1, 2]
    )
