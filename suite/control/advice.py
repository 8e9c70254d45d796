"""Adds advice to the status of a failed run: a smaller batch, or the disk that is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.run_end import EndCode
from suite.common.runspec import RunSpec
from suite.control import memory
from suite.control.hosts.host_control import HostControl
from suite.control.run_status import RunStatus
from suite.machine import disks


def full_disk(status: RunStatus, folder: Path, controls: Sequence[HostControl]) -> str:
    """Return the message on a full disk of a machine.

    Empty: no disk is full, or the run did not fail because of it.
    """
    if status.status not in ("failed", "rank_died"):
        return ""
    return disks.full(folder) or next(filter(None, (control.full_disk for control in controls)), "")


def with_advice(status: RunStatus, run: RunSpec, full: str) -> RunStatus:
    """Return the status with advice in its reason. `full` is the message of `full_disk`."""
    if status.status == "oom":
        status = replace(status, reason=f"{status.reason}; {memory.batch_advice(run)}")
    if full and status.code != EndCode.DISK_FULL.value:
        status = replace(status, reason=f"{status.reason}; {full}", code=EndCode.DISK_FULL.value)
    return status
