"""LARS (arXiv 1708.03888), and SGD with the rate inside the velocity; one call into PyTorch for all parameters at a time."""

from __future__ import annotations

import torch

from workloads.api import ParameterRule
from workloads.frameworks.pytorch.optimizers.base import Optimizer


class Lars(Optimizer):
    """inside: v ← m·v + rate·ratio·(g + d·w), w ← w - v. outside: v ← m·v + ratio·(g + d·w), w ← w - rate·v.

    SGD is the same where no parameter's rule has a trust ratio.
    """

    def allocate(self) -> None:
        self.inside = self.settings.momentum_rate == "inside"
        self.velocities = self.zeros("velocity")

    def tensors(self) -> dict[str, torch.Tensor]:
        """Velocities under `velocity.<parameter>`."""
        return self.velocities

    @torch.no_grad()
    def step(self, rate: float, overflow: torch.Tensor | None = None) -> None:
        for rule, names in self.groups.items():
            weights = [self.parameters[name] for name in names]
            gradients = [weight.grad for weight in weights]
            velocities = [self.velocities[f"velocity.{name}"] for name in names]
            own_rate = rate * rule.rate_multiple
            scales = self._scales(weights, gradients, rule, own_rate if self.inside else 1.0)
            if rule.decay:
                gradients = list(torch._foreach_add(gradients, weights, alpha=rule.decay))
            torch._foreach_mul_(velocities, self.settings.momentum)
            torch._foreach_add_(velocities, torch._foreach_mul(gradients, scales))
            torch._foreach_add_(weights, velocities, alpha=-1.0 if self.inside else -own_rate)

    def _scales(
        self, weights: list[torch.Tensor], gradients: list[torch.Tensor], rule: ParameterRule, rate: float
    ) -> list[torch.Tensor]:
        """`rate` times the trust ratio of each parameter, on the device: nothing waits for it."""
        if not rule.adapt:
            return [torch.full((), rate, device=weights[0].device)] * len(weights)  # `tensor` would wait for the device
        of_weights = torch.stack(torch._foreach_norm(weights))
        of_gradients = torch.stack(torch._foreach_norm(gradients))
        ratio = self.settings.trust_coefficient * of_weights / (of_gradients + rule.decay * of_weights)
        ratio = torch.where((of_weights > 0) & (of_gradients > 0), ratio, torch.ones_like(ratio))
        return list((rate * ratio).unbind())
