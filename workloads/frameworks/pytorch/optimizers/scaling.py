"""Gradient clipping and loss scaling on the device.

The functions do not copy norms and overflow flags to the host.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workloads.api import Arrays, LossScaling


def clip(gradients: list[Tensor], clip_norm: float | None) -> None:
    """Multiply all gradients in place by min(1, clip_norm / their global L2 norm).

    If `clip_norm` is None, the gradients do not change.

    torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm. The suite does not use this function, so
    that clipping is the same in all frameworks.
    """
    if clip_norm is None:
        return
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (clip_norm / norm).clamp(max=1.0))


class LossScaler:
    """Loss scale that uses the operators of torch.amp.GradScaler.

    torch.amp.GradScaler has no upper limit of the scale, so this class adds an upper limit.
    """

    def __init__(self, settings: LossScaling, device: torch.device) -> None:
        assert settings.mode in ("none", "static", "dynamic"), settings.mode
        assert settings.mode != "dynamic" or settings.start <= settings.maximum, settings
        self.settings = settings
        self.dynamic = settings.mode == "dynamic"
        self.factor = settings.start if settings.mode == "static" else 1.0
        """Static loss scale. The value is 1.0 unless the mode is `static`."""
        if self.dynamic:
            self.scale = torch.full((), settings.start, device=device)
            self.clean_steps = torch.zeros((), dtype=torch.int32, device=device)

    def scaled(self, loss: Tensor, replicas: int = 1) -> Tensor:
        """Return the loss times the loss scale.

        The loss is also multiplied by `replicas`, if the gradients will be averaged over replicas
        instead of summed.
        """
        if self.dynamic:
            return loss * (replicas * self.scale)
        factor = replicas * self.factor
        return loss if factor == 1 else loss * factor

    def unscale(self, gradients: list[Tensor]) -> Tensor | None:
        """Divide gradients that are summed over replicas by the loss scale, in place.

        Returns:
            With dynamic scaling, a tensor without axes on the device: 1.0 if any gradient is not
                finite, else 0.0. Without dynamic scaling, the result is None.
        """
        if self.dynamic:
            overflow = torch.zeros_like(self.scale)
            torch._amp_foreach_non_finite_check_and_unscale_(
                gradients, overflow, self.scale.reciprocal()
            )
            return overflow
        if self.factor != 1:
            torch._foreach_mul_(gradients, 1 / self.factor)
        return None

    def update(self, overflow: Tensor | None) -> None:
        """Update the loss scale for the next step."""
        if overflow is None:
            return
        values = self.settings
        torch._amp_update_scale_(
            self.scale,
            self.clean_steps,
            overflow,
            values.growth_factor,
            values.backoff_factor,
            values.growth_interval,
        )
        self.scale.clamp_(max=values.maximum)

    def state_dict(self) -> dict[str, Tensor]:
        """Return `loss_scale` and `loss_scale.clean_steps`, each (1,).

        Without dynamic scaling, the dictionary is empty.
        """
        if not self.dynamic:
            return {}
        return {
            "loss_scale": self.scale.view(1),
            "loss_scale.clean_steps": self.clean_steps.view(1),
        }

    def load_state_dict(self, state: Arrays) -> None:
        for name, tensor in self.state_dict().items():
            tensor.copy_(torch.from_numpy(state[name]))

    def reset(self) -> None:
        if self.dynamic:
            self.scale.fill_(self.settings.start)
            self.clean_steps.zero_()
