"""What every optimizer has in common: parameters by rule, state by name, a step that can be skipped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

import torch

from workloads.api import Arrays, OptimizerSettings, ParameterRule


class Optimizer(ABC):
    """Updates parameters from their `.grad`. Its state starts at 0 and is allocated by the constructor."""

    skips: ClassVar[bool] = False
    """Whether `step` looks at `overflow`."""

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        rules: Callable[[str], ParameterRule],
        settings: OptimizerSettings,
    ) -> None:
        rule_of = {name: rules(name) for name in parameters}
        self.settings = settings
        self.parameters = {name: value for name, value in parameters.items() if not rule_of[name].frozen}
        self.groups: dict[ParameterRule, list[str]] = {}
        """Names of the parameters that share a rule."""
        for name in self.parameters:
            self.groups.setdefault(rule_of[name], []).append(name)
        self.allocate()

    @abstractmethod
    def allocate(self) -> None:
        """Make the optimizer's state, all 0."""

    @abstractmethod
    def step(self, rate: float, overflow: torch.Tensor | None = None) -> None:
        """One update at the scheduled learning rate; where `overflow` (float32, no axes, on the device) is 1, neither
        parameters nor state change."""

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """The state itself, by name: no copies."""

    def state(self) -> dict[str, torch.Tensor]:
        """State by name, as `Trainer.state` has it."""
        return self.tensors()

    @torch.no_grad()
    def load_state(self, state: Arrays) -> None:
        for name, tensor in self.tensors().items():
            tensor.copy_(torch.from_numpy(state[name]))

    def reset(self) -> None:
        for tensor in self.tensors().values():
            tensor.zero_()

    def zeros(self, kind: str) -> dict[str, torch.Tensor]:
        """Zeros like each parameter, under `KIND.PARAMETER`."""
        return {f"{kind}.{name}": torch.zeros_like(value) for name, value in self.parameters.items()}
