"""Run inside a framework's environment: operators that GNMT could have used and does not, beside what it does."""

import numpy as np

POSITIONS, SENTENCES, HIDDEN = 5, 3, 4


def arrays():
    """Inputs, and weights of input and state and two biases, in the order of PyTorch's gates."""
    generator = np.random.default_rng(3)
    shapes = [(POSITIONS, SENTENCES, HIDDEN), *[(4 * HIDDEN, HIDDEN)] * 2, *[(4 * HIDDEN,)] * 2]
    return [generator.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes]


def block_lstm_gradients():
    """`v1`, `v2`, `ours`: gradients of a weighted sum of the outputs by the input; `…_forward`: the outputs."""
    import tensorflow as tf

    from workloads.frameworks.tensorflow.recurrent import lstm

    x, of_input, of_state, bias, other = (tf.constant(one) for one in arrays())

    def swapped(array):
        i, f, g, o = tf.split(array, 4, 0)
        return tf.concat([i, g, f, o], 0)

    def block(x, operator, ordered, **more):
        zeros, none = tf.zeros((SENTENCES, HIDDEN)), tf.zeros((HIDDEN,))
        weight = tf.transpose(ordered(tf.concat([of_input, of_state], 1)))
        return operator(
            seq_len_max=tf.constant(POSITIONS, tf.int64), x=x, cs_prev=zeros, h_prev=zeros, w=weight, wci=none, wcf=none,
            wco=none, b=ordered(bias + other), use_peephole=False, **more,
        ).h  # fmt: skip

    ways = {
        "ours": lambda x: lstm(x, (of_input, of_state, bias, other)),
        "v1": lambda x: block(x, tf.raw_ops.BlockLSTM, swapped, forget_bias=0.0, cell_clip=-1.0),
        "v2": lambda x: block(x, tf.raw_ops.BlockLSTMV2, tf.identity, cell_clip=0.0),
    }
    found = {}
    share = tf.reshape(tf.range(POSITIONS * SENTENCES * HIDDEN, dtype=tf.float32), x.shape)
    for name, way in ways.items():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = way(x)
            total = tf.reduce_sum(share * y)
        found |= {name: tape.gradient(total, x).numpy(), f"{name}_forward": y.numpy()}
    return found


def lstm_with_lengths():
    """`with`, `without`: the fused operator's outputs, told the sentences' lengths, all shorter than the input, or not."""
    import mxnet as mx

    x, *weights = arrays()
    data = mx.nd.array(x)
    vector = mx.nd.array(np.concatenate([one.reshape(-1) for one in weights]))
    zeros = mx.nd.zeros((1, SENTENCES, HIDDEN))
    sizes = {"state_size": HIDDEN, "num_layers": 1, "mode": "lstm"}
    lengths = mx.nd.array([2] * SENTENCES)
    told = mx.nd.RNN(data, vector, zeros, zeros, lengths, use_sequence_length=True, **sizes)
    return {"with": told.asnumpy(), "without": mx.nd.RNN(data, vector, zeros, zeros, **sizes).asnumpy()}
