"""A training step of GNMT written by hand in TensorFlow. Imports nothing of the suite.

    python gnmt_tensorflow.py bare|bare_keras fp32 full|demo BATCH LENGTH CORES STEPS

bare: an LSTM multiplies the input of all positions at once, then goes through them in a loop of the graph; bare_keras:
tf.keras.layers.LSTM, which has one bias where the others have two. Full sentences of random words, fixed shapes, TensorFlow's
own dropout, gradients and clipping. Prints seconds and CPU seconds of the shortest step.
"""

import json
import sys
import time

import tensorflow as tf

SIZES = {"full": (32_320, 1_024, 4), "demo": (1_256, 128, 3)}
"""Words, hidden values, layers of encoder and decoder."""
PARAMETERS = {"full": 160_671_297, "demo": 1_477_097}
"""Values of all variables; the first number is the published runs' (MLPerf v0.6, v0.7)."""
DROPOUT, SMOOTHING, CLIP = 0.2, 0.1, 5.0


class Bare:
    def __init__(self, words, hidden, layers, keras):
        self.words, self.hidden, self.layers, self.keras = words, hidden, layers, keras
        self.made, self.variables = {}, []
        self.table, self.classifier = self.variable(words, hidden), self.variable(hidden, words)
        self.classifier_bias = self.variable(words)
        self.query, self.key, self.key_bias = *(self.variable(hidden, hidden) for _ in range(2)), self.variable(hidden)
        self.vector, self.scale = self.variable(hidden), self.variable(1)

    def variable(self, *shape):
        self.variables.append(tf.Variable(tf.random.uniform(shape, -0.1, 0.1)))
        return self.variables[-1]

    def lstm(self, name, x, backwards=False):
        """(L, B, inputs) to (L, B, hidden)."""
        if name not in self.made:
            self.made[name] = (self.keras_weights if self.keras else self.plain_weights)(x)
        if self.keras:
            y = self.made[name](tf.transpose(x, (1, 0, 2)))
            return tf.transpose(y, (1, 0, 2))
        of_input, of_state, *biases = self.made[name]
        x = x[::-1] if backwards else x
        given = tf.reshape(tf.reshape(x, (-1, x.shape[-1])) @ of_input, (*x.shape[:2], -1)) + tf.add_n(biases)

        def cell(states, one):
            i, f, g, o = tf.split(one + states[0] @ of_state, 4, 1)
            c = tf.sigmoid(f) * states[1] + tf.sigmoid(i) * tf.tanh(g)
            return tf.sigmoid(o) * tf.tanh(c), c

        zeros = tf.zeros((x.shape[1], self.hidden))
        y = tf.scan(cell, given, (zeros, zeros))[0]
        y.set_shape((*x.shape[:2], self.hidden))
        return y[::-1] if backwards else y

    def plain_weights(self, x):
        rows = 4 * self.hidden
        return [self.variable(*shape) for shape in ((x.shape[-1], rows), (self.hidden, rows), (rows,), (rows,))]

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
        scores = self.linear(sums, (self.scale * self.vector / tf.norm(self.vector))[:, None])[..., 0]
        return tf.transpose(tf.nn.softmax(scores) @ memory, (1, 0, 2))

    def embed(self, words):
        return tf.nn.dropout(tf.gather(self.table, tf.transpose(words)), DROPOUT)

    def loss(self, source, target, label):
        x = self.embed(source)
        back = self.lstm("back", x[::-1])[::-1] if self.keras else self.lstm("back", x, backwards=True)
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


def main():
    name, precision, size, *numbers = sys.argv[1:]
    assert precision == "fp32", precision
    batch, length, cores, steps = map(int, numbers)
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = Bare(*SIZES[size], keras=name == "bare_keras")
    words = [tf.random.uniform((batch, length), 4, SIZES[size][0], tf.int32) for _ in range(3)]
    model.loss(*words)  # makes the variables
    variables = model.variables
    missing = 4 * SIZES[size][1] * len(model.made) if model.keras else 0  # Keras has one bias
    count = sum(variable.shape.num_elements() for variable in variables)
    assert count == PARAMETERS[size] - missing, f"{count} parameters"
    moments = [[tf.Variable(tf.zeros_like(variable)) for variable in variables] for _ in range(2)]
    rates = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "beta1_power": 0.0, "beta2_power": 0.0}

    @tf.function
    def train(*batch):
        with tf.GradientTape() as tape:
            loss = model.loss(*batch)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), CLIP)
        for x, m, v, g in zip(variables, *moments, gradients):
            tf.raw_ops.ResourceApplyAdam(var=x.handle, m=m.handle, v=v.handle, grad=tf.convert_to_tensor(g), **rates)
        return loss

    float(train(*words))
    found = []
    for _ in range(steps):
        begin, used = time.perf_counter(), time.process_time()
        loss = float(train(*words))
        found.append((time.perf_counter() - begin, time.process_time() - used))
    seconds, cpu = (min(one) for one in zip(*found))
    print(json.dumps({"step_seconds": seconds, "step_cpu_seconds": cpu, "loss": loss}))


if __name__ == "__main__":
    main()
