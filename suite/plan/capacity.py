"""Check whether a run fits into memory.

The check runs before an environment is built or a process is started.
"""

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
"""Memory of a suggested batch, as a multiple of the lower bound of its activations.

For ResNet-50 at 224 pixels, the lower bound is 89 MB per image. The measured memory is 1.6 times
the lower bound in PyTorch (140 MB), and 1.1 times in TensorFlow and MXNet (100 MB). The remainder
is reserved for the framework.
"""

HELD_BATCHES = 2
"""Minimum number of batches in memory at the same time: the current batch and the next batch."""


def available_bytes(allowed: Limits) -> int:
    """Return the bytes that the machine and the control group can still allocate."""
    available = int(psutil.virtual_memory().available)
    return (
        available
        if allowed.memory_free_bytes is None
        else min(available, allowed.memory_free_bytes)
    )


def memory_of_each(hardware: Sequence[Mapping[str, Any]]) -> int:
    """Return the minimum memory in bytes over all machines of a run.

    For this machine, the available memory is used. For each remote machine, the total memory is
    used. A machine whose description contains no memory is treated as this machine.

    Args:
        hardware: A description of each machine, from `suite.machine.devices.hardware`. If empty,
            only this machine is used.
    """
    remote = [
        int(machine["memory_bytes"])
        for machine in hardware
        if machine.get("host") != platform.node() and "memory_bytes" in machine
    ]
    return min(
        [*remote, *([available_bytes(limits())] if len(remote) < max(1, len(hardware)) else [])]
    )


def memory_of_each_gpu(hardware: Sequence[Mapping[str, Any]]) -> int:
    """Return the memory in bytes of the smallest GPU of the given machines.

    Returns 0 if no description contains a GPU.
    """
    return min(
        (int(gpu["memory_bytes"]) for machine in hardware for gpu in machine.get("gpus", ())),
        default=0,
    )


class TooLarge(UnsupportedError):
    """Error for a batch that does not fit into memory."""

    shown = "OOM"


def check_memory(
    workload: type[Workload], settings: Settings, hosts: Sequence[AvailableHost] = ()
) -> None:
    """Check that the state and the activations of a training step fit into memory.

    The memory is that of the machine for CPU cores, or that of a GPU.

    Args:
        workload: The workload, which defines a lower bound for the activations of a sample.
        settings: Settings of the run.
        hosts: The machines of the run. If empty, the run uses this machine.

    Raises:
        TooLarge: The activations do not fit. The message is a single line.
    """
    if settings.mode not in ("train", "forward_backward"):
        return
    sample, hardware = workload.activation_bytes(settings), [host.hardware for host in hosts]
    if settings.device == "cpu":
        available, parts, kind = memory_of_each(hardware), settings.nodes, "memory"
        where = " on CPU cores"
    else:
        seen = min((gpu.memory_bytes for gpu in devices.gpus()), default=0) if not hosts else 0
        available, parts, kind = (
            seen or memory_of_each_gpu(hardware),
            settings.devices,
            "memory per GPU",
        )
        where = ""
        if available == 0:  # the memory of the GPUs is unknown
            return
    state = workload.state_bytes(settings) * (settings.devices // parts)
    if state > available:
        raise TooLarge(
            "the parameters, their gradients, and the optimizer state need at least"
            f" {state / 2**30:.0f} GiB, but only {available / 2**30:.1f} GiB of {kind} are"
            " available."
            + (
                " Set profile=demo for a small model"
                if settings.device == "cpu"
                else f" Set gpus to more than {settings.devices}, or workload.sharding=shard"
            )
        )
    available -= state
    share = -(-settings.global_batch_size // parts)
    if settings.device != "cpu" or parts > 1:
        where += f", {share:,} on each {'machine' if where else 'GPU'}"
    fits = (
        _multiple(available / (TAKEN * sample), settings.devices // parts) * parts if sample else 0
    )
    _check(settings, where, "its activations need at least", sample * share, available, kind, fits)


def _check(
    settings: Settings, where: str, what: str, needed: int, available: int, kind: str, fits: int
) -> None:
    """Raise TooLarge if fewer than `needed` bytes are available."""
    if needed > available:
        raise TooLarge(
            f"batch size {settings.global_batch_size}{where}: {what} {needed / 2**30:.0f} GiB, but"
            f" only {available / 2**30:.1f} GiB of {kind} are available. Set batch=global:{fits}"
        )


def check_inputs(workload: Workload, hosts: Sequence[AvailableHost] = ()) -> None:
    """Check that the input batches of a run on CPU cores fit into memory, in any mode.

    Args:
        workload: The workload with its data set.
        hosts: The machines of the run. If empty, the run uses this machine.

    Raises:
        TooLarge: The batches do not fit. The message is a single line.
    """
    settings = workload.settings
    if settings.device != "cpu":
        return
    largest = workload.shapes()[0]
    replica = sum(
        math.prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in largest.values()
    )
    available = memory_of_each([host.hardware for host in hosts])
    needed = HELD_BATCHES * replica * (settings.devices // settings.nodes)
    fits = _multiple(
        settings.global_batch_size * available / (TAKEN * max(needed, 1)), settings.devices
    )
    where = " of each machine" if settings.nodes > 1 else ""
    _check(
        settings, f" on CPU cores{where}", "its data alone need", needed, available, "memory", fits
    )


def fitting_batch(workload: type[Workload], settings: Settings, memory_bytes: int) -> int:
    """Return a smaller global batch size for a run that ran out of memory.

    Args:
        workload: The workload of the run.
        settings: Settings of the run that ran out of memory.
        memory_bytes: Total memory of all devices of the run.

    Returns:
        A multiple of the number of devices that is at most half of the batch size. If the size of
        the activations is known, the activations of the batch also fit into memory. 0 if no such
        batch size can be divided evenly among the devices.
    """
    sample, half = workload.activation_bytes(settings), settings.global_batch_size // 2
    largest = min(half, memory_bytes / (TAKEN * sample)) if sample else half
    return _multiple(largest, settings.devices) if half >= settings.devices else 0


def _multiple(batch: float, devices: int) -> int:
    """Return the largest multiple of `devices` up to `batch`, but at least `devices`."""
    return max(1, int(batch) // devices) * devices
