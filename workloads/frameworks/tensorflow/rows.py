"""Sequences without their padding in TensorFlow: one row for each position that counts, padded only for attention.

B sequences padded to L, R rows, H heads of e values. To pad, to cut out the heads and to put them first is one look-up of rows
of e values; the way back is another, and each is the other's gradient: nothing is transposed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Graded = tuple[Any, Callable[..., Any]]
"""A value and its gradient's function."""


class Rows:
    """The R positions of B sequences that count: in each the first `lengths`; under XLA, which wants known sizes, all."""

    def __init__(self, lengths: tf.Tensor, length: int | tf.Tensor, heads: int, every: bool) -> None:
        """`lengths` (B,) of sequences that are padded at their ends to `length`; `every`: padding has rows too."""
        self.sequences, self.length, self.heads = tf.shape(lengths)[0], length, heads
        self.mask = tf.range(length) < lengths[:, None]
        """(B, L) True where a position counts."""
        self.places = _all_places(lengths.shape[0], length) if every else tf.cast(tf.where(self.mask), tf.int32)
        """(R, 2): which sequence each row belongs to, and which place of it."""
        self.sequence, self.position = self.places[:, 0], self.places[:, 1]
        self._parts: dict[int, list[tf.Tensor]] = {}
        places = self.sequence[:, None] * self.heads + tf.range(self.heads)
        self._back = places * length + self.position[:, None]
        """Where (R, H) rows of e values come from in (B, H, L)."""

    def of(self, array: tf.Tensor) -> tf.Tensor:
        """Values (B, L) of the rows, (R,)."""
        return tf.gather_nd(array, self.places)

    def padded(self, x: tf.Tensor, parts: int) -> list[tf.Tensor]:
        """x (R, parts · H · e) to as many (B, H, L, e), zeros at padding."""
        width, there = x.shape[1], self._rows_of(parts)
        size = width // (parts * self.heads)

        @tf.custom_gradient
        def cut(x: tf.Tensor) -> Graded:
            def gradient(*upstream: tf.Tensor) -> tf.Tensor:
                planes = [tf.gather(tf.reshape(one, [-1, size]), self._back) for one in upstream]
                return tf.reshape(tf.stack(planes, 1), [-1, width])

            rows = _and_zeros(tf.reshape(x, [-1, size]))
            return [tf.gather(rows, numbers) for numbers in there], gradient

        return cut(x)

    def packed(self, x: tf.Tensor) -> tf.Tensor:
        """(B, H, L, e) to (R, H · e)."""
        size, (there,) = x.shape[3], self._rows_of(1)

        @tf.custom_gradient
        def joined(x: tf.Tensor) -> Graded:
            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                return tf.gather(_and_zeros(tf.reshape(upstream, [-1, size])), there)

            gathered = tf.gather(tf.reshape(x, [-1, size]), self._back)
            return tf.reshape(gathered, [-1, self.heads * size]), gradient

        return joined(x)

    def _rows_of(self, parts: int) -> list[tf.Tensor]:
        """For each part, where (B, H, L) rows of e values come from in (R, parts, H); at padding the number after the last."""
        if parts not in self._parts:
            count = tf.shape(self.sequence)[0]
            ranks = tf.scatter_nd(self.places, tf.range(1, count + 1), tf.shape(self.mask))[:, None] - 1
            first = tf.where(ranks < 0, count * parts, ranks * parts) * self.heads
            heads = tf.where(ranks < 0, 0, tf.range(self.heads)[:, None])
            self._parts[parts] = [first + heads + tf.where(ranks < 0, 0, part * self.heads) for part in range(parts)]
        return self._parts[parts]


def _and_zeros(x: tf.Tensor) -> tf.Tensor:
    """x (n, e) and a row of zeros."""
    return tf.concat([x, tf.zeros([1, x.shape[1]], x.dtype)], 0)


def _all_places(sequences: int, length: int) -> tf.Tensor:
    """(B · L, 2)"""
    return tf.reshape(tf.stack(tf.meshgrid(tf.range(sequences), tf.range(length), indexing="ij"), -1), [-1, 2])
