"""Run inside TensorFlow's environment: states after steps of every optimizer and variant (synthetic_updates.py)."""

import tensorflow as tf

from tests.probes.image_trainers import place_here
from tests.workloads.frameworks import synthetic_updates
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


def states(case):
    """After setup, and after the steps."""
    optimizer, variant, *compiled = case.split("-")
    place = place_here()
    workload = synthetic_updates.Updates(optimizer, variant, place.processes, "on" if compiled else "off")
    trainer = LinearTrainer(workload, place)
    weights = list(workload.initial_weights(1))
    trainer.setup(weights)
    fresh = trainer.state()
    steps, half = (
        [[workload.batch(step, place.process)] for step in range(synthetic_updates.STEPS)],
        synthetic_updates.STEPS // 2,
    )
    trainer.train(steps[:half], 0)
    state = trainer.state()
    trainer.setup(weights, warm_up=False)
    trainer.load_state(state)
    trainer.train(steps[half:], half)
    return {**{f"fresh/{name}": value for name, value in fresh.items()}, **trainer.state()}


def computed(*cases):
    """Under `CASE/…` (OPTIMIZER-VARIANT or OPTIMIZER-VARIANT-compiled): what `state()` gives after the steps; in the middle the
    state is saved, everything set up again, and the state loaded. `CASE/fresh/…`: the state after setup with warm-up.
    """
    return {f"{case}/{name}": value for case in cases for name, value in states(case).items()}
