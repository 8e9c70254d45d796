"""The optimizers: SGD, Adam and RMSprop by PyTorch's own operators, LARS composed of few launches for all parameters."""

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
    """Updates parameters from their `.grad`. Its state starts at 0 and is allocated by the constructor."""

    skips: ClassVar[bool] = False
    """Whether `step` looks at `overflow`."""

    def __init__(
        self, parameters: Mapping[str, Tensor], rules: Callable[[str], ParameterRule], settings: OptimizerSettings
    ) -> None:
        rule_of = {name: rules(name) for name in parameters}
        self.settings = settings
        self.parameters = {name: value for name, value in parameters.items() if not rule_of[name].frozen}
        self.groups: dict[ParameterRule, list[str]] = {}
        """Names of the parameters that share a rule."""
        for name in self.parameters:
            self.groups.setdefault(rule_of[name], []).append(name)
        self.slots = {
            kind: {name: torch.zeros_like(value) for name, value in self.parameters.items()}
            for kind in SLOTS[settings.name]
        }
        """Kind to parameter to tensor."""
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - LARS needs nothing else
        """Make what else steps need."""

    @abstractmethod
    def step(self, rate: Rate, overflow: Tensor | None = None) -> None:
        """One update at the scheduled learning rate, which may lie on the device; where `overflow` (float32, no axes, on the
        device) is 1, neither parameters nor state change."""

    def state_dict(self) -> dict[str, Tensor]:
        """The state itself, no copies, by the names `KIND.PARAMETER`."""
        return {f"{kind}.{name}": slot for kind, slots in self.slots.items() for name, slot in slots.items()}

    @torch.no_grad()
    def load_state_dict(self, state: Arrays) -> None:
        for name, tensor in Optimizer.state_dict(self).items():
            tensor.copy_(torch.from_numpy(state[name]))

    def reset(self) -> None:
        for tensor in Optimizer.state_dict(self).values():
            tensor.zero_()


