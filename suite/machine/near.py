"""The CPU cores near a GPU: those of the socket that its PCI bus ends at. Standard library only, since workers ask."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from suite.machine.sysfiles import text
from suite.machine.visible import VARIABLE


def near(numbers: Iterable[int], root: Path = Path("/")) -> set[int]:
    """Of the cores that this process may use those near its visible GPUs with these numbers; empty: the system does not tell.

    The driver has a folder for each GPU, named by its place on the bus, which is what CUDA_DEVICE_ORDER=PCI_BUS_ID counts by.
    `root` is where /proc and /sys are found.
    """
    places = sorted(path.name.lower() for path in (root / "proc/driver/nvidia/gpus").glob("*"))
    words = os.environ.get(VARIABLE, ",".join(map(str, range(len(places))))).split(",")
    cores: set[int] = set()
    for number in numbers:
        word = words[number].strip() if number < len(words) else ""
        if not word.isdecimal() or int(word) >= len(places):  # chosen by UUID, or none
            return set()
        cores |= _listed(text(root / "sys/bus/pci/devices" / places[int(word)] / "local_cpulist") or "")
    return cores & os.sched_getaffinity(0)


def _listed(ranges: str) -> set[int]:
    """`0-2,8` as numbers; empty for anything else."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", ranges, re.ASCII):
        return set()
    ends = (part.split("-") for part in ranges.split(","))
    return {
        core for first, *_, last in ((*part, part[-1]) for part in ends) for core in range(int(first), int(last) + 1)
    }
