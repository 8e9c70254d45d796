"""Read small files in /proc and /sys. Each machine lacks some of these files.

Functions that return a single value return None if the file or the field is missing, or if the
content is not in the expected format.
"""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path

from workloads import files


def text(path: Path) -> str | None:
    """Return the content of a file, stripped of surrounding white space."""
    try:
        return files.read_text(path, "replace").strip()
    except OSError:
        return None


def online_cpus(root: Path) -> dict[int, Path]:
    """Map the number of each online CPU to its folder in /sys.

    The mapping is empty if /sys does not list CPUs.

    Args:
        root: Folder that contains /sys.
    """
    folders = (path.parent for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology"))
    return {int(folder.name.removeprefix("cpu")): folder for folder in folders}


def memory_bytes(path: Path) -> dict[str, int]:
    """Return the fields of a meminfo file, such as `MemTotal:  16777216 kB`, in bytes.

    Args:
        path: The meminfo file of the machine or of a NUMA node.
    """
    return {name: int(kib) << 10 for name, kib in re.findall(r"(\w+): *(\d+) kB", text(path) or "")}


def counts(path: Path) -> dict[str, int]:
    """Map each name in a control-group file such as `cpu.stat` to its integer."""
    pairs = (line.split(" ") for line in (text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


@functools.cache
def cpu_field(name: str, root: Path = Path("/")) -> str | None:
    """Return a field of the first processor in /proc/cpuinfo. The field is cached.

    Args:
        name: Prefix of the field's name.
        root: Folder that contains /proc.
    """
    for line in (text(root / "proc/cpuinfo") or "").splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return None


def cpu_model(root: Path = Path("/")) -> str | None:
    """Return the model name of the processor, which psutil does not provide."""
    return cpu_field("model name", root)


def number(path: Path) -> int | None:
    """Return the integer in a file."""
    with contextlib.suppress(ValueError):
        return int(text(path) or "")
    return None
