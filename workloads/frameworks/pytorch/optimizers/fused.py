"""SGD and Adam as PyTorch's fused operators: a launch or two for all parameters, and they skip an update by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from workloads.api import Arrays, ParameterRule
from workloads.frameworks.pytorch.optimizers.base import Optimizer, set_rates, torch_groups


class Fused(Optimizer):
    """Subclasses set `optimizer`, one of torch.optim's with `fused=True`, and fill its state."""

    optimizer: torch.optim.Optimizer

    def update(self, rate: float) -> None:
        """One step of torch.optim's."""
        set_rates(self.optimizer, rate)
        self.optimizer.step()

    def update_unless(self, overflow: torch.Tensor, rate: float) -> None:
        """The same; the operator reads `overflow` on the device (the attributes are torch.amp.GradScaler's way to say it)."""
        self.optimizer.grad_scale, self.optimizer.found_inf = None, overflow
        self.update(rate)
        self.optimizer.found_inf = None


class Sgd(Fused):
    """v ← m·v + (g + d·w), w ← w - rate·v. Without momentum there are no velocities, and no state."""

    def __init__(
        self, parameters: Mapping[str, torch.Tensor], rules: Callable[[str], ParameterRule], momentum: float
    ) -> None:
        super().__init__(parameters, rules)
        self.optimizer = torch.optim.SGD(torch_groups(self), lr=0.0, momentum=momentum, fused=True)
        momenta = self.parameters if momentum else {}
        self.velocities = {name: torch.zeros_like(value) for name, value in momenta.items()}
        for name, velocity in self.velocities.items():
            self.optimizer.state[self.parameters[name]]["momentum_buffer"] = velocity

    def tensors(self) -> dict[str, torch.Tensor]:
        """Velocities under `velocity.<parameter>`."""
        return {f"velocity.{name}": velocity for name, velocity in self.velocities.items()}


class Adam(Fused):
    """PyTorch's Adam with coupled weight decay. A skipped update does not count as a step."""

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        rules: Callable[[str], ParameterRule],
        betas: tuple[float, float],
        epsilon: float,
    ) -> None:
        super().__init__(parameters, rules)
        self.optimizer = torch.optim.Adam(torch_groups(self), lr=0.0, betas=betas, eps=epsilon, fused=True)
        values = list(self.parameters.values())
        self.moments = {
            "adam.exp_avg": [torch.zeros_like(value) for value in values],
            "adam.exp_avg_sq": [torch.zeros_like(value) for value in values],
        }
        self.steps = torch.zeros(len(values), device=values[0].device)
        """torch.optim counts for each parameter; all counts are alike."""
        for value, step, mean, square in zip(values, self.steps.unbind(), *self.moments.values(), strict=True):
            self.optimizer.state[value] = {"step": step, "exp_avg": mean, "exp_avg_sq": square}

    def tensors(self) -> dict[str, torch.Tensor]:
        """The moments of each parameter, and the steps."""
        numbered = {f"{kind}.{number}": one for kind, all_ in self.moments.items() for number, one in enumerate(all_)}
        return {**numbered, "adam.step": self.steps}

    def state(self) -> dict[str, torch.Tensor]:
        """`adam.exp_avg` and `adam.exp_avg_sq`, flat, in the order of the parameters; `adam.step` (1,)."""
        flat = {kind: torch.cat([one.reshape(-1) for one in all_]) for kind, all_ in self.moments.items()}
        return {**flat, "adam.step": self.steps[:1]}

    @torch.no_grad()
    def load_state(self, state: Arrays) -> None:
        sizes = [value.numel() for value in self.parameters.values()]
        for kind, all_ in self.moments.items():
            for one, flat in zip(all_, torch.from_numpy(state[kind]).split(sizes), strict=True):
                one.copy_(flat.view(one.shape))
        self.steps.fill_(float(state["adam.step"][0]))
