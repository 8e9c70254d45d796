"""Reading the small files of /proc and /sys, some of which are missing on every machine."""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path

from workloads import files


def text(path: Path) -> str | None:
    """The content without surrounding white space; None for a file that cannot be read."""
    try:
        return files.read_text(path, "replace").strip()
    except OSError:
        return None


def online_cpus(root: Path) -> dict[int, Path]:
    """Number of every online CPU to its folder in /sys; empty where /sys does not tell. `root` is where /sys is found."""
    folders = (path.parent for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology"))
    return {int(folder.name.removeprefix("cpu")): folder for folder in folders}


def memory_bytes(path: Path) -> dict[str, int]:
    """What a meminfo file names, of the machine or of a NUMA node, which psutil does not know: `MemTotal:  16777216 kB`."""
    return {name: int(kib) << 10 for name, kib in re.findall(r"(\w+): *(\d+) kB", text(path) or "")}


def counts(path: Path) -> dict[str, int]:
    """Lines of a name and a whole number, as control groups write them."""
    words = (line.split(" ") for line in (text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdecimal()}


@functools.cache
def cpu_field(name: str, root: Path = Path("/")) -> str | None:
    """What /proc/cpuinfo says of the first processor under this name; None where it says nothing. Read once a process."""
    for line in (text(root / "proc/cpuinfo") or "").splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return None


def cpu_model(root: Path = Path("/")) -> str | None:
    """The processor's name, which psutil does not read."""
    return cpu_field("model name", root)


def number(path: Path) -> int | None:
    """The whole number that the file holds; None if it holds none or cannot be read."""
    with contextlib.suppress(ValueError):
        return int(text(path) or "")
    return None
