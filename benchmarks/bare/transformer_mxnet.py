"""A training step of the Transformer (big) in plain Gluon (MXNet).

    OMP_NUM_THREADS=CORES python -m benchmarks.bare.transformer_mxnet bare fp32 full|demo
        BATCH LENGTH CORES STEPS

This program does not import the suite.
"""

import math

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from benchmarks.bare.translation import LENGTH, SMOOTHING, TRANSFORMER, mxnet

DROPOUT = 0.1


def dense(outputs, inputs, bias=False):
    return nn.Dense(outputs, use_bias=bias, flatten=False, in_units=inputs)


class Attention(nn.HybridBlock):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.query, self.key_value = dense(hidden, hidden), dense(2 * hidden, hidden)
        self.output, self.dropout = dense(hidden, hidden), nn.Dropout(DROPOUT)

    def hybrid_forward(self, F, x, memory, mask):
        def split(y, parts):
            return F.transpose(F.reshape(y, (0, 0, parts * self.heads, -1)), (0, 2, 1, 3))

        query = F.reshape(split(self.query(x), 1), (-3, 0, 0)) * self.size**-0.5
        key_value = F.split(split(self.key_value(memory), 2), axis=1, num_outputs=2)
        key, value = (F.reshape(array, (-3, 0, 0)) for array in key_value)
        weights = F.softmax(
            F.broadcast_add(F.batch_dot(query, key, transpose_b=True), mask), axis=-1
        )
        y = F.reshape(F.batch_dot(self.dropout(weights), value), (-4, -1, self.heads, 0, 0))
        return self.output(F.reshape(F.transpose(y, (0, 2, 1, 3)), (0, 0, -1)))


class Layer(nn.HybridBlock):
    def __init__(self, hidden, inner, heads, decoder):
        super().__init__()
        self.decoder, self.dropout = decoder, nn.Dropout(DROPOUT)
        self.self_norm, self.self_attention = (
            nn.LayerNorm(epsilon=1e-6, in_channels=hidden),
            Attention(hidden, heads),
        )
        if decoder:
            self.cross_norm, self.cross = (
                nn.LayerNorm(epsilon=1e-6, in_channels=hidden),
                Attention(hidden, heads),
            )
        self.norm = nn.LayerNorm(epsilon=1e-6, in_channels=hidden)
        self.inner, self.outer = dense(inner, hidden, True), dense(hidden, inner, True)

    def hybrid_forward(self, F, x, mask, memory=None, nothing=None):
        y = self.self_norm(x)
        x = x + self.dropout(self.self_attention(y, y, mask))
        if self.decoder:
            x = x + self.dropout(self.cross(self.cross_norm(x), memory, nothing))
        y = self.dropout(F.Activation(self.inner(self.norm(x)), act_type="relu"))
        return x + self.dropout(self.outer(y))


class Bare(nn.HybridBlock):
    def __init__(self, words, hidden, inner, layers, heads):
        super().__init__()
        self.scale, self.dropout = math.sqrt(hidden), nn.Dropout(DROPOUT)
        self.embedding = nn.Embedding(
            words, hidden, weight_initializer=mx.init.Normal(hidden**-0.5)
        )
        self.classifier = nn.Dense(
            words, use_bias=False, flatten=False, params=self.embedding.params
        )
        self.encoder, self.decoder = nn.HybridSequential(), nn.HybridSequential()
        for _ in range(layers):
            self.encoder.add(Layer(hidden, inner, heads, False))
            self.decoder.add(Layer(hidden, inner, heads, True))
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(epsilon=1e-6, in_channels=hidden) for _ in range(2)
        )

    def hybrid_forward(self, F, source, target, label, places, nothing, later):
        memory, x = (
            self.dropout(F.broadcast_add(self.embedding(array) * self.scale, places))
            for array in (source, target)
        )
        for layer in self.encoder:
            memory = layer(memory, nothing)
        memory = self.encoder_norm(memory)
        for layer in self.decoder:
            x = layer(x, later, memory, nothing)
        logarithms = F.log_softmax(self.classifier(self.decoder_norm(x)))
        of_label = F.pick(logarithms, label)
        return -F.mean((1 - SMOOTHING) * of_label + SMOOTHING * F.mean(logarithms, axis=-1))


def make(name, words, hidden, *sizes):
    model = Bare(words, hidden, *sizes)
    model.initialize(mx.init.Xavier())
    angles = np.arange(LENGTH)[:, None] * np.exp(
        np.arange(hidden // 2) * (-math.log(1e4) / (hidden // 2 - 1))
    )
    places = mx.nd.array(np.concatenate([np.sin(angles), np.cos(angles)], 1)[None])
    later = mx.nd.array(np.triu(np.full((1, LENGTH, LENGTH), -1e9), 1))
    return model, places, mx.nd.zeros_like(later), later


if __name__ == "__main__":
    mxnet(make, TRANSFORMER, beta2=0.98, epsilon=1e-9)
