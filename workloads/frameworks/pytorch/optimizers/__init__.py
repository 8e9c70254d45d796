"""Optimizers, clipping and loss scaling for PyTorch trainers: the arithmetic of workloads/common/optimizers.py.

Nothing here waits for the device: whether a step is skipped is decided and carried out there.
"""

from __future__ import annotations

from workloads.frameworks.pytorch.optimizers.kinds import Optimizer, build_optimizer
from workloads.frameworks.pytorch.optimizers.scaling import LossScaler, clip

__all__ = ["LossScaler", "Optimizer", "build_optimizer", "clip"]
