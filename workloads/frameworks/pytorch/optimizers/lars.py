"""LARS (arXiv 1708.03888) as the reference has it; one call into PyTorch for all parameters at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from workloads.api import ParameterRule
from workloads.frameworks.pytorch.optimizers.base import Optimizer


class Lars(Optimizer):
    """v ← m·v + rate·ratio·(g + d·w), w ← w - v."""

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        rules: Callable[[str], ParameterRule],
        momentum: float,
        coefficient: float,
    ) -> None:
        super().__init__(parameters, rules)
        self.momentum, self.coefficient = momentum, coefficient
        self.velocities = {name: torch.zeros_like(value) for name, value in self.parameters.items()}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Velocities under `velocity.<parameter>`."""
        return {f"velocity.{name}": velocity for name, velocity in self.velocities.items()}

    @torch.no_grad()
    def update(self, rate: float) -> None:
        """One update of all parameters of a rule at a time."""
        for rule, names in self.groups.items():
            weights = [self.parameters[name] for name in names]
            gradients = [weight.grad for weight in weights]
            velocities = [self.velocities[name] for name in names]
            scales = self._scales(weights, gradients, rule, rate * rule.rate_multiple)
            if rule.decay:
                gradients = list(torch._foreach_add(gradients, weights, alpha=rule.decay))
            torch._foreach_mul_(velocities, self.momentum)
            torch._foreach_add_(velocities, torch._foreach_mul(gradients, scales))
            torch._foreach_sub_(weights, velocities)

    def _scales(
        self, weights: list[torch.Tensor], gradients: list[torch.Tensor], rule: ParameterRule, rate: float
    ) -> list[torch.Tensor]:
        """rate · trust ratio of each parameter, on the device: nothing waits for it."""
        if not rule.adapt:
            return [torch.full((), rate, device=weights[0].device)] * len(weights)  # `tensor` would wait for the device
        of_weights = torch.stack(torch._foreach_norm(weights))
        of_gradients = torch.stack(torch._foreach_norm(gradients))
        ratio = self.coefficient * of_weights / (of_gradients + rule.decay * of_weights)
        ratio = torch.where((of_weights > 0) & (of_gradients > 0), ratio, torch.ones_like(ratio))
        return list((rate * ratio).unbind())
