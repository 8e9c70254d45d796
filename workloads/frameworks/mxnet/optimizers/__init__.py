"""Optimizers of the MXNet trainers, on flat vectors.

An optimizer sums gradients over contexts, scales the loss, clips gradients, and updates weights.

workloads/common/optimizers.py defines the formulas. A workload selects the optimizer and the update
rule of each parameter.
"""

from __future__ import annotations

from workloads.frameworks.mxnet.optimizers.kinds import Optimizer, build_optimizer

__all__ = ["Optimizer", "build_optimizer"]
