"""Optimizers of TensorFlow trainers: the arithmetic of workloads/common/optimizers.py in TensorFlow's operators."""

from __future__ import annotations

from workloads.api import Workload
from workloads.common.optimizers import chosen
from workloads.frameworks.tensorflow.optimizers.base import Optimizer
from workloads.frameworks.tensorflow.optimizers.moments import Adam, Rmsprop
from workloads.frameworks.tensorflow.optimizers.momentum import Lars, Sgd
from workloads.frameworks.tensorflow.variables import Model

KINDS: dict[str, type[Optimizer]] = {"sgd": Sgd, "lars": Lars, "adam": Adam, "rmsprop": Rmsprop}


def build_optimizer(model: Model, workload: Workload) -> Optimizer:
    """The workload's optimizer over the parameters that it does not freeze. Raises ValueError for an unknown one."""
    settings = workload.optimizer()
    return chosen(settings, KINDS)(model, workload.parameter_rule, settings)
