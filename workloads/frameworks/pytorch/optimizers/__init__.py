"""Optimizers, clipping and loss scaling for PyTorch trainers: the arithmetic of workloads/common/optimizers.py.

Nothing here waits for the device: whether a step is skipped is decided and carried out there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from workloads.api import OptimizerSettings, ParameterRule
from workloads.frameworks.pytorch.optimizers.base import Optimizer
from workloads.frameworks.pytorch.optimizers.fused import Adam, Sgd
from workloads.frameworks.pytorch.optimizers.lars import Lars
from workloads.frameworks.pytorch.optimizers.rmsprop import Rmsprop
from workloads.frameworks.pytorch.optimizers.scaling import LossScaler, clip

__all__ = ["Adam", "Lars", "LossScaler", "Optimizer", "Rmsprop", "Sgd", "build_optimizer", "clip"]


def build_optimizer(
    parameters: Mapping[str, torch.Tensor], rules: Callable[[str], ParameterRule], settings: OptimizerSettings
) -> Optimizer:
    """The optimizer that `settings` name, for all parameters whose rule does not freeze them. Allocates its state.

    Raises ValueError for a name that no optimizer has.
    """
    if settings.name == "sgd" and settings.momentum_rate == "outside":
        return Sgd(parameters, rules, settings.momentum)
    if settings.name in ("sgd", "lars"):
        return Lars(parameters, rules, settings.momentum, settings.trust_coefficient, settings.momentum_rate)
    if settings.name == "adam":
        return Adam(parameters, rules, (settings.beta1, settings.beta2), settings.epsilon)
    if settings.name == "rmsprop":
        return Rmsprop(parameters, rules, settings.rho, settings.epsilon)
    raise ValueError(f"optimizer {settings.name}: PyTorch's trainers have sgd, lars, adam and rmsprop")
