"""Train NeuMF in a plain JAX loop for `benchmarks.overhead`.

    python -m benchmarks.bare.ncf_jax BATCHES.npz '{"users": 10, "items": 10, "mf_dim": 64,
        "mlp_layer_sizes": [256, 256, 128, 64], "steps": 20, "warmup": 3, "cores": 1,
        "learning_rate": 0.001}'

batches.py describes BATCHES.npz. This program does not import the suite.
"""

import json
import os
import sys
import time

import jax
import jax.numpy as jnp

from benchmarks.bare.batches import stream


def main():
    options = json.loads(sys.argv[2])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options["cores"]])
    batches = stream(sys.argv[1])
    users, items, factors, sizes = (
        options[name] for name in ("users", "items", "mf_dim", "mlp_layer_sizes")
    )
    keys = iter(jax.random.split(jax.random.key(1), 16))
    widths = (factors, factors, sizes[0] // 2, sizes[0] // 2)
    tables = [
        jax.random.normal(next(keys), (n, w)) * 0.01
        for n, w in zip((users, items, users, items), widths)
    ]
    shapes = [*zip(sizes, sizes[1:]), (factors + sizes[-1], 1)]
    weights = [jax.nn.initializers.glorot_uniform()(next(keys), shape) for shape in shapes]
    variables = (tables, weights, [jnp.zeros(weight.shape[1]) for weight in weights])
    moments = [jax.tree.map(jnp.zeros_like, variables) for _ in range(2)]

    def loss_of(variables, user, item, label):
        tables, weights, biases = variables
        rows = [table[ids] for table, ids in zip(tables, (user, item, user, item))]
        hidden = jnp.concatenate(rows[2:], 1)
        for weight, bias in zip(weights[:-1], biases):
            hidden = jax.nn.relu(hidden @ weight + bias)
        logits = (jnp.concatenate([rows[0] * rows[1], hidden], 1) @ weights[-1] + biases[-1])[:, 0]
        return jnp.mean(jnp.logaddexp(0.0, logits) - label * logits)

    def train(variables, mean, square, step, *batch):
        loss, gradients = jax.value_and_grad(loss_of)(variables, *batch)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradients)
        square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, square, gradients)
        rate = options["learning_rate"] * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        updated = jax.tree.map(
            lambda x, m, v: x - rate * m / (jnp.sqrt(v) + 1e-8), variables, mean, square
        )
        return updated, mean, square, step + 1, loss

    train, state = jax.jit(train, donate_argnums=(0, 1, 2)), (variables, *moments, jnp.float32(1))
    for step in range(options["warmup"] + options["steps"]):
        if step <= options["warmup"]:
            jax.block_until_ready(state)
            begin, samples = time.perf_counter(), 0
        batch = next(batches)
        *state, loss = train(*state, *batch)
        samples += len(batch[0])
    print(
        json.dumps(
            {"loss": float(loss), "samples_per_second": samples / (time.perf_counter() - begin)}
        )
    )


if __name__ == "__main__":
    main()
