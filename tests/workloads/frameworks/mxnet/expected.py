"""What optimizers must compute: steps of workloads/common/optimizers.py in float64, with clipping and loss scaling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.api import Array, Arrays, OptimizerSettings, ParameterRule
from workloads.common import optimizers


class Expected:
    """Weights and optimizer state of all parameters that are not frozen, step by step."""

    def __init__(self, settings: OptimizerSettings, rules: Mapping[str, ParameterRule], weights: Arrays) -> None:
        self.settings, self.rules = settings, rules
        self.weights = {name: np.float64(value) for name, value in weights.items()}
        self.trained = [name for name in weights if not rules[name].frozen]
        self.first, self.second = ({name: np.zeros(weights[name].shape) for name in self.trained} for _ in range(2))
        self.steps = 0
        self.scale = optimizers.LossScale(settings.loss_scaling)

    def step(self, gradients: Arrays, rate: float) -> None:
        """One update from gradients that are summed over replicas and unscaled; some infinite: an overflow."""
        gradients = {name: np.float64(gradients[name]) for name in self.trained}
        if not self.scale.update(gradients):
            return
        if self.settings.clip_norm is not None:
            factor = optimizers.clip_factor(gradients, self.settings.clip_norm)
            gradients = {name: factor * value for name, value in gradients.items()}
        self.steps += 1
        for name in self.trained:
            self._update(name, gradients[name], rate * self.rules[name].rate_multiple)

    def _update(self, name: str, gradient: Array, rate: float) -> None:
        chosen, rule, weight, first = self.settings, self.rules[name], self.weights[name], self.first[name]
        if chosen.name in ("sgd", "lars"):
            found = optimizers.with_momentum(chosen, weight, first, gradient, rate, rule)
        elif chosen.name == "rmsprop":
            found = optimizers.rmsprop(weight, first, gradient, rate, chosen.rho, chosen.epsilon, rule.decay)
        else:
            betas = chosen.beta1, chosen.beta2
            *found, self.second[name] = optimizers.adam(
                weight, first, self.second[name], gradient, rate, self.steps, betas, chosen.epsilon, rule.decay
            )
        self.weights[name], self.first[name] = found

    def state(self) -> dict[str, Array]:
        """Under the names that trainers use."""
        found = {}
        if self.settings.name == "adam":
            for kind, values, beta in (
                ("exp_avg", self.first, self.settings.beta1),
                ("exp_avg_sq", self.second, self.settings.beta2),
            ):
                # MXNet's operator computes 1 - β in float32; its moments keep that factor, its updates do not.
                factor = float(np.float32(1) - np.float32(beta)) / (1 - beta)
                found[f"adam.{kind}"] = factor * np.concatenate([values[name].ravel() for name in self.trained])
            found["adam.step"] = np.array([self.steps])
        else:
            kind = "square" if self.settings.name == "rmsprop" else "velocity"
            found = {f"{kind}.{name}": value for name, value in self.first.items()}
        if self.settings.loss_scaling.mode == "dynamic":
            found |= {
                "loss_scale": np.array([self.scale.scale]),
                "loss_scale.clean_steps": np.array([self.scale.clean_steps]),
            }
        return found


def difference(found: Arrays, wanted: Arrays) -> float:
    """The largest difference of an array over its largest value; infinite where names differ or values are not finite."""
    if found.keys() != wanted.keys():
        return float("inf")
    pairs = [(np.float64(found[name]), value) for name, value in wanted.items()]
    if not all(np.isfinite(array).all() for array, _ in pairs):
        return float("inf")
    return max(float(np.abs(array - value).max() / (np.abs(value).max() or 1)) for array, value in pairs)
