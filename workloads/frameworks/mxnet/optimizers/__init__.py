"""Optimizers of MXNet trainers: sum over contexts, loss scaling, clipping and update, on flat vectors.

The arithmetic is that of workloads/common/optimizers.py; which one, and how each parameter is updated, a workload says.
"""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx

from workloads.api import OptimizerSettings
from workloads.common.optimizers import chosen
from workloads.frameworks.mxnet.flat import FlatLayout
from workloads.frameworks.mxnet.optimizers.adam import Adam
from workloads.frameworks.mxnet.optimizers.base import Optimizer
from workloads.frameworks.mxnet.optimizers.momentum import Lars, LarsOutside, Sgd
from workloads.frameworks.mxnet.optimizers.rmsprop import Rmsprop

__all__ = ["Optimizer", "build_optimizer"]

KINDS: dict[str, type[Optimizer]] = {"sgd": Sgd, "lars": Lars, "adam": Adam, "rmsprop": Rmsprop}


def build_optimizer(
    settings: OptimizerSettings, layout: FlatLayout, weights: Sequence[mx.nd.NDArray], gradients: Sequence[mx.nd.NDArray],
    replicas: int = 1,
) -> Optimizer:  # fmt: skip
    """The optimizer that a workload names, on one flat vector of weights and one of gradients per context; `replicas`: of
    all processes.

    Raises ValueError for one that there is not.
    """
    kind: type[Optimizer] = chosen(settings, KINDS)
    if settings.name == "lars" and settings.momentum_rate == "outside":
        kind = LarsOutside
    return kind(settings, layout, weights, gradients, replicas)
