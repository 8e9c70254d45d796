"""Find the CPU cores of the socket to which a GPU is attached by its PCI bus.

This module imports only the standard library because workers import it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from suite.machine.sysfiles import text
from suite.machine.visible import VARIABLE


def cores_near_gpus(numbers: Iterable[int], root: Path = Path("/")) -> set[int]:
    """Return the cores on the sockets of the given GPUs that this process may use.

    The NVIDIA driver has a folder in /proc for each GPU. The name of the folder is the GPU's PCI
    address. With CUDA_DEVICE_ORDER=PCI_BUS_ID, GPUs are numbered in the order of the PCI addresses.

    Args:
        numbers: Indices of the GPUs among the visible GPUs of this process.
        root: Folder that contains /proc and /sys.

    Returns:
        Numbers of the cores. The set is empty if the system does not report the cores, or if
        CUDA_VISIBLE_DEVICES selects a GPU by UUID.
    """
    addresses = sorted(path.name.lower() for path in (root / "proc/driver/nvidia/gpus").glob("*"))
    visible = os.environ.get(VARIABLE, ",".join(map(str, range(len(addresses))))).split(",")
    cores: set[int] = set()
    for number in numbers:
        entry = visible[number].strip() if number < len(visible) else ""
        # `entry` is a UUID or an invalid index
        if not entry.isdecimal() or int(entry) >= len(addresses):
            return set()
        cores |= _parse_ranges(
            text(root / "sys/bus/pci/devices" / addresses[int(entry)] / "local_cpulist") or ""
        )
    return cores & os.sched_getaffinity(0)


def _parse_ranges(ranges: str) -> set[int]:
    """Parse a list of numbers such as `0-2,8`.

    The set is empty if the list is invalid.
    """
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", ranges, re.ASCII):
        return set()
    ends = (part.split("-") for part in ranges.split(","))
    return {
        core
        for first, *_, last in ((*part, part[-1]) for part in ends)
        for core in range(int(first), int(last) + 1)
    }
