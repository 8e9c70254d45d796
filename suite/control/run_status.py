"""Write `status.json`, which records the status of a run."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from suite.catalog.deviations import Deviation
from suite.common.run_folder import STATUS_FILE
from suite.common.runspec import RunSpec
from suite.common.status_file import StatusFile
from workloads.process_identity import this_process


@dataclass(frozen=True)
class RunStatus:
    """Status of a run: running, or how the run ended."""

    status: str
    """running | success | target_missed | oom | rank_died | hung | interrupted | failed"""
    reason: str = ""
    process: int | None = None
    """Rank of the process to which `reason` refers."""
    node: str = ""
    """Name of the machine on which the process `process` ran.

    The string is empty if the run uses a single machine, or if `reason` does not refer to a
    process.
    """
    code: str = ""
    """Value of the `EndCode` for `reason` (suite/common/run_end.py)."""


class StatusWriter:
    """Writes the status of a run to `status.json`.

    Durations are measured with the monotonic clock, because the wall clock may be changed during
    the run.
    """

    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self.started = datetime.datetime.now(datetime.timezone.utc)
        self._start = time.monotonic()
        self._ended: datetime.datetime | None = None

    def write(self, status: RunStatus, open_reasons: Sequence[Deviation] = ()) -> None:
        """Write `status.json`. If the end time was already written, it does not change.

        Args:
            status: The status.
            open_reasons: Reasons for the open division that were found after the first lines of the
                log were written.
        """
        settings = self._run.settings
        ended = None
        if status.status != "running":
            elapsed = datetime.timedelta(seconds=time.monotonic() - self._start)
            self._ended = ended = self._ended or self.started + elapsed
        # `open_reasons` is also in the last line of the log.
        filed = StatusFile(
            **asdict(status),
            started=_time_text(self.started),
            ended=None if ended is None else _time_text(ended),
            controller=this_process(),
            run_index=self._run.run_index,
            workload=settings.workload,
            framework=settings.framework,
            profile=settings.profile,
            devices=settings.devices,
            open_reasons=tuple(reason.text for reason in open_reasons),
        )
        filed.write(Path(self._run.folder) / STATUS_FILE)


def _time_text(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
