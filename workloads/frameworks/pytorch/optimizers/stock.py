"""SGD, Adam and RMSprop by PyTorch's own operators: a launch or two for all parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from workloads.api import Arrays
from workloads.frameworks.pytorch.optimizers.base import Optimizer


class Stock(Optimizer):
    """Subclasses set `optimizer`, one of torch.optim's, and give each parameter's state to it (`keep`)."""

    optimizer: torch.optim.Optimizer

    def groups_of_torch(self) -> list[dict[str, Any]]:
        """The parameters as torch.optim takes them: a group for every rule."""
        return [
            {"params": [self.parameters[name] for name in names], "weight_decay": rule.decay, "rule": rule}
            for rule, names in self.groups.items()
        ]

    def keep(self, **slots: Mapping[str, torch.Tensor]) -> None:
        """Each parameter's state under torch.optim's names for it."""
        for parameter, *tensors in zip(
            self.parameters.values(), *(one.values() for one in slots.values()), strict=True
        ):
            self.optimizer.state[parameter] = dict(zip(slots, tensors, strict=True))

    def step(self, rate: float, overflow: torch.Tensor | None = None) -> None:
        """One step of torch.optim's; a fused operator reads `overflow` on the device (the attributes are
        torch.amp.GradScaler's way to say it)."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rule"].rate_multiple
        if overflow is None:
            self.optimizer.step()
            return
        self.optimizer.grad_scale, self.optimizer.found_inf = None, overflow
        self.optimizer.step()
        self.optimizer.found_inf = None


class Sgd(Stock):
    """v ← m·v + (g + d·w), w ← w - rate·v. Without momentum there are no velocities, and no state."""

    skips: ClassVar[bool] = True

    def allocate(self) -> None:
        momentum = self.settings.momentum
        self.optimizer = torch.optim.SGD(self.groups_of_torch(), lr=0.0, momentum=momentum, fused=True)
        self.velocities = self.zeros("velocity") if momentum else {}
        if momentum:
            self.keep(momentum_buffer=self.velocities)

    def tensors(self) -> dict[str, torch.Tensor]:
        return self.velocities


class Adam(Stock):
    """PyTorch's Adam with coupled weight decay. A skipped update does not count as a step."""

    skips: ClassVar[bool] = True

    def allocate(self) -> None:
        """Two moments, and a count of steps for each parameter; all counts are alike."""
        values = self.settings
        self.optimizer = torch.optim.Adam(
            self.groups_of_torch(), lr=0.0, betas=(values.beta1, values.beta2), eps=values.epsilon, fused=True
        )
        self.means, self.squares = self.zeros("adam.exp_avg"), self.zeros("adam.exp_avg_sq")
        self.steps = torch.zeros(len(self.means), device=next(iter(self.means.values())).device)
        counts = dict(zip(self.means, self.steps.unbind(), strict=True))
        self.keep(step=counts, exp_avg=self.means, exp_avg_sq=self.squares)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {**self.means, **self.squares, "adam.step": self.steps}

    def state(self) -> dict[str, torch.Tensor]:
        """`adam.exp_avg` and `adam.exp_avg_sq`, flat, in the order of the parameters; `adam.step` (1,)."""
        means, squares = (torch.cat([one.reshape(-1) for one in all_.values()]) for all_ in (self.means, self.squares))
        return {"adam.exp_avg": means, "adam.exp_avg_sq": squares, "adam.step": self.steps[:1]}

    @torch.no_grad()
    def load_state(self, state: Arrays) -> None:
        sizes = [value.numel() for value in self.parameters.values()]
        for kind, moments in (("adam.exp_avg", self.means), ("adam.exp_avg_sq", self.squares)):
            for one, flat in zip(moments.values(), torch.from_numpy(state[kind]).split(sizes), strict=True):
                one.copy_(flat.view(one.shape))
        self.steps.fill_(float(state["adam.step"][0]))


class Rmsprop(Stock):
    """s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε): torch.optim's, which has Keras 2.1's form when it is neither
    centred nor given a momentum."""

    def allocate(self) -> None:
        """Means of squared gradients. torch.optim counts steps on the CPU and does not use them."""
        values = self.settings
        self.optimizer = torch.optim.RMSprop(
            self.groups_of_torch(), lr=0.0, alpha=values.rho, eps=values.epsilon, foreach=True
        )
        self.squares = self.zeros("square")
        self.keep(step={name: torch.zeros(()) for name in self.squares}, square_avg=self.squares)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Means of squared gradients under `square.<parameter>`."""
        return self.squares
