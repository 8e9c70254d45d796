"""A training step of GNMT written by hand with MXNet's Gluon: rnn.LSTM, the fused operator. Imports nothing of the suite.

    python gnmt_mxnet.py bare fp32 full|demo BATCH LENGTH CORES STEPS

Full sentences of random words, MXNet's own dropout. Prints seconds and CPU seconds of the shortest step.
"""

import os
import sys

_, _, SIZE, *NUMBERS = sys.argv[1:]
BATCH, LENGTH, CORES, STEPS = map(int, NUMBERS)
os.environ["OMP_NUM_THREADS"] = str(CORES)  # MXNet reads it when it is loaded

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from block import print_shortest  # noqa: E402
from mxnet.gluon import nn, rnn  # noqa: E402

SIZES = {"full": (32_320, 1_024, 4), "demo": (1_256, 128, 3)}
"""Words, hidden values, layers of encoder and decoder."""
PARAMETERS = {"full": 160_671_297, "demo": 1_477_097}
"""Values of all parameters; the first number is the published runs' (MLPerf v0.6, v0.7)."""
DROPOUT, SMOOTHING, CLIP = 0.2, 0.1, 5.0


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
        self.vector, self.scale = (self.params.get(name, shape=(size,)) for name, size in (("v", hidden), ("s", 1)))

    def attend(self, F, x, memory, vector, scale):
        query, memory = (F.transpose(one, (1, 0, 2)) for one in (x, memory))
        sums = F.tanh(F.broadcast_add(F.expand_dims(self.query(query), 2), F.expand_dims(self.key(memory), 1)))
        vector = F.broadcast_mul(F.broadcast_div(vector, F.norm(vector)), scale)
        scores = F.FullyConnected(sums, F.expand_dims(vector, 0), num_hidden=1, no_bias=True, flatten=False)
        weights = F.softmax(F.reshape(scores, (0, 0, -1)))
        return F.transpose(F.batch_dot(weights, memory), (1, 0, 2))

    def hybrid_forward(self, F, source, target, label, vector, scale):
        memory = self.first(self.dropout(self.embedding(F.transpose(source))))
        for number, lstm in enumerate(self.encoder):
            y = lstm(self.dropout(memory))
            memory = memory + y if number else y
        first, *others = self.decoder
        x = first(self.dropout(self.embedding(F.transpose(target))))
        context = self.attend(F, x, memory, vector, scale)
        for number, lstm in enumerate(others):
            y = lstm(self.dropout(F.concat(x, context, dim=2)))
            x = x + y if number else y
        logarithms = F.log_softmax(self.classifier(x))
        own = F.pick(logarithms, F.transpose(label))
        return -F.mean((1 - SMOOTHING) * own + SMOOTHING * F.mean(logarithms, axis=-1))


def main():
    words = SIZES[SIZE][0]
    model = Bare(*SIZES[SIZE])
    model.initialize(mx.init.Uniform(0.1))
    model.hybridize(static_alloc=True, static_shape=True)
    batch = [mx.nd.array(np.random.randint(4, words, (BATCH, LENGTH)), dtype="int32") for _ in range(3)]
    parameters = model.collect_params()
    count = sum(int(np.prod(parameter.shape)) for parameter in parameters.values())
    assert count == PARAMETERS[SIZE], f"{count} parameters"
    adam = mx.gluon.Trainer(parameters, "adam", {"learning_rate": 1e-4})

    def step():
        with mx.autograd.record():
            loss = model(*batch)
        loss.backward()
        gradients = [parameter.grad() for parameter in parameters.values()]
        mx.gluon.utils.clip_global_norm(gradients, CLIP, check_isfinite=False)
        adam.step(1)
        value = float(loss.asscalar())
        mx.nd.waitall()
        return value

    print_shortest(step, STEPS)


if __name__ == "__main__":
    main()
