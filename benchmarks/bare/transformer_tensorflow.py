"""A training step of the Transformer (big) in plain TensorFlow.

    python -m benchmarks.bare.transformer_tensorflow bare|bare_xla fp32 full|demo
        BATCH LENGTH CORES STEPS

This program does not import the suite.
"""

import math

import tensorflow as tf

from benchmarks.bare.translation import SMOOTHING, TRANSFORMER, tensorflow

DROPOUT = 0.1


class Bare:
    def __init__(self, words, hidden, inner, layers, heads):
        self.hidden, self.inner, self.layers, self.heads = hidden, inner, layers, heads
        self.variables = {
            "table": tf.Variable(tf.random.normal((words, hidden), stddev=hidden**-0.5))
        }

    def linear(self, name, x, outputs, bias=False):
        if name not in self.variables:
            limit = math.sqrt(6 / (x.shape[-1] + outputs))
            self.variables[name] = tf.Variable(
                tf.random.uniform((x.shape[-1], outputs), -limit, limit)
            )
            if bias:
                self.variables[f"{name}.bias"] = tf.Variable(tf.zeros(outputs))
        y = tf.reshape(x, (-1, x.shape[-1])) @ self.variables[name]
        y = y + self.variables[f"{name}.bias"] if bias else y
        return tf.reshape(y, (*x.shape[:-1], outputs))

    def norm(self, name, x):
        if name not in self.variables:
            self.variables[name] = tf.Variable(tf.ones(self.hidden))
            self.variables[f"{name}.bias"] = tf.Variable(tf.zeros(self.hidden))
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return tf.nn.batch_normalization(
            x, mean, variance, self.variables[f"{name}.bias"], self.variables[name], 1e-6
        )

    def attention(self, name, x, memory, causal):
        query, key, value = (
            tf.transpose(tf.reshape(y, (*y.shape[:2], self.heads, -1)), (0, 2, 1, 3))
            for y in (
                self.linear(f"{name}.query", x, self.hidden),
                *tf.split(self.linear(f"{name}.key_value", memory, 2 * self.hidden), 2, -1),
            )
        )
        scores = tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)
        if causal:
            scores += tf.linalg.band_part(tf.fill(scores.shape[-2:], -1e9), 0, -1) * (
                1 - tf.eye(scores.shape[-1])
            )
        found = tf.transpose(tf.nn.dropout(tf.nn.softmax(scores), DROPOUT) @ value, (0, 2, 1, 3))
        return self.linear(f"{name}.output", tf.reshape(found, x.shape), self.hidden)

    def layer(self, name, x, memory=None):
        y = self.norm(f"{name}.norm1", x)
        x += tf.nn.dropout(self.attention(f"{name}.self", y, y, memory is not None), DROPOUT)
        if memory is not None:
            y = self.norm(f"{name}.norm2", x)
            x += tf.nn.dropout(self.attention(f"{name}.cross", y, memory, False), DROPOUT)
        y = tf.nn.relu(
            self.linear(f"{name}.inner", self.norm(f"{name}.norm3", x), self.inner, bias=True)
        )
        y = self.linear(f"{name}.outer", tf.nn.dropout(y, DROPOUT), self.hidden, bias=True)
        return x + tf.nn.dropout(y, DROPOUT)

    def embed(self, words):
        scales = tf.exp(
            tf.range(self.hidden // 2, dtype=tf.float32) * (-math.log(1e4) / (self.hidden // 2 - 1))
        )
        angles = tf.range(words.shape[1], dtype=tf.float32)[:, None] * scales
        places = tf.concat([tf.sin(angles), tf.cos(angles)], 1)
        return tf.nn.dropout(
            tf.gather(self.variables["table"], words) * math.sqrt(self.hidden) + places, DROPOUT
        )

    def loss(self, source, target, label):
        memory, x = self.embed(source), self.embed(target)
        for number in range(self.layers):
            memory = self.layer(f"encoder{number}", memory)
        memory = self.norm("encoder", memory)
        for number in range(self.layers):
            x = self.layer(f"decoder{number}", x, memory)
        x = tf.reshape(self.norm("decoder", x), (-1, self.hidden))
        logits = tf.matmul(x, self.variables["table"], transpose_b=True)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(label, [-1]), logits)
        spread = tf.reduce_logsumexp(logits, 1) - tf.reduce_mean(logits, 1)
        return tf.reduce_mean((1 - SMOOTHING) * entropy + SMOOTHING * spread)

    def all_variables(self):
        return list(self.variables.values())


if __name__ == "__main__":
    tensorflow(lambda model, *sizes: Bare(*sizes), TRANSFORMER, 0.98, 1e-9)
