"""Run inside TensorFlow's environment: states after steps of every optimizer and variant (synthetic_updates.py), as .npz.

    python tensorflow_optimizers.py OUT.npz CASE …          CASE: OPTIMIZER-VARIANT or OPTIMIZER-VARIANT-compiled

Under `CASE/…`: what `state()` gives after the steps; in the middle the state is saved, everything set up again, and the state
loaded. `CASE/fresh/…`: the state after setup with warm-up. With several processes (RANK, WORLD_SIZE set by the caller) every
process writes.
"""

import os
import sys

import numpy as np
import tensorflow as tf

from tests.workloads.frameworks import synthetic_updates
from workloads.api import Place
from workloads.frameworks.tensorflow.model import ModelTrainer
from workloads.frameworks.tensorflow.variables import Model


class LinearTrainer(ModelTrainer):
    """The sum over parameters of <w, x>."""

    inputs = tuple(synthetic_updates.SHAPES)

    def build_model(self):
        return Model(synthetic_updates.SHAPES)

    def loss_of(self, *inputs):
        return tf.add_n(
            tf.reduce_sum(self.model.parameters[name] * array) for name, array in zip(self.inputs, inputs, strict=True)
        )


def join_once():
    """Trainers of one process share the strategy: TensorFlow joins a cluster at its start alone."""
    join, joined = tf.distribute.MultiWorkerMirroredStrategy, []

    def shared(**options):
        if not joined:
            joined.append(join(**options))
        return joined[0]

    tf.distribute.MultiWorkerMirroredStrategy = shared


def states(case, process, processes):
    """After setup, and after the steps."""
    optimizer, variant, *compiled = case.split("-")
    workload = synthetic_updates.Updates(optimizer, variant, processes, "on" if compiled else "off")
    place = Place(process, processes, range(process, process + 1), processes, ("cpu",))
    trainer = LinearTrainer(workload, place)
    weights = list(workload.initial_weights(1))
    trainer.setup(weights)
    fresh = trainer.state()
    steps, half = (
        [[workload.batch(step, process)] for step in range(synthetic_updates.STEPS)],
        synthetic_updates.STEPS // 2,
    )
    trainer.train(steps[:half], 0)
    state = trainer.state()
    trainer.setup(weights, warm_up=False)
    trainer.load_state(state)
    trainer.train(steps[half:], half)
    return {**{f"fresh/{name}": value for name, value in fresh.items()}, **trainer.state()}


def main():
    out, *cases = sys.argv[1:]
    process, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    join_once()
    found = {f"{case}/{name}": value for case in cases for name, value in states(case, process, processes).items()}
    np.savez(out, **found)


if __name__ == "__main__":
    main()
