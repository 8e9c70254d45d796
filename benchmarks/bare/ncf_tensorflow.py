"""Train NeuMF in a plain TensorFlow loop for `benchmarks.overhead`.

    python -m benchmarks.bare.ncf_tensorflow BATCHES.npz '{"users": 10, "items": 10, "mf_dim": 64,
        "mlp_layer_sizes": [256, 256, 128, 64], "steps": 20, "warmup": 3, "cores": 1,
        "learning_rate": 0.001, "jit_compile": true}'

batches.py describes BATCHES.npz. This program does not import the suite.
"""

import json
import os
import sys
import time

import tensorflow as tf

from benchmarks.bare.batches import stream


def main():
    options = json.loads(sys.argv[2])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options["cores"]])
    tf.config.threading.set_intra_op_parallelism_threads(options["cores"])
    tf.config.threading.set_inter_op_parallelism_threads(1)
    batches = stream(sys.argv[1])
    users, items, factors, sizes = (
        options[name] for name in ("users", "items", "mf_dim", "mlp_layer_sizes")
    )
    normal, glorot = tf.random_normal_initializer(0, 0.01, 1), tf.initializers.GlorotUniform(1)
    widths = (factors, factors, sizes[0] // 2, sizes[0] // 2)
    tables = [
        tf.Variable(normal((rows, width)))
        for rows, width in zip((users, items, users, items), widths)
    ]
    weights = [
        tf.Variable(glorot(shape)) for shape in [*zip(sizes, sizes[1:]), (factors + sizes[-1], 1)]
    ]
    biases = [tf.Variable(tf.zeros(weight.shape[1])) for weight in weights]
    variables = [*tables, *weights, *biases]
    moments = [[tf.Variable(tf.zeros_like(variable)) for variable in variables] for _ in range(2)]
    powers = {"beta1_power": tf.Variable(0.9), "beta2_power": tf.Variable(0.999)}
    rates = {
        "lr": options["learning_rate"],
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
        **powers,
    }

    @tf.function(jit_compile=options.get("jit_compile", True))
    def train(user, item, label):
        with tf.GradientTape() as tape:
            rows = [tf.gather(table, ids) for table, ids in zip(tables, (user, item, user, item))]
            hidden = tf.concat(rows[2:], 1)
            for weight, bias in zip(weights[:-1], biases):
                hidden = tf.nn.relu(hidden @ weight + bias)
            logits = tf.concat([rows[0] * rows[1], hidden], 1) @ weights[-1] + biases[-1]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label, logits[:, 0]))
        for x, m, v, g in zip(variables, *moments, tape.gradient(loss, variables)):
            tf.raw_ops.ResourceApplyAdam(
                var=x.handle, m=m.handle, v=v.handle, grad=tf.convert_to_tensor(g), **rates
            )
        for power, beta in zip(powers.values(), (0.9, 0.999)):
            power.assign(power * beta)
        return loss

    for step in range(options["warmup"] + options["steps"]):
        if step <= options["warmup"]:
            begin, samples = time.perf_counter(), 0
        batch = next(batches)
        loss = train(*map(tf.constant, batch))
        samples += len(batch[0])
    print(
        json.dumps(
            {"loss": float(loss), "samples_per_second": samples / (time.perf_counter() - begin)}
        )
    )


if __name__ == "__main__":
    main()
