"""A training step of GNMT with MXNet's Gluon and the fused operator rnn.LSTM.

    OMP_NUM_THREADS=CORES python -m benchmarks.bare.gnmt_mxnet bare fp32 full|demo
        BATCH LENGTH CORES STEPS

This program does not import the suite.
"""

import mxnet as mx
import numpy as np
from mxnet.gluon import nn, rnn

from benchmarks.bare.translation import GNMT, GNMT_CLIP, GNMT_PARAMETERS, SMOOTHING, mxnet

DROPOUT = 0.2


class Bare(nn.HybridBlock):
    def __init__(self, words, hidden, layers):
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(words, hidden), nn.Dropout(DROPOUT)
        self.first = rnn.LSTM(hidden, bidirectional=True, input_size=hidden)
        self.encoder, self.decoder = nn.HybridSequential(), nn.HybridSequential()
        for number in range(layers):
            if number:
                self.encoder.add(rnn.LSTM(hidden, input_size=hidden if number > 1 else 2 * hidden))
            self.decoder.add(rnn.LSTM(hidden, input_size=2 * hidden if number else hidden))
        sizes = {"flatten": False, "in_units": hidden}
        self.query, self.key = nn.Dense(hidden, use_bias=False, **sizes), nn.Dense(hidden, **sizes)
        self.classifier = nn.Dense(words, **sizes)
        self.vector, self.scale = (
            self.params.get(name, shape=(size,)) for name, size in (("v", hidden), ("s", 1))
        )

    def attend(self, F, x, memory, vector, scale):
        query, memory = (F.transpose(array, (1, 0, 2)) for array in (x, memory))
        sums = F.tanh(
            F.broadcast_add(F.expand_dims(self.query(query), 2), F.expand_dims(self.key(memory), 1))
        )
        vector = F.broadcast_mul(F.broadcast_div(vector, F.norm(vector)), scale)
        scores = F.FullyConnected(
            sums, F.expand_dims(vector, 0), num_hidden=1, no_bias=True, flatten=False
        )
        weights = F.softmax(F.reshape(scores, (0, 0, -1)))
        return F.transpose(F.batch_dot(weights, memory), (1, 0, 2))

    def hybrid_forward(self, F, source, target, label, vector, scale):
        memory = self.first(self.dropout(self.embedding(F.transpose(source))))
        for number, lstm in enumerate(self.encoder):
            y = lstm(self.dropout(memory))
            memory = memory + y if number else y
        first, *layers = self.decoder
        x = first(self.dropout(self.embedding(F.transpose(target))))
        context = self.attend(F, x, memory, vector, scale)
        for number, lstm in enumerate(layers):
            y = lstm(self.dropout(F.concat(x, context, dim=2)))
            x = x + y if number else y
        logarithms = F.log_softmax(self.classifier(x))
        of_label = F.pick(logarithms, F.transpose(label))
        return -F.mean((1 - SMOOTHING) * of_label + SMOOTHING * F.mean(logarithms, axis=-1))


def make(name, *sizes):
    model = Bare(*sizes)
    model.initialize(mx.init.Uniform(0.1))
    count = sum(int(np.prod(parameter.shape)) for parameter in model.collect_params().values())
    assert count in GNMT_PARAMETERS.values(), f"{count} parameters"
    return (model,)


if __name__ == "__main__":
    mxnet(make, GNMT, GNMT_CLIP)
