"""Whether what a run needs fits the memory: known before anything is built or started."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psutil

from suite.launch.hosts import AvailableHost
from suite.machine import devices
from suite.machine.cgroups import Limits, limits
from suite.plan.unsupported import UnsupportedError
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


def memory_of_each(hardware: Sequence[Mapping[str, Any]]) -> int:
    """What each of the machines that `hardware` describes has for a run at least: all memory of others, what is left of this.

    A machine that does not say what it has counts as this one.
    """
    others = [
        int(one["memory_bytes"]) for one in hardware if one.get("host") != platform.node() and "memory_bytes" in one
    ]
    return min([*others, *([available_bytes(limits())] if len(others) < max(1, len(hardware)) else [])])


def memory_of_each_gpu(hardware: Sequence[Mapping[str, Any]]) -> int:
    """Memory of the smallest GPU of these machines; 0 where none says so."""
    return min((int(gpu["memory_bytes"]) for one in hardware for gpu in one.get("gpus", ())), default=0)


class TooLarge(UnsupportedError):
    """A batch whose activations do not fit."""

    shown = "OOM"


def check_memory(workload: type[Workload], settings: Settings, hosts: Sequence[AvailableHost] = ()) -> None:
    """Raise TooLarge, one line, if the activations of a training step cannot fit the CPU cores' memory or a GPU's.

    `hosts`: the machines of the run, if it is not this one.
    """
    if settings.mode not in ("train", "forward_backward"):
        return
    sample, hardware = workload.activation_bytes(settings), [host.hardware for host in hosts]
    if settings.device == "cpu":
        available, parts, kind = memory_of_each(hardware), settings.nodes, "memory"
        where = " on CPU cores"
    else:
        seen = min((gpu.memory_bytes for gpu in devices.gpus()), default=0) if not hosts else 0
        available, parts, kind = seen or memory_of_each_gpu(hardware), settings.devices, "memory of a GPU"
        where = ""
        if available == 0:  # not known
            return
    share = -(-settings.batch_size_global // parts)
    if settings.device != "cpu" or parts > 1:
        where += f", {share:,} on each {'machine' if where else 'GPU'}"
    fits = _multiple(available / (TAKEN * sample), settings.devices // parts) * parts if sample else 0
    _check(settings, where, "its activations take at least", sample * share, available, kind, fits)


def _check(settings: Settings, where: str, what: str, needed: int, available: int, kind: str, fits: int) -> None:
    """Raise TooLarge unless `needed` bytes are available."""
    if needed > available:
        raise TooLarge(
            f"batch size {settings.batch_size_global}{where}: {what} {needed / 2**30:.0f} GiB, "
            f"{available / 2**30:.1f} GiB of {kind} are available; type batch=global:{fits}"
        )


def check_inputs(workload: Workload, hosts: Sequence[AvailableHost] = ()) -> None:
    """Raise TooLarge, one line, if not even one batch of the data fits, whatever the mode does with it.

    `hosts`: the machines of the run, if it is not this one.
    """
    settings = workload.settings
    if settings.device != "cpu":
        return
    largest = workload.shapes()[0]
    replica = sum(math.prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in largest.values())
    available = memory_of_each([host.hardware for host in hosts])
    needed = HELD_BATCHES * replica * (settings.devices // settings.nodes)
    fits = _multiple(settings.batch_size_global * available / (TAKEN * max(needed, 1)), settings.devices)
    where = " of each machine" if settings.nodes > 1 else ""
    _check(settings, f" on CPU cores{where}", "its data alone take", needed, available, "memory", fits)


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
