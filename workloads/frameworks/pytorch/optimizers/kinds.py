"""Optimizers of the PyTorch trainers.

SGD, Adam, AdamW, and RMSprop use the optimizers of torch.optim. LARS uses a few kernel launches for
all parameters together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from workloads.api import Arrays, OptimizerSettings, ParameterRule
from workloads.common.optimizers import SLOTS, chosen
from workloads.frameworks.pytorch.graphs import Rate


class Optimizer(ABC):
    """Base class of the optimizers, which update parameters from their `.grad`.

    The constructor allocates the optimizer state, whose arrays are initially 0.
    """

    skips: ClassVar[bool] = False
    """Whether `step` supports the argument `overflow`."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        rules: Callable[[str], ParameterRule],
        settings: OptimizerSettings,
    ) -> None:
        rule_of = {name: rules(name) for name in parameters}
        self.settings = settings
        self.parameters = {
            name: value for name, value in parameters.items() if not rule_of[name].frozen
        }
        self.groups: dict[ParameterRule, list[str]] = {}
        """Names of the parameters for each update rule."""
        for name in self.parameters:
            self.groups.setdefault(rule_of[name], []).append(name)
        self.slots = {
            kind: {name: torch.zeros_like(value) for name, value in self.parameters.items()}
            for kind in SLOTS[settings.name]
        }
        """Optimizer state as tensors, by the name of the state array and the name of the
        parameter.
        """
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - LARS needs nothing else
        """Create further tensors and optimizer objects that the steps need."""

    @abstractmethod
    def step(self, rate: Rate, overflow: Tensor | None = None) -> None:
        """Run an update at the scheduled learning rate, which may be a tensor on the device.

        If the device tensor `overflow` (float32 without axes) is 1, the parameters and the
        optimizer state do not change.
        """

    def state_dict(self) -> dict[str, Tensor]:
        """Return the optimizer state without copying it, with names `KIND.PARAMETER`."""
        return {
            f"{kind}.{name}": slot
            for kind, slots in self.slots.items()
            for name, slot in slots.items()
        }

    @torch.no_grad()
    def load_state_dict(self, state: Arrays) -> None:
        for name, tensor in Optimizer.state_dict(self).items():
            tensor.copy_(torch.from_numpy(state[name]))

    def reset(self) -> None:
        for tensor in Optimizer.state_dict(self).values():
            tensor.zero_()


