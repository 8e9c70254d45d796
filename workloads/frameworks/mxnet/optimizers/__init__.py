"""Optimizers of MXNet trainers: sum over contexts, loss scaling, clipping and update, on flat vectors.

The arithmetic is that of workloads/common/optimizers.py; which one, and how each parameter is updated, a workload says.
"""

from __future__ import annotations

from workloads.frameworks.mxnet.optimizers.kinds import Optimizer, build_optimizer

__all__ = ["Optimizer", "build_optimizer"]
