"""A workload whose gradients are its batches, to compare optimizers with float64 NumPy.

It needs no framework. The loss of a sample is the sum over parameters of <w, x>, where x is the
array of the batch with the parameter's name. The gradient of a step is therefore the sum of all x
divided by global_weight_sum, for any weights.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.workloads.frameworks.synthetic import STEPS, Synthetic
from workloads.api import ArraySpec, Batch, LossScaling, OptimizerSettings, ParameterRule, Workload
from workloads.common import optimizers

SHAPES = {
    "a.weight": (7, 5),
    "a.bias": (5,),
    "b.weight": (4, 3, 2, 2),
    "b.bias": (4,),
    "still.weight": (6,),
}
SAMPLES = 6
"""Samples per replica and step."""
OVERFLOW = 4
"""Step whose scaled gradient overflows fp32 under a dynamic scale.

Only the last replica's part is that large.
"""
HUGE = 1e37
DYNAMIC = LossScaling("dynamic", start=2.0**11, growth_interval=3, maximum=2.0**11)
"""Scale that is at its maximum after step 2, halved by the overflow, and doubled after step 7."""
STATIC = LossScaling("static", 1024.0)
CUT = {"clip_norm": 4.0, "accumulation_steps": 2}
OPTIMIZERS = {
    "sgd": OptimizerSettings("sgd", momentum=0.9),
    "sgdinside": OptimizerSettings("sgd", momentum=0.9, lr_in_momentum=True),
    "lars": OptimizerSettings("lars", momentum=0.9, trust_coefficient=0.02, lr_in_momentum=True),
    "larsoutside": OptimizerSettings("lars", momentum=0.9, trust_coefficient=0.02),
    # Betas that fp32 represents exactly.
    "adam": OptimizerSettings("adam", beta1=0.875, beta2=0.96875, epsilon=1e-3),
    "adamw": OptimizerSettings("adamw", beta1=0.875, beta2=0.96875, epsilon=1e-3),
    "rmsprop": OptimizerSettings("rmsprop", rho=0.875, epsilon=1e-3),
}
RULES = {
    "a.weight": ParameterRule(0.05, lars_adapt=True),
    "a.bias": ParameterRule(lr_multiplier=2.0),
    "b.weight": ParameterRule(0.05, lars_adapt=True, lr_multiplier=0.5),
    "b.bias": ParameterRule(0.01),
}
FROZEN = {"b.weight": ParameterRule(frozen=True), "still.weight": ParameterRule(frozen=True)}
VARIANTS = {
    "plain": ({}, {}),
    "clip": ({"clip_norm": 4.0}, {}),
    "rules": ({}, RULES),
    "frozen": ({}, FROZEN),
    "pieces": ({"accumulation_steps": 3}, {}),
    "static": ({"loss_scaling": STATIC}, {}),
    "everything": ({"loss_scaling": STATIC, **CUT}, {**RULES, **FROZEN}),
    "skipped": ({"loss_scaling": DYNAMIC, **CUT}, {**RULES, **FROZEN}),
}
"""Changes of the optimizer's settings, and rules by parameter, for each variant.

`skipped` is `everything` with a dynamic scale.
"""
ARITHMETIC = ("rules", "static", "everything")
FEWER = {
    "sgdinside": ARITHMETIC,
    "larsoutside": ARITHMETIC,
    **dict.fromkeys(("lars", "adam", "adamw", "rmsprop"), ("plain", *ARITHMETIC)),
}
"""Variants of all optimizers except SGD: those that test the arithmetic of the optimizer.

`everything` has clipping, loss scaling, frozen parameters, and accumulation.
"""
SKIPPING = {
    "pytorch": ("sgd", "adam", "adamw"),
    "tensorflow": ("sgd", "lars"),
    "jax": ("sgd", "lars", "adam", "adamw"),
    "mxnet": (),
}
"""Optimizers that support a dynamic scale, for each framework."""


def skipping(optimizer, framework):
    """Return `skipped` if the framework has a dynamic scale for the optimizer, or `everything`."""
    return "skipped" if optimizer in SKIPPING[framework] else "everything"


def cases(framework):
    """Return the names of a framework's cases, in the form optimizer-variant."""
    plain = [variant for variant in VARIANTS if variant != "skipped"]
    fixed = [f"{name}-{variant}" for name in OPTIMIZERS for variant in FEWER.get(name, plain)]
    return [*fixed, *(f"{name}-skipped" for name in SKIPPING[framework])]


