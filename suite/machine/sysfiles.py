"""Reading the small files of /proc and /sys, some of which are missing on every machine."""

from __future__ import annotations

import contextlib
import platform
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


def cpu_model(root: Path = Path("/")) -> str | None:
    """The processor's name in /proc/cpuinfo, which psutil does not read; None where it has none."""
    for line in (text(root / "proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def cpu_kind(root: Path = Path("/")) -> str:
    """The processor's name with its family and model, by which generations under one name differ (virtual machines)."""
    fields: dict[str, str] = {}
    for line in (text(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    numbers = [f"{name} {fields[name]}" for name in ("cpu family", "model", "stepping") if name in fields]
    return ", ".join([fields.get("model name") or platform.machine(), *numbers])


def number(path: Path) -> int | None:
    """The whole number that the file holds; None if it holds none or cannot be read."""
    with contextlib.suppress(ValueError):
        return int(text(path) or "")
    return None
