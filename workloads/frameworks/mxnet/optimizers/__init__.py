"""Optimizers of MXNet trainers: sum over contexts, loss scaling, clipping and update, on flat vectors.

The arithmetic is that of workloads/common/optimizers.py; which one, and how each parameter is updated, a workload says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mxnet as mx

from workloads.api import OptimizerSettings
from workloads.frameworks.mxnet.flat import FlatLayout
from workloads.frameworks.mxnet.optimizers.adam import Adam, SkippingAdam
from workloads.frameworks.mxnet.optimizers.base import Optimizer
from workloads.frameworks.mxnet.optimizers.momentum import Lars, LarsOutside, Sgd, SkippingSgd
from workloads.frameworks.mxnet.optimizers.rmsprop import RmsProp

__all__ = ["Optimizer", "build_optimizer"]

_KINDS: Mapping[str, type[Optimizer]] = {"sgd": Sgd, "lars": Lars, "adam": Adam, "rmsprop": RmsProp}
_SKIPPING: Mapping[str, type[Optimizer]] = {**_KINDS, "sgd": SkippingSgd, "adam": SkippingAdam}
"""Under dynamic loss scaling, where the host does not know which steps are taken."""


def build_optimizer(
    settings: OptimizerSettings, layout: FlatLayout, weights: Sequence[mx.nd.NDArray], gradients: Sequence[mx.nd.NDArray],
    replicas: int = 1,
) -> Optimizer:  # fmt: skip
    """The optimizer that a workload names, on one flat vector of weights and one of gradients per context; `replicas`: of
    all processes.

    Raises ValueError for one that there is not.
    """
    if settings.name not in _KINDS:
        raise ValueError(f"optimizer {settings.name}: mxnet has {', '.join(_KINDS)}")
    kinds = {**(_SKIPPING if settings.loss_scaling.mode == "dynamic" else _KINDS)}
    if settings.momentum_rate == "inside":
        kinds["sgd"] = Lars  # without trust ratios
    else:
        kinds["lars"] = LarsOutside
    return kinds[settings.name](settings, layout, weights, gradients, replicas)