class Updates(Synthetic):
    """Workload with an optimizer in a variant."""

    def __init__(self, optimizer: str, variant: str, replicas: int = 1, compile: str = "off"):
        changes, self.rules = VARIANTS[variant]
        super().__init__(
            dataclasses.replace(OPTIMIZERS[optimizer], **changes), replicas, SAMPLES, compile
        )

    def learning_rate(self, step):
        return (0.01, 0.1, 0.03)[step % 3]

    def parameter_rule(self, parameter):
        return self.rules.get(parameter, ParameterRule())

    def shapes(self):
        return [{name: ArraySpec((SAMPLES, *shape), "float32") for name, shape in SHAPES.items()}]

    def initial_weights(self, seed):
        for number, (name, shape) in enumerate(SHAPES.items()):
            yield name, np.random.default_rng([seed, number]).normal(0, 1, shape).astype(np.float32)

    def batch(self, step: int, replica: int = 0) -> Batch:
        """Return a batch. Norms of gradients are above and below the `clip_norm` of the variants.

        Gradients of still.weight are 0.
        """
        generator = np.random.default_rng([11, step, replica])
        spread = (0.3, 3.0)[step % 2]
        arrays = {
            name: (
                generator.normal(0.5 * spread, spread, spec.shape) * (name != "still.weight")
            ).astype(np.float32)
            for name, spec in self.shapes()[0].items()
        }
        replicas = self.settings.devices
        if (
            step == OVERFLOW
            and self.updates.loss_scaling.mode == "dynamic"
            and replica == replicas - 1
        ):
            arrays["a.bias"][1, 2] = HUGE
        return Batch(arrays, SAMPLES, SAMPLES * replicas, SAMPLES * replicas)


def expected(workload: Updates) -> dict[str, np.ndarray]:
    """Return a trainer's state after the steps, in float64."""

    def gradients(step, weights):
        parts = [workload.batch(step, replica) for replica in range(workload.settings.devices)]
        return {
            name: sum(np.float64(part.arrays[name]).sum(0) for part in parts)
            / parts[0].global_weight_sum
            for name in weights
        }

    return follow(workload, dict(workload.initial_weights(1)), gradients, STEPS)


def follow(workload: Workload, weights, gradients_of, steps: int) -> dict[str, np.ndarray]:
    """Return a trainer's state after steps from `weights`, in float64.

    `gradients_of(step, weights)` returns gradients of the unscaled loss, summed over replicas.
    """
    settings = workload.optimizer()
    weights = {name: np.float64(value) for name, value in weights.items()}
    rules = {name: workload.parameter_rule(name) for name in weights}
    trained = [name for name in weights if not rules[name].frozen]
    kinds = optimizers.SLOTS[settings.name]
    slots = {name: [np.zeros(weights[name].shape) for _ in kinds] for name in trained}
    scale, taken = optimizers.LossScale(settings.loss_scaling), 0
    for step in range(steps):
        gradients = {
            name: value for name, value in gradients_of(step, weights).items() if name in trained
        }
        with np.errstate(over="ignore"):
            scaled = {name: np.float32(scale.scale * value) for name, value in gradients.items()}
        if not scale.update(scaled):
            continue
        taken += 1
        factor = (
            optimizers.clip_factor(gradients, settings.clip_norm) if settings.clip_norm else 1.0
        )
        for name in trained:
            rate = workload.learning_rate(step) * rules[name].lr_multiplier
            arrays = (factor * gradients[name], weights[name], *slots[name])
            weights[name], *slots[name] = optimizers.updated(
                settings, rules[name], rate, taken, *arrays
            )
    kept = {
        f"{kind}.{name}": of_kind
        for name in trained
        for kind, of_kind in zip(kinds, slots[name], strict=True)
    }
    counted = {"step": np.array([taken])} if "exp_avg" in kinds else {}
    return {**weights, **kept, **counted, **_named_scale(scale)}


def _named_scale(scale):
    """Return the entries of a trainer's state for the loss scale, if it has any."""
    if scale.settings.mode != "dynamic":
        return {}
    return {
        "loss_scale": np.array([scale.scale]),
        "loss_scale.clean_steps": np.array([scale.clean_steps]),
    }
