"""Whether what a run needs fits the memory: known before anything is built or started."""

from __future__ import annotations

import psutil

from suite.machine.cgroups import Limits, limits
from workloads.api import Settings, Workload

TAKEN = 2.0
"""What a proposed batch may take, over the least: ResNet-50 takes 1.6 times the least in PyTorch, 1.1 in TensorFlow and MXNet
(89 MB an image; 140 and 100 measured at 224 pixels); the rest is room for the framework."""


def available_bytes(allowed: Limits) -> int:
    """Memory that the machine and the control group can still hand out."""
    available = int(psutil.virtual_memory().available)
    return available if allowed.memory_free_bytes is None else min(available, allowed.memory_free_bytes)


def check_memory(workload: type[Workload], settings: Settings) -> None:
    """Raise ValueError, one line, if the activations of a training step on CPU cores cannot fit."""
    if settings.device != "cpu" or settings.mode not in ("train", "forward_backward"):
        return
    sample = workload.activation_bytes(settings)
    available, needed = available_bytes(limits()), sample * settings.batch_size_global
    if needed <= available:
        return
    count = settings.devices
    fits = max(1, int(available / (TAKEN * sample)) // count) * count
    raise ValueError(
        f"batch size {settings.batch_size_global} on CPU cores: its activations take at least {needed / 2**30:.0f} GiB, "
        f"{available / 2**30:.1f} GiB of memory are available; type batch=global:{fits}"
    )
