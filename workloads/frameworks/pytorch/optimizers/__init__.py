"""Optimizers, clipping and loss scaling of PyTorch trainers.

The arithmetic is that of workloads/common/optimizers.py.

These functions do not synchronize with the device, which decides whether a step is skipped.
"""

from __future__ import annotations

from workloads.frameworks.pytorch.optimizers.kinds import Optimizer, build_optimizer
from workloads.frameworks.pytorch.optimizers.scaling import LossScaler, clip

__all__ = ["LossScaler", "Optimizer", "build_optimizer", "clip"]
