"""Description of how a run ended: status, error code, and a sentence for users.

The code and the sentence are in `status.json`, in the `run_stop` line of a log, and in a worker's
heartbeat. Files of older versions contain only the sentence, from which `derive_code` derives the
code.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass


class EndStatus(enum.Enum):
    """Status of a run. The enum value is the name in files and tables."""

    RUNNING = "running"
    """The controller has not yet recorded how the run ended."""
    SUCCESS = "success"
    """The run reached its target, or trained for the requested number of steps or epochs."""
    TARGET_MISSED = "target_missed"
    OOM = "oom"
    RANK_DIED = "rank_died"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    ABORTED = "aborted"
    """The log contains a `run_stop` record without the status success."""
    TRUNCATED = "truncated"
    """The log contains no `run_stop` record."""
    UNREADABLE = "unreadable"
    """The log cannot be opened, or contains no record."""


class EndCode(enum.Enum):
    """Cause of a run's end. The enum value is written to files."""

    NONE = ""
    """The run completed its training, or a file contains the status of the run without a cause."""
    TARGET_MISSED = "target_missed"
    DIVERGED = "diverged"
    """A loss or an evaluation result is not finite."""
    DISK_FULL = "disk_full"
    OUT_OF_MEMORY = "out_of_memory"
    ERROR = "error"
    """A worker failed with an error that no specific code describes."""
    NOT_ENDED = "not_ended"
    CONTROLLER_KILLED = "controller_killed"
    NO_LOG = "no_log"
    NO_RECORD = "no_record"
    NO_RUN_START = "no_run_start"
    NO_RUN_STOP = "no_run_stop"
    NO_TIME = "no_time"
    NO_STATUS = "no_status"
    """The `run_stop` record has no status, and no evaluation reaches the target."""
    FALSE_SUCCESS = "false_success"
    """The `run_stop` record has the status success, but no evaluation confirms it."""
    FALSE_FAILURE = "false_failure"
    """The `run_stop` record has a status other than success, but an evaluation reaches the
    target.
    """
    NOT_PLAUSIBLE = "not_plausible"
    """A value in the log is outside its plausible range."""


@dataclass(frozen=True)
class RunEnd:
    """Status of a run at its end, with a code and a sentence that describe the cause."""

    status: EndStatus
    code: EndCode = EndCode.NONE
    detail: str = ""
    """Cause of the end as a sentence. The string is empty for a successful run."""

    @property
    def is_finished(self) -> bool:
        """Return True if the run completed its training, with or without reaching the target.

        A resumed sweep never repeats a completed run.
        """
        ended = self.status in (EndStatus.SUCCESS, EndStatus.TARGET_MISSED, EndStatus.ABORTED)
        return ended and self.code in (EndCode.NONE, EndCode.TARGET_MISSED)


SUCCESS = RunEnd(EndStatus.SUCCESS)


def end_of(status_text: str, code: str, detail: str) -> RunEnd:
    """Build a `RunEnd` from the status, code, and sentence in a file.

    An unknown status is treated as a failure.
    """
    try:
        status = EndStatus(status_text)
    except ValueError:
        return RunEnd(EndStatus.FAILED, EndCode.ERROR, detail or f"status {status_text[:40]}")
    return RunEnd(status, parse_code(code, status, detail), detail)


def parse_code(code: object, status: EndStatus, sentence: str) -> EndCode:
    """Return the end code for a value from a file.

    A missing or invalid code is derived from the status and the sentence.
    """
    try:
        return EndCode(code or None)
    except ValueError:
        return derive_code(status, sentence)


_CODE_OF_STATUS: Mapping[EndStatus, EndCode] = {
    EndStatus.SUCCESS: EndCode.NONE,
    EndStatus.RUNNING: EndCode.NOT_ENDED,
    EndStatus.TARGET_MISSED: EndCode.TARGET_MISSED,
    EndStatus.OOM: EndCode.OUT_OF_MEMORY,
}
_DIVERGED = re.compile(r"(?:process \d+(?: on \S+)?: )?(?:NonFiniteLossError|Diverged)\b")
"""Pattern for sentences in files of versions without codes. The sentences begin with the name of
the exception. In `status.json`, the process number precedes the name.
"""


def derive_code(status: EndStatus, sentence: str) -> EndCode:
    """Derive the code from a status and a sentence in a file of a version without codes."""
    if status in _CODE_OF_STATUS:
        return _CODE_OF_STATUS[status]
    if _DIVERGED.match(sentence):
        return EndCode.DIVERGED
    if "no space left in" in sentence:
        return EndCode.DISK_FULL
    return EndCode.ERROR if sentence else EndCode.NONE
