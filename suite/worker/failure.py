"""Determine why a worker failed: status of the run, reason, and reason code."""

from __future__ import annotations

from suite.common.plugin_errors import location_of
from suite.common.registry import packages_of
from suite.common.run_end import EndCode
from suite.common.runspec import RunSpec
from suite.machine import disks
from suite.worker.loop import code_of, one_line

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "memory allocation failed",
    "oom when allocating",
    "bad_alloc",
)


def status_of(error: BaseException) -> str:
    """Return the run status `oom` or `failed` for an exception.

    The function searches the type name and the message of the exception for phrases, because each
    framework raises a different exception type.
    """
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, MemoryError) or "outofmemory" in text or "resourceexhausted" in text:
        return "oom"
    return "oom" if any(phrase in text for phrase in _OUT_OF_MEMORY) else "failed"


def end_of(error: BaseException, run: RunSpec) -> tuple[EndCode, str]:
    """Return the reason code of an exception, and a one-line description.

    The description contains the exception and its source location. If a disk is full, the
    description also names the disk.
    """
    location = ""
    if status_of(error) == "failed":
        location = location_of(error, packages_of(run.settings.workload, run.settings.framework))
    where = f", at {location}" if location else ""
    full = disks.full(run.folder, run.settings.data_dir)
    if full:
        return EndCode.DISK_FULL, f"{one_line(error)}{where}; {full}"
    return code_of(error), f"{one_line(error)}{where}"