class Stock(Optimizer):
    """By one of torch.optim's: subclasses make it, and give each parameter's state to it (`keep`)."""

    optimizer: torch.optim.Optimizer

    def groups_of_torch(self) -> list[dict[str, Any]]:
        """The parameters as torch.optim takes them: a group for every rule."""
        return [
            {"params": [self.parameters[name] for name in names], "weight_decay": rule.decay, "rule": rule}
            for rule, names in self.groups.items()
        ]

    def keep(self, **slots: Mapping[str, Tensor]) -> None:
        """Each parameter's state under torch.optim's names for it."""
        for name, parameter in self.parameters.items():
            self.optimizer.state[parameter] = {kind: of_kind[name] for kind, of_kind in slots.items()}

    def step(self, rate: Rate, overflow: Tensor | None = None) -> None:
        """One step of torch.optim's; a fused operator reads `overflow` on the device (the attributes are
        torch.amp.GradScaler's way to say it)."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rule"].lr_multiplier
        if overflow is None:
            self.optimizer.step()
            return
        self.optimizer.grad_scale, self.optimizer.found_inf = None, overflow
        self.optimizer.step()
        self.optimizer.found_inf = None


class Sgd(Stock):
    """v ← m·v + (g + d·w), w ← w - rate·v. Without momentum there are no velocities, and no state."""

    skips = True

    def prepare(self) -> None:
        momentum = self.settings.momentum
        self.optimizer = torch.optim.SGD(self.groups_of_torch(), lr=0.0, momentum=momentum, fused=True)
        if momentum:
            self.keep(momentum_buffer=self.slots["velocity"])
        else:
            self.slots = {}


class Lars(Optimizer):
    """LARS (arXiv 1708.03888), and SGD with the rate inside the velocity, which is the same without trust ratios.

    inside: v ← m·v + rate·ratio·(g + d·w), w ← w - v. outside: v ← m·v + ratio·(g + d·w), w ← w - rate·v.
    """

    @torch.no_grad()
    def step(self, rate: Rate, overflow: Tensor | None = None) -> None:
        inside = self.settings.lr_in_momentum
        for rule, names in self.groups.items():
            weights = [self.parameters[name] for name in names]
            gradients = [weight.grad for weight in weights]
            velocities = [self.slots["velocity"][name] for name in names]
            own_rate = rate * rule.lr_multiplier
            scales = self._scales(weights, gradients, rule, own_rate if inside else 1.0)
            if rule.decay:
                gradients = list(torch._foreach_add(gradients, weights, alpha=rule.decay))
            torch._foreach_mul_(velocities, self.settings.momentum)
            torch._foreach_add_(velocities, torch._foreach_mul(gradients, scales))
            if inside or isinstance(own_rate, float):
                torch._foreach_add_(weights, velocities, alpha=-1.0 if inside else -own_rate)
            else:
                torch._foreach_add_(weights, torch._foreach_mul(velocities, -own_rate))

    def _scales(self, weights: list[Tensor], gradients: list[Tensor], rule: ParameterRule, rate: Rate) -> list[Tensor]:
        """`rate` times the trust ratio of each parameter, on the device: nothing waits for it."""
        if not rule.lars_adapt:
            if isinstance(rate, float):
                rate = torch.full((), rate, device=weights[0].device)  # `tensor` would wait for the device
            return [rate] * len(weights)
        of_weights = torch.stack(torch._foreach_norm(weights))
        of_gradients = torch.stack(torch._foreach_norm(gradients))
        ratio = self.settings.trust_coefficient * of_weights / (of_gradients + rule.decay * of_weights)
        ratio = torch.where((of_weights > 0) & (of_gradients > 0), ratio, torch.ones_like(ratio))
        return list((rate * ratio).unbind())


class Adam(Stock):
    """PyTorch's Adam with coupled weight decay. A skipped update does not count as a step."""

    skips = True

    def prepare(self) -> None:
        """Beside the moments a count of steps for each parameter, as PyTorch wants it; all counts are alike."""
        values, device = self.settings, next(iter(self.parameters.values())).device
        self.optimizer = torch.optim.Adam(
            self.groups_of_torch(), lr=0.0, betas=(values.beta1, values.beta2), eps=values.epsilon, fused=True,
            capturable=device.type == "cuda",
        )  # fmt: skip
        self.steps = torch.zeros(len(self.parameters), device=device)
        self.keep(step=dict(zip(self.parameters, self.steps.unbind(), strict=True)), **self.slots)

    def state_dict(self) -> dict[str, Tensor]:
        """The moments, and `step` (1,)."""
        return {**super().state_dict(), "step": self.steps[:1]}

    def load_state_dict(self, state: Arrays) -> None:
        super().load_state_dict(state)
        self.steps.fill_(float(state["step"][0]))

    def reset(self) -> None:
        super().reset()
        self.steps.zero_()


class Rmsprop(Stock):
    """s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε): torch.optim's, which has Keras 2.1's form when it is neither
    centred nor given a momentum."""

    def prepare(self) -> None:
        """torch.optim counts steps on the CPU and does not use them."""
        values = self.settings
        self.optimizer = torch.optim.RMSprop(
            self.groups_of_torch(), lr=0.0, alpha=values.rho, eps=values.epsilon, foreach=True
        )
        self.keep(step={name: torch.zeros(()) for name in self.parameters}, square_avg=self.slots["square"])


KINDS: dict[str, type[Optimizer]] = {"sgd": Sgd, "lars": Lars, "adam": Adam, "rmsprop": Rmsprop}


def build_optimizer(
    parameters: Mapping[str, Tensor], rules: Callable[[str], ParameterRule], settings: OptimizerSettings
) -> Optimizer:
    """The optimizer that `settings` name, for all parameters whose rule does not freeze them. Allocates its state.

    Raises ValueError for one that there is not.
    """
    return chosen(settings, KINDS)(parameters, rules, settings)
