"""Whether what a run needs fits the memory: known before anything is built or started."""

from __future__ import annotations

import psutil

from suite.machine import devices
from suite.machine.cgroups import Limits, limits
from suite.plan.settings import Impossible
from workloads.api import Settings, Workload

TAKEN = 2.0
"""What a proposed batch may take, over the least: ResNet-50 takes 1.6 times the least in PyTorch, 1.1 in TensorFlow and MXNet
(89 MB an image; 140 and 100 measured at 224 pixels); the rest is room for the framework."""


def available_bytes(allowed: Limits) -> int:
    """Memory that the machine and the control group can still hand out."""
    available = int(psutil.virtual_memory().available)
    return available if allowed.memory_free_bytes is None else min(available, allowed.memory_free_bytes)


class TooLarge(Impossible):
    """A batch whose activations do not fit."""

    shown = "OOM"


def check_memory(workload: type[Workload], settings: Settings) -> None:
    """Raise TooLarge, one line, if the activations of a training step cannot fit the CPU cores' memory or a GPU's."""
    if settings.mode not in ("train", "forward_backward"):
        return
    sample = workload.activation_bytes(settings)
    if settings.device == "cpu":
        available, place, share = available_bytes(limits()), "on CPU cores", settings.batch_size_global
    else:
        available = min((gpu.memory_bytes for gpu in devices.gpus()), default=0)
        place, share = "", -(-settings.batch_size_global // settings.devices)
        if available == 0:  # another host's, or not known
            return
    needed = sample * share
    if needed <= available:
        return
    count = settings.devices
    fits = max(1, int(available / (TAKEN * sample)))
    fits = fits * count if place == "" else max(1, fits // count) * count
    where = f" {place}" if place else f", {share:,} on each GPU"
    kind = "memory" if place else "memory of a GPU"
    raise TooLarge(
        f"batch size {settings.batch_size_global}{where}: its activations take at least {needed / 2**30:.0f} GiB, "
        f"{available / 2**30:.1f} GiB of {kind} are available; type batch=global:{fits}"
    )
