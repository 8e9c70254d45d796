"""Whether what a run needs fits the memory: known before anything is built or started."""

from __future__ import annotations

import math

import numpy as np
import psutil

from suite.machine import devices
from suite.machine.cgroups import Limits, limits
from suite.plan.settings import Impossible
from workloads.api import Settings, Workload

TAKEN = 2.0
"""What a proposed batch may take, over the least: ResNet-50 takes 1.6 times the least in PyTorch, 1.1 in TensorFlow and MXNet
(89 MB an image; 140 and 100 measured at 224 pixels); the rest is room for the framework."""

HELD_BATCHES = 2
"""Batches in memory at once, at least: the one that is trained on, and the next."""


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
    shared = _multiple(available / (TAKEN * sample), settings.devices if place else 1)
    fits = shared if place else shared * settings.devices
    where = f" {place}" if place else f", {share:,} on each GPU"
    kind = "memory" if place else "memory of a GPU"
    raise TooLarge(
        f"batch size {settings.batch_size_global}{where}: its activations take at least {needed / 2**30:.0f} GiB, "
        f"{available / 2**30:.1f} GiB of {kind} are available; type batch=global:{fits}"
    )


def check_inputs(workload: Workload) -> None:
    """Raise TooLarge, one line, if not even one batch of the data fits, whatever the mode does with it."""
    settings = workload.settings
    if settings.device != "cpu":
        return
    largest = workload.shapes()[0]
    replica = sum(math.prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in largest.values())
    available, needed = available_bytes(limits()), HELD_BATCHES * replica * settings.devices
    if needed > available:
        fits = _multiple(settings.batch_size_global * available / (TAKEN * needed), settings.devices)
        raise TooLarge(
            f"batch size {settings.batch_size_global} on CPU cores: its data alone take {needed / 2**30:.0f} GiB, "
            f"{available / 2**30:.1f} GiB of memory are available; type batch=global:{fits}"
        )


def fitting_batch(workload: type[Workload], settings: Settings, memory_bytes: int) -> int:
    """A smaller batch than that of a run which was out of memory, shared evenly by its devices; 0: there is none.

    At most half: where the size of activations is known, what `memory_bytes` hold of them.
    """
    sample, half = workload.activation_bytes(settings), settings.batch_size_global // 2
    largest = min(half, memory_bytes / (TAKEN * sample)) if sample else half
    return _multiple(largest, settings.devices) if half >= settings.devices else 0


def _multiple(batch: float, devices: int) -> int:
    """The largest batch up to `batch` that devices share evenly; one sample each at least."""
    return max(1, int(batch) // devices) * devices
