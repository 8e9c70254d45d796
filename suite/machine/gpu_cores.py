"""Finds the CPU cores of the socket to which a GPU's PCI bus is attached.

This module uses only the standard library because workers import it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from suite.machine.sysfiles import text
from suite.machine.visible import VARIABLE


def cores_near_gpus(numbers: Iterable[int], root: Path = Path("/")) -> set[int]:
    """Return the cores near GPUs that this process may use.

    The driver has a folder for each GPU. The name of the folder is the GPU's PCI address, and
    CUDA_DEVICE_ORDER=PCI_BUS_ID numbers the GPUs in the order of these addresses.

    Args:
        numbers: Indices of the GPUs among the visible GPUs of this process.
        root: Folder that contains /proc and /sys.

    Returns:
        Numbers of the cores. Empty: the system does not report them, or CUDA_VISIBLE_DEVICES
            selects a GPU by UUID.
    """
    addresses = sorted(path.name.lower() for path in (root / "proc/driver/nvidia/gpus").glob("*"))
    visible = os.environ.get(VARIABLE, ",".join(map(str, range(len(addresses))))).split(",")
    cores: set[int] = set()
    for number in numbers:
        entry = visible[number].strip() if number < len(visible) else ""
        if not entry.isdecimal() or int(entry) >= len(addresses):  # a UUID, or not a device
            return set()
        cores |= _parse_ranges(
            text(root / "sys/bus/pci/devices" / addresses[int(entry)] / "local_cpulist") or ""
        )
    return cores & os.sched_getaffinity(0)


def _parse_ranges(ranges: str) -> set[int]:
    """Return the numbers of a list such as `0-2,8`, or an empty set if the format is different."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", ranges, re.ASCII):
        return set()
    ends = (part.split("-") for part in ranges.split(","))
    return {
        core
        for first, *_, last in ((*part, part[-1]) for part in ends)
        for core in range(int(first), int(last) + 1)
    }
