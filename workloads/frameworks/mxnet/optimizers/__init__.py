"""Optimizers of MXNet trainers, on flat vectors.

They sum over contexts, scale the loss, clip, and update.

The arithmetic is defined in workloads/common/optimizers.py. A workload selects the optimizer and
the rule of each parameter.
"""

from __future__ import annotations

from workloads.frameworks.mxnet.optimizers.kinds import Optimizer, build_optimizer

__all__ = ["Optimizer", "build_optimizer"]
