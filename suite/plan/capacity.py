"""Check whether a run fits into memory.

The check is made before an environment is built and before a process is started.
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
"""Estimated memory of the activations of a batch, as a multiple of their lower bound.

The suggested batch size in an error message is based on this estimate. For ResNet-50 at 224 pixels,
the lower bound is 89 MB per image. The measured memory is 140 MB per image (1.6 times the lower
bound) in PyTorch, and 100 MB (1.1 times) in TensorFlow and MXNet. The rest of the factor 2.0 is a
reserve for the framework.
"""

HELD_BATCHES = 2
"""Minimum number of batches in memory at the same time: the current batch and the next batch."""


def available_bytes(allowed: Limits) -> int:
    """Return how many bytes a run can still allocate within machine and cgroup limits."""
    available = int(psutil.virtual_memory().available)
    return (
        available
        if allowed.memory_free_bytes is None
        else min(available, allowed.memory_free_bytes)
    )


def memory_of_each(hardware: Sequence[Mapping[str, Any]]) -> int:
    """Return the memory in bytes of the machine with the least memory in a run.

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
    """Return the memory in bytes of the GPU with the least memory on the given machines.

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

    With device=cpu, the limit is the memory of each machine. With device=cuda, the limit is the
    memory of each GPU.

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
        TooLarge: The input batches do not fit. The message is a single line.
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
        A multiple of the number of devices that is at most half of the old batch size. If the
        workload defines the size of the activations, the activations of the new batch also fit into
        memory. 0 if half of the old batch has fewer samples than the run has devices.
    """
    sample, half = workload.activation_bytes(settings), settings.global_batch_size // 2
    largest = min(half, memory_bytes / (TAKEN * sample)) if sample else half
    return _multiple(largest, settings.devices) if half >= settings.devices else 0


def _multiple(batch: float, devices: int) -> int:
    """Return the largest multiple of `devices` that is not above `batch`.

    The minimum is `devices`, even if `batch` is smaller.
    """
    return max(1, int(batch) // devices) * devices
