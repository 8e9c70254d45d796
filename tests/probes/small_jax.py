"""Runs in JAX's environment: small models on ModelTrainer.

The models are described in synthetic_updates.py and synthetic_tokens.py.
"""

import dataclasses

import jax
import jax.numpy as jnp

from tests.probes.gradients import of_jax as gradients  # noqa: F401 - part of the adapter
from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic_tokens import SHORT
from workloads.frameworks.jax.model import ModelTrainer

PASSES = ("step", "backward", "run_loss", "run_outputs")
"""The trainer's methods for a step, gradients, a loss, and outputs."""


class SmallTrainer(ModelTrainer):
    """A trainer that compiles its steps.

    The synthetic workloads have `compile="off"`, which JAX does not support.
    """

    def __init__(self, workload, place):
        workload.options = dataclasses.replace(workload.options, compile="auto")
        super().__init__(workload, place)


class LinearTrainer(SmallTrainer):
    """A model whose loss is the sum over parameters of <w, x>."""

    inputs = tuple(synthetic_updates.SHAPES)
    parameters = synthetic_updates.SHAPES

    def loss(self, model, batch):
        return sum((model.weights[name] * array).sum() for name, array in batch.items())


class TokensTrainer(SmallTrainer):
    """A model that maps words (B, L) to logits (B, L, WORDS)."""

    inputs = ("source", "target", "weight")
    evaluation_inputs = ("source",)

    def __init__(self, workload, place):
        super().__init__(workload, place)
        self.parameters = workload.parameters

    def loss(self, model, batch):
        logarithms = jax.nn.log_softmax(self.logits(model.weights, batch["source"]))
        picked = jnp.take_along_axis(logarithms, batch["target"][..., None], -1)[..., 0]
        return -(batch["weight"] * picked).sum()

    def outputs(self, model, batch):
        return {"logits": self.logits(model.weights, batch["source"])}

    def logits(self, weights, source):
        logits = (
            weights["embedding.weight"][source] @ weights["output.weight"].T
            + weights["output.bias"]
        )
        return (
            logits + weights["short.bias"]
            if "short.bias" in weights and source.shape[1] == SHORT
            else logits
        )


def traces(trainer):
    """Return the number of traces of a training step."""
    return trainer.traces
