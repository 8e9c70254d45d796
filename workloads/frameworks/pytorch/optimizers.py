"""SGD and LARS for PyTorch trainers, by the rules that a workload gives to each parameter (workloads/common/optimizers.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from workloads.api import ParameterRule

Parameters = Mapping[str, torch.Tensor]


class Optimizer:
    """What a trainer needs: `step(rate)`, `state()`, `load_state(state)`, `reset()`. Velocities start at 0."""

    def __init__(self, parameters: Parameters, rules: Callable[[str], ParameterRule], momentum: float) -> None:
        self.parameters, self.momentum = dict(parameters), momentum
        self.rules = {name: rules(name) for name in self.parameters}

    def step(self, rate: float) -> None:
        """One update from the gradients in `.grad`."""
        raise NotImplementedError

    def velocity(self, name: str) -> torch.Tensor:
        """The momentum buffer of a parameter, made on first use."""
        raise NotImplementedError

    def reset(self) -> None:
        """As before the first step."""
        for name in self.parameters:
            self.velocity(name).zero_()

    def state(self) -> dict[str, torch.Tensor]:
        """Velocities under `velocity.<parameter>`."""
        return {f"velocity.{name}": self.velocity(name) for name in self.parameters}


class Sgd(Optimizer):
    """torch.optim.SGD, fused, with a group for every decay."""

    def __init__(self, parameters: Parameters, rules: Callable[[str], ParameterRule], momentum: float) -> None:
        super().__init__(parameters, rules, momentum)
        groups: dict[float, list[torch.Tensor]] = {}
        for name, parameter in self.parameters.items():
            groups.setdefault(self.rules[name].decay, []).append(parameter)
        listed = [{"params": members, "weight_decay": decay} for decay, members in groups.items()]
        self.optimizer = torch.optim.SGD(listed, lr=0.0, momentum=momentum, fused=True)

    def step(self, rate: float) -> None:
        """v ← m·v + (g + d·w), w ← w - rate·v."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def velocity(self, name: str) -> torch.Tensor:
        """See Optimizer."""
        state, parameter = self.optimizer.state[self.parameters[name]], self.parameters[name]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        buffer: torch.Tensor = state["momentum_buffer"]
        return buffer


class Lars(Optimizer):
    """LARS; one call into PyTorch for all parameters at a time."""

    def __init__(
        self, parameters: Parameters, rules: Callable[[str], ParameterRule], momentum: float, coefficient: float
    ) -> None:
        super().__init__(parameters, rules, momentum)
        self.coefficient = coefficient
        self.velocities = {name: torch.zeros_like(value) for name, value in self.parameters.items()}

    def velocity(self, name: str) -> torch.Tensor:
        """See Optimizer."""
        return self.velocities[name]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """v ← m·v + rate·ratio·(g + d·w), w ← w - v."""
        for rule in set(self.rules.values()):
            names = [name for name, own in self.rules.items() if own == rule]
            weights = [self.parameters[name] for name in names]
            gradients = [gradient for weight in weights if (gradient := weight.grad) is not None]
            velocities = [self.velocities[name] for name in names]
            scales = self._scales(weights, gradients, rule, rate)
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
