"""Optimizers, clipping and loss scaling for PyTorch trainers: the arithmetic of workloads/common/optimizers.py.

Nothing here waits for the device: whether a step is skipped is decided and carried out there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from workloads.api import OptimizerSettings, ParameterRule
from workloads.common.optimizers import chosen
from workloads.frameworks.pytorch.optimizers.base import Optimizer
from workloads.frameworks.pytorch.optimizers.lars import Lars
from workloads.frameworks.pytorch.optimizers.scaling import LossScaler, clip
from workloads.frameworks.pytorch.optimizers.stock import Adam, Rmsprop, Sgd

__all__ = ["LossScaler", "Optimizer", "build_optimizer", "clip"]

KINDS: dict[str, type[Optimizer]] = {"sgd": Sgd, "lars": Lars, "adam": Adam, "rmsprop": Rmsprop}


def build_optimizer(
    parameters: Mapping[str, torch.Tensor], rules: Callable[[str], ParameterRule], settings: OptimizerSettings
) -> Optimizer:
    """The optimizer that `settings` name, for all parameters whose rule does not freeze them. Allocates its state.

    Raises ValueError for one that there is not.
    """
    return chosen(settings, KINDS)(parameters, rules, settings)
