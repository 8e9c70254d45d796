"""What every optimizer has in common: parameters by rule, state by name, a step that can be skipped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch

from workloads.api import Arrays, ParameterRule


class Optimizer(ABC):
    """Updates parameters from their `.grad`. Its state starts at 0 and is allocated by the constructor."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], rules: Callable[[str], ParameterRule]) -> None:
        rule_of = {name: rules(name) for name in parameters}
        self.parameters = {name: value for name, value in parameters.items() if not rule_of[name].frozen}
        self.groups: dict[ParameterRule, list[str]] = {}
        """Names of the parameters that share a rule."""
        for name in self.parameters:
            self.groups.setdefault(rule_of[name], []).append(name)

    @abstractmethod
    def update(self, rate: float) -> None:
        """One update at the scheduled learning rate."""

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """The state itself, by name: no copies."""

    def step(self, rate: float, overflow: torch.Tensor | None = None) -> None:
        """One update; where `overflow` (float32, no axes, on the device) is 1, neither parameters nor state change."""
        if overflow is None:
            self.update(rate)
        else:
            self.update_unless(overflow, rate)

    @torch.no_grad()
    def update_unless(self, overflow: torch.Tensor, rate: float) -> None:
        """`update`, then what was there before is put back where `overflow` is 1: right for every optimizer, with a copy of
        everything. Those with operators that skip by themselves override it."""
        changed = [*self.parameters.values(), *self.tensors().values()]
        before = [tensor.clone() for tensor in changed]
        self.update(rate)
        skipped = overflow > 0
        for tensor, old in zip(changed, before, strict=True):
            torch.where(skipped, old, tensor, out=tensor)

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


def torch_groups(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The parameters as torch.optim takes them: a group for every rule."""
    return [
        {"params": [optimizer.parameters[name] for name in names], "weight_decay": rule.decay, "rule": rule}
        for rule, names in optimizer.groups.items()
    ]


def set_rates(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of every group made by `torch_groups`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rule"].rate_multiple
