"""Optimizers of MXNet trainers: sum over contexts, loss scaling, clipping and update, on flat
vectors.

The arithmetic is defined in workloads/common/optimizers.py. A workload selects the optimizer and
the rule of each parameter.
"""

from __future__ import annotations

from workloads.frameworks.mxnet.optimizers.kinds import Optimizer, build_optimizer

__all__ = ["Optimizer", "build_optimizer"]