class Stock(Optimizer):
    """Optimizer that uses a class of torch.optim.

    Subclasses create the torch.optim object and pass the state of each parameter to this object
    (`keep`).
    """

    optimizer: torch.optim.Optimizer

    def groups_of_torch(self) -> list[dict[str, Any]]:
        """Return the parameter groups of torch.optim, one group for each update rule."""
        return [
            {
                "params": [self.parameters[name] for name in names],
                "weight_decay": rule.decay,
                "rule": rule,
            }
            for rule, names in self.groups.items()
        ]

    def keep(self, **slots: Mapping[str, Tensor]) -> None:
        """Store the state of each parameter with torch.optim's names."""
        for name, parameter in self.parameters.items():
            self.optimizer.state[parameter] = {
                kind: of_kind[name] for kind, of_kind in slots.items()
            }

    def step(self, rate: Rate, overflow: Tensor | None = None) -> None:
        """Run a step of torch.optim.

        The fused operators of torch.optim read `overflow` on the device. torch.amp.GradScaler
        passes its overflow flag through the same attributes.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rule"].lr_multiplier
        if overflow is None:
            self.optimizer.step()
            return
        self.optimizer.grad_scale, self.optimizer.found_inf = None, overflow
        self.optimizer.step()
        self.optimizer.found_inf = None


class Sgd(Stock):
    """SGD: v ← m·v + (g + d·w), w ← w - rate·v.

    Without momentum, SGD has no velocities and no optimizer state.
    """

    skips = True

    def prepare(self) -> None:
        momentum = self.settings.momentum
        self.optimizer = torch.optim.SGD(
            self.groups_of_torch(), lr=0.0, momentum=momentum, fused=True
        )
        if momentum:
            self.keep(momentum_buffer=self.slots["velocity"])
        else:
            self.slots = {}


class Lars(Optimizer):
    """LARS (arXiv 1708.03888).

    The class also implements SGD with the learning rate in the velocity, which is LARS without
    trust ratios.

    With `lr_in_momentum`, the update is v ← m·v + rate·ratio·(g + d·w), w ← w - v. Without
    `lr_in_momentum`, the update is v ← m·v + ratio·(g + d·w), w ← w - rate·v.
    """

    @torch.no_grad()
    def step(self, rate: Rate, overflow: Tensor | None = None) -> None:
        inside = self.settings.lr_in_momentum
        for rule, names in self.groups.items():
            weights = [self.parameters[name] for name in names]
            gradients = [weight.grad for weight in weights]
            velocities = [self.slots["velocity"][name] for name in names]
            group_rate = rate * rule.lr_multiplier
            scales = self._scales(weights, gradients, rule, group_rate if inside else 1.0)
            if rule.decay:
                gradients = list(torch._foreach_add(gradients, weights, alpha=rule.decay))
            torch._foreach_mul_(velocities, self.settings.momentum)
            torch._foreach_add_(velocities, torch._foreach_mul(gradients, scales))
            if inside or isinstance(group_rate, float):
                torch._foreach_add_(weights, velocities, alpha=-1.0 if inside else -group_rate)
            else:
                torch._foreach_add_(weights, torch._foreach_mul(velocities, -group_rate))

    def _scales(
        self, weights: list[Tensor], gradients: list[Tensor], rule: ParameterRule, rate: Rate
    ) -> list[Tensor]:
        """Return `rate` times the trust ratio of each parameter.

        The trust ratio is computed on the device, without synchronization.
        """
        if not rule.lars_adapt:
            if isinstance(rate, float):
                # `torch.tensor` would synchronize with the device.
                rate = torch.full((), rate, device=weights[0].device)
            return [rate] * len(weights)
        of_weights = torch.stack(torch._foreach_norm(weights))
        of_gradients = torch.stack(torch._foreach_norm(gradients))
        ratio = (
            self.settings.trust_coefficient * of_weights / (of_gradients + rule.decay * of_weights)
        )
        ratio = torch.where((of_weights > 0) & (of_gradients > 0), ratio, torch.ones_like(ratio))
        return list((rate * ratio).unbind())


class Adam(Stock):
    """PyTorch's Adam with coupled weight decay. A skipped update is not counted as a step."""

    skips = True
    torch_class: ClassVar[type[torch.optim.Adam]] = torch.optim.Adam

    def prepare(self) -> None:
        """Create the optimizer, with a step counter per parameter, as PyTorch requires.

        All step counters are equal.
        """
        values, device = self.settings, next(iter(self.parameters.values())).device
        self.optimizer = self.torch_class(
            self.groups_of_torch(), lr=0.0, betas=(values.beta1, values.beta2), eps=values.epsilon,
            fused=True,
            capturable=device.type == "cuda",
        )  # fmt: skip
        self.steps = torch.zeros(len(self.parameters), device=device)
        self.keep(step=dict(zip(self.parameters, self.steps.unbind(), strict=True)), **self.slots)

    def state_dict(self) -> dict[str, Tensor]:
        """Return Adam's moment estimates, and `step` (1,)."""
        return {**super().state_dict(), "step": self.steps[:1]}

    def load_state_dict(self, state: Arrays) -> None:
        super().load_state_dict(state)
        self.steps.fill_(float(state["step"][0]))

    def reset(self) -> None:
        super().reset()
        self.steps.zero_()


class AdamW(Adam):
    """PyTorch's AdamW: w ← w - rate·d·w, followed by Adam's update without weight decay."""

    torch_class = torch.optim.AdamW


class Rmsprop(Stock):
    """RMSprop: s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε).

    Without centering and momentum, torch.optim's RMSprop computes the same update as Keras 2.1.
    """

    def prepare(self) -> None:
        """Create the optimizer.

        torch.optim counts the steps of RMSprop on the CPU, but does not use the step counter.
        """
        values = self.settings
        self.optimizer = torch.optim.RMSprop(
            self.groups_of_torch(), lr=0.0, alpha=values.rho, eps=values.epsilon, foreach=True
        )
        self.keep(
            step={name: torch.zeros(()) for name in self.parameters},
            square_avg=self.slots["square"],
        )


KINDS: dict[str, type[Optimizer]] = {
    "sgd": Sgd,
    "lars": Lars,
    "adam": Adam,
    "adamw": AdamW,
    "rmsprop": Rmsprop,
}


def build_optimizer(
    parameters: Mapping[str, Tensor],
    rules: Callable[[str], ParameterRule],
    settings: OptimizerSettings,
) -> Optimizer:
    """Return the optimizer of `settings` for all trained parameters.

    The constructor of the optimizer allocates the optimizer state.

    Raises:
        ValueError: The optimizer is unknown.
    """
    return chosen(settings, KINDS)(parameters, rules, settings)
