"""A training step of GNMT in plain TensorFlow.

    python -m benchmarks.bare.gnmt_tensorflow bare|bare_keras fp32 full|demo
        BATCH LENGTH CORES STEPS

With `bare`, an LSTM first multiplies the input of all sequence positions by its weights in a single
product, then iterates over the positions with tf.scan. With `bare_keras`, the LSTMs are
tf.keras.layers.LSTM, which has a single bias instead of two. This program does not import the
suite.
"""

import tensorflow as tf

from benchmarks.bare.translation import GNMT, GNMT_CLIP, GNMT_PARAMETERS, SMOOTHING, tensorflow

DROPOUT = 0.2


class Bare:
    def __init__(self, words, hidden, layers, keras):
        self.words, self.hidden, self.layers, self.keras = words, hidden, layers, keras
        self.weights, self.variables = {}, []
        self.table, self.classifier = self.variable(words, hidden), self.variable(hidden, words)
        self.classifier_bias = self.variable(words)
        self.query, self.key, self.key_bias = (
            *(self.variable(hidden, hidden) for _ in range(2)),
            self.variable(hidden),
        )
        self.vector, self.scale = self.variable(hidden), self.variable(1)

    def variable(self, *shape):
        self.variables.append(tf.Variable(tf.random.uniform(shape, -0.1, 0.1)))
        return self.variables[-1]

    def lstm(self, name, x, backwards=False):
        """Apply an LSTM to x (L, B, inputs), and return its outputs (L, B, hidden)."""
        if name not in self.weights:
            self.weights[name] = (self.keras_weights if self.keras else self.plain_weights)(x)
        if self.keras:
            y = self.weights[name](tf.transpose(x, (1, 0, 2)))
            return tf.transpose(y, (1, 0, 2))
        of_input, of_state, *biases = self.weights[name]
        x = x[::-1] if backwards else x
        inputs = tf.reshape(
            tf.reshape(x, (-1, x.shape[-1])) @ of_input, (*x.shape[:2], -1)
        ) + tf.add_n(biases)

        def cell(states, x):
            i, f, g, o = tf.split(x + states[0] @ of_state, 4, 1)
            c = tf.sigmoid(f) * states[1] + tf.sigmoid(i) * tf.tanh(g)
            return tf.sigmoid(o) * tf.tanh(c), c

        zeros = tf.zeros((x.shape[1], self.hidden))
        y = tf.scan(cell, inputs, (zeros, zeros))[0]
        y.set_shape((*x.shape[:2], self.hidden))
        return y[::-1] if backwards else y

    def plain_weights(self, x):
        rows = 4 * self.hidden
        return [
            self.variable(*shape)
            for shape in ((x.shape[-1], rows), (self.hidden, rows), (rows,), (rows,))
        ]

    def keras_weights(self, x):
        layer = tf.keras.layers.LSTM(self.hidden, return_sequences=True)
        layer.build((x.shape[1], x.shape[0], x.shape[2]))
        self.variables += [weight.value for weight in layer.trainable_weights]
        return layer

    def linear(self, x, weight):
        return tf.reshape(tf.reshape(x, (-1, x.shape[-1])) @ weight, (*x.shape[:-1], -1))

    def attend(self, x, memory):
        query, memory = tf.transpose(x, (1, 0, 2)), tf.transpose(memory, (1, 0, 2))
        keys = self.linear(memory, self.key) + self.key_bias
        sums = tf.tanh(self.linear(query, self.query)[:, :, None] + keys[:, None])
        scores = self.linear(sums, (self.scale * self.vector / tf.norm(self.vector))[:, None])[
            ..., 0
        ]
        return tf.transpose(tf.nn.softmax(scores) @ memory, (1, 0, 2))

    def embed(self, words):
        return tf.nn.dropout(tf.gather(self.table, tf.transpose(words)), DROPOUT)

    def loss(self, source, target, label):
        x = self.embed(source)
        back = (
            self.lstm("back", x[::-1])[::-1] if self.keras else self.lstm("back", x, backwards=True)
        )
        memory = tf.concat([self.lstm("ahead", x), back], 2)
        for number in range(self.layers - 1):
            y = self.lstm(f"encoder{number}", tf.nn.dropout(memory, DROPOUT))
            memory = memory + y if number else y
        x = self.lstm("decoder", self.embed(target))
        context = self.attend(x, memory)
        for number in range(self.layers - 1):
            y = self.lstm(f"decoder{number}", tf.nn.dropout(tf.concat([x, context], 2), DROPOUT))
            x = x + y if number else y
        logits = tf.reshape(x, (-1, self.hidden)) @ self.classifier + self.classifier_bias
        wanted = tf.one_hot(tf.reshape(tf.transpose(label), [-1]), self.words)
        wanted = (1 - SMOOTHING) * wanted + SMOOTHING / self.words
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(wanted, logits))

    def all_variables(self):
        # An LSTM of Keras has one bias instead of two.
        missing = 4 * self.hidden * len(self.weights) if self.keras else 0
        count = sum(variable.shape.num_elements() for variable in self.variables)
        assert count + missing in GNMT_PARAMETERS.values(), f"{count} parameters"
        return self.variables


if __name__ == "__main__":
    tensorflow(
        lambda model, *sizes: Bare(*sizes, keras=model == "bare_keras"),
        GNMT,
        0.999,
        1e-8,
        GNMT_CLIP,
    )
