"""RMSprop: torch.optim's, which has Keras 2.1's form when it is neither centred nor given a momentum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from workloads.api import ParameterRule
from workloads.frameworks.pytorch.optimizers.base import Optimizer, set_rates, torch_groups


class Rmsprop(Optimizer):
    """s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε); one call into PyTorch for all parameters at a time."""

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        rules: Callable[[str], ParameterRule],
        rho: float,
        epsilon: float,
    ) -> None:
        super().__init__(parameters, rules)
        self.optimizer = torch.optim.RMSprop(torch_groups(self), lr=0.0, alpha=rho, eps=epsilon, foreach=True)
        self.squares = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        for name, square in self.squares.items():
            # torch.optim counts steps on the CPU and does not use them.
            self.optimizer.state[self.parameters[name]] = {"step": torch.zeros(()), "square_avg": square}

    def update(self, rate: float) -> None:
        """One update of all parameters of a rule at a time."""
        set_rates(self.optimizer, rate)
        self.optimizer.step()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Means of squared gradients under `square.<parameter>`."""
        return {f"square.{name}": square for name, square in self.squares.items()}
