"""Optimizers, clipping, and loss scaling of the PyTorch trainers.

workloads/common/optimizers.py defines the formulas.

The functions do not synchronize with the device. Whether a step is skipped is decided on the
device.
"""

from __future__ import annotations

from workloads.frameworks.pytorch.optimizers.kinds import Optimizer, build_optimizer
from workloads.frameworks.pytorch.optimizers.scaling import LossScaler, clip

__all__ = ["LossScaler", "Optimizer", "build_optimizer", "clip"]
