"""Optimizers, clipping, and loss scaling of the TensorFlow trainers.

workloads/common/optimizers.py defines the formulas.
"""

from __future__ import annotations

from workloads.frameworks.tensorflow.optimizers.kinds import build_optimizer
from workloads.frameworks.tensorflow.optimizers.scaling import LossScale, clipped

__all__ = ["LossScale", "build_optimizer", "clipped"]
