"""A tiny translation-like workload: an embedding and a linear layer, with two padded shapes.

It needs no framework. Shapes: B sentences of L tokens, V words, D values of an embedding. Logits
(B, L, V) of token t are O·E[t] + b. The loss is the cross-entropy of `target`, weighted by the
weights of the tokens. If there is a parameter `short.bias`, it is added only for the shorter shape.
"""

from __future__ import annotations

import numpy as np

from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic import Synthetic
from workloads.api import ArraySpec, Batch, LossScaling, OptimizerSettings, ParameterRule

WORDS, WIDTH = 40, 6
PARAMETERS = {
    "embedding.weight": (WORDS, WIDTH),
    "output.weight": (WORDS, WIDTH),
    "output.bias": (WORDS,),
}
UNUSED = {"short.bias": (WORDS,)}
SIZES = ((4, 12), (8, 5))
"""(B, L) of every shape, largest first."""
SHORT = SIZES[1][1]
STEPS = 6
VARIANTS = {
    "plain": {},
    "pieces": {"pieces": 2},
    "unused": {"unused": True},
    "unused pieces": {"unused": True, "pieces": 2},
    "compiled": {"compile": "on"},
    "compiled pieces": {"compile": "on", "pieces": 2},
    "any shape": {"any_shape": True},
    "any shape in pieces": {"any_shape": True, "pieces": 2},
    "any shape compiled": {"any_shape": True, "compile": "on"},
}
"""Arguments of the workload for each variant."""


class Tokens(Synthetic):
    """Adam with clipping and a static loss scale.

    If `unused` is set, the model has the parameter `short.bias`. If `any_shape` is set, the model
    accepts every shape.
    """

    steps_of_run = STEPS

    def __init__(
        self, replicas=1, compile="off", unused=False, mode="train", pieces=1, any_shape=False
    ):
        updates = OptimizerSettings(
            "adam", beta1=0.875, beta2=0.96875, epsilon=1e-3, clip_norm=0.3,
            accumulation_steps=pieces, loss_scaling=LossScaling("static", 8.0),
        )  # fmt: skip
        super().__init__(updates, replicas, SIZES[0][0], compile, mode)
        self.every_step_uses_every_parameter, self.any_shape = not unused, any_shape
        self.parameters = {**PARAMETERS, **(UNUSED if unused else {})}

    def learning_rate(self, step):
        return 0.01 * (step + 1)

    def parameter_rule(self, parameter):
        return ParameterRule(0.01 if parameter.endswith("weight") else 0.0)

    def shapes(self):
        kinds = {"source": "int32", "target": "int32", "weight": "float32"}
        return [{name: ArraySpec(size, dtype) for name, dtype in kinds.items()} for size in SIZES]

    def evaluation_shapes(self):
        return [{"source": ArraySpec(size, "int32")} for size in SIZES]

    def initial_weights(self, seed):
        for number, (name, shape) in enumerate(self.parameters.items()):
            yield (
                name,
                np.random.default_rng([seed, number]).normal(0, 0.5, shape).astype(np.float32),
            )

    def batch(self, step: int, replica: int = 0) -> Batch:
        """Return a batch whose shape alternates by step.

        About a third of the tokens is padding. All replicas have the same shape.
        """
        size = SIZES[step % 2]
        generators = [
            np.random.default_rng([12, step, device]) for device in range(self.settings.devices)
        ]
        weights = [(generator.random(size) > 0.3).astype(np.float32) for generator in generators]
        source, target = (generators[replica].integers(0, WORDS, size, np.int32) for _ in range(2))
        arrays = {"source": source, "target": target, "weight": weights[replica]}
        total = float(sum(weight.sum() for weight in weights))
        return Batch(arrays, float(weights[replica].sum()), total, size[0], {"tokens": int(total)})


def logits_of(weights, source):
    """Return logits (B, L, V) in float64."""
    words = np.float64(weights["embedding.weight"])[source]
    logits = words @ weights["output.weight"].T + weights["output.bias"]
    return (
        logits + weights["short.bias"]
        if "short.bias" in weights and source.shape[1] == SHORT
        else logits
    )


def loss_and_gradients(weights, batch: Batch):
    """Return this replica's part of the loss, and its gradients, in float64."""
    words = np.float64(weights["embedding.weight"])[batch.arrays["source"]]
    logits = logits_of(weights, batch.arrays["source"])
    logits = logits - logits.max(-1, keepdims=True)
    logarithms = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = np.eye(WORDS)[batch.arrays["target"]]
    share = batch.arrays["weight"][..., None] / batch.global_weight_sum
    by_logits = (np.exp(logarithms) - wanted) * share
    by_embedding = np.zeros((WORDS, WIDTH))
    np.add.at(by_embedding, batch.arrays["source"], by_logits @ weights["output.weight"])
    gradients = {
        "embedding.weight": by_embedding,
        "output.weight": np.einsum("blv,bld->vd", by_logits, words),
        "output.bias": by_logits.sum((0, 1)),
    }
    if "short.bias" in weights:
        gradients["short.bias"] = gradients["output.bias"] * (
            batch.arrays["source"].shape[1] == SHORT
        )
    return float(-(logarithms * wanted * share).sum()), gradients


def summed(workload: Tokens, step: int, weights):
    """Return loss and gradients, summed over all replicas."""
    parts = [
        loss_and_gradients(weights, workload.batch(step, device))
        for device in range(workload.settings.devices)
    ]
    return sum(loss for loss, _ in parts), {
        name: sum(part[name] for _, part in parts) for name in weights
    }


def expected(workload: Tokens):
    """Return a trainer's state after the steps, and the loss of each step, in float64."""
    losses = []

    def gradients(step, weights):
        loss, found = summed(workload, step, weights)
        losses.append(loss)
        return found

    state = synthetic_updates.follow(workload, dict(workload.initial_weights(1)), gradients, STEPS)
    return state, np.array(losses)
