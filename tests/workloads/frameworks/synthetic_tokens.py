"""A tiny translation-like workload: an embedding and a linear layer over tokens in two padded shapes; free of frameworks.

Shapes: B sentences of L tokens, V words, D values of an embedding. Logits (B, L, V) of token t are O·E[t] + b; the loss is the
cross-entropy of `target`, by the tokens' weights. `never.weight` is part of the model, but no loss depends on it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.workloads.frameworks import synthetic_updates
from workloads.api import ArraySpec, Batch, Facts, LossScaling, OptimizerSettings, ParameterRule, Settings, Workload

WORDS, WIDTH = 40, 6
PARAMETERS = {"embedding.weight": (WORDS, WIDTH), "output.weight": (WORDS, WIDTH), "output.bias": (WORDS,)}
UNUSED = {"never.weight": (3,)}
SIZES = ((4, 12), (8, 5))
"""(B, L) of every shape, largest first."""
STEPS = 6


@dataclasses.dataclass(frozen=True)
class Options:
    """`compile` as image workloads have it."""

    compile: str = "off"


class Tokens(Workload):
    """Adam with clipping and a dynamic scale. `unused`: the model has a parameter that its loss does not depend on."""

    Options = Options

    def __init__(self, replicas=1, compile="off", unused=False, mode="train", pieces=1):
        samples = SIZES[0][0] * replicas
        settings = Settings(
            workload="tokens", devices=replicas, batch_size_global=samples, precision="fp32", nodes=1,
            cores_per_device=1, device="cpu", mode=mode, options={"compile": compile},
        )  # fmt: skip
        super().__init__(settings, Facts(100, 100, {}, "synthetic"))
        self.every_step_uses_every_parameter = not unused
        self.parameters = {**PARAMETERS, **(UNUSED if unused else {})}
        self.pieces = pieces

    @property
    def samples_per_epoch(self):
        return 100

    def learning_rate(self, step):
        return 0.01 * (step + 1)

    def optimizer(self):
        scaling = LossScaling("dynamic", start=8.0, growth_interval=4)
        return OptimizerSettings(
            "adam", beta1=0.875, beta2=0.96875, epsilon=1e-3, clip_norm=0.3, loss_scaling=scaling,
            accumulation_steps=self.pieces,
        )  # fmt: skip

    def parameter_rule(self, parameter):
        return ParameterRule(0.01 if parameter.endswith("weight") else 0.0)

    def shapes(self):
        kinds = {"source": "int32", "target": "int32", "weight": "float32"}
        return [{name: ArraySpec(size, dtype) for name, dtype in kinds.items()} for size in SIZES]

    def evaluation_shapes(self):
        return [{"source": ArraySpec(size, "int32")} for size in SIZES]

    def initial_weights(self, seed):
        for number, (name, shape) in enumerate(self.parameters.items()):
            yield name, np.random.default_rng([seed, number]).normal(0, 0.5, shape).astype(np.float32)

    def open_data(self, place, seed):
        raise NotImplementedError

    @classmethod
    def defaults(cls, profile, rules, options):
        raise NotImplementedError

    @classmethod
    def read_facts(cls, settings):
        raise NotImplementedError

    def batch(self, step: int, replica: int = 0) -> Batch:
        """Of the shapes in turn; about a third of the tokens is padding. All replicas have the same shape."""
        size = SIZES[step % 2]
        generators = [np.random.default_rng([12, step, one]) for one in range(self.settings.devices)]
        weights = [(generator.random(size) > 0.3).astype(np.float32) for generator in generators]
        source, target = (generators[replica].integers(0, WORDS, size, np.int32) for _ in range(2))
        arrays = {"source": source, "target": target, "weight": weights[replica]}
        total = float(sum(weight.sum() for weight in weights))
        return Batch(arrays, float(weights[replica].sum()), total, size[0], {"tokens": int(total)})


def loss_and_gradients(weights, batch: Batch):
    """This replica's part of the loss, and its gradients, in float64."""
    words = np.float64(weights["embedding.weight"])[batch.arrays["source"]]
    logits = words @ weights["output.weight"].T + weights["output.bias"]
    logits = logits - logits.max(-1, keepdims=True)
    logarithms = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = np.eye(WORDS)[batch.arrays["target"]]
    share = batch.arrays["weight"][..., None] / batch.weight_global
    by_logits = (np.exp(logarithms) - wanted) * share
    by_embedding = np.zeros((WORDS, WIDTH))
    np.add.at(by_embedding, batch.arrays["source"], by_logits @ weights["output.weight"])
    gradients = {
        "embedding.weight": by_embedding,
        "output.weight": np.einsum("blv,bld->vd", by_logits, words),
        "output.bias": by_logits.sum((0, 1)),
    }
    unused = {name: np.zeros(shape) for name, shape in UNUSED.items() if name in weights}
    return float(-(logarithms * wanted * share).sum()), {**gradients, **unused}


def summed(workload: Tokens, step: int, weights):
    """Loss and gradients over all replicas."""
    parts = [loss_and_gradients(weights, workload.batch(step, one)) for one in range(workload.settings.devices)]
    return sum(loss for loss, _ in parts), {name: sum(part[name] for _, part in parts) for name in weights}


def expected(workload: Tokens):
    """A trainer's state after the steps, and the loss of each, in float64."""
    losses = []

    def gradients(step, weights):
        loss, found = summed(workload, step, weights)
        losses.append(loss)
        return found

    state = synthetic_updates.follow(workload, dict(workload.initial_weights(1)), gradients, STEPS)
    return state, np.array(losses)
