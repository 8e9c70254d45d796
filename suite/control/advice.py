"""Add advice to the status of a failed run.

The advice suggests a smaller batch size, or names the full disk.
"""

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
    """Return a message about a full disk of a machine that made the run fail.

    The string is empty if no disk is full, or if the run failed for a different reason.
    """
    if status.status not in ("failed", "rank_died"):
        return ""
    return disks.full(folder) or next(filter(None, (control.full_disk for control in controls)), "")


def with_advice(status: RunStatus, run: RunSpec, full: str) -> RunStatus:
    """Return the status with advice added to its reason.

    `full` is the message from `full_disk`.
    """
    if status.status == "oom":
        status = replace(status, reason=f"{status.reason}; {memory.batch_advice(run)}")
    if full and status.code != EndCode.DISK_FULL.value:
        status = replace(status, reason=f"{status.reason}; {full}", code=EndCode.DISK_FULL.value)
    return status
