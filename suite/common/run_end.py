"""Describes how a run ended: by its status, the code of the cause, and a sentence for users.

`status.json`, the `run_stop` line of a log, and the heartbeat of a worker hold the code next to the
sentence. Files of older versions only hold the sentence, from which `derive_code` derives the code.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass


class EndStatus(enum.Enum):
    """Status of a run. The value is the name in files and tables."""

    RUNNING = "running"
    """The controller has not recorded an end."""
    SUCCESS = "success"
    """The run reached its target, or trained for the requested length."""
    TARGET_MISSED = "target_missed"
    OOM = "oom"
    RANK_DIED = "rank_died"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    ABORTED = "aborted"
    """The log has a `run_stop` without success."""
    TRUNCATED = "truncated"
    """The log has no `run_stop`."""
    UNREADABLE = "unreadable"
    """The log cannot be opened, or holds no record."""


class EndCode(enum.Enum):
    """Cause of an end. The value is the code in files."""

    NONE = ""
    """The run trained to its end, or only the status is known."""
    TARGET_MISSED = "target_missed"
    DIVERGED = "diverged"
    """A loss or an evaluation is not finite."""
    DISK_FULL = "disk_full"
    OUT_OF_MEMORY = "out_of_memory"
    ERROR = "error"
    """A different error of a worker."""
    NOT_ENDED = "not_ended"
    CONTROLLER_KILLED = "controller_killed"
    NO_LOG = "no_log"
    NO_RECORD = "no_record"
    NO_RUN_START = "no_run_start"
    NO_RUN_STOP = "no_run_stop"
    NO_TIME = "no_time"
    NO_STATUS = "no_status"
    """`run_stop` has no status, and no evaluation reaches the target."""
    FALSE_SUCCESS = "false_success"
    """`run_stop` has the status success, but the evaluations do not confirm it."""
    FALSE_FAILURE = "false_failure"
    """`run_stop` has a status other than success, but an evaluation reaches the target."""
    NOT_PLAUSIBLE = "not_plausible"
    """A value in the log is outside its limits."""


@dataclass(frozen=True)
class RunEnd:
    """Status of a run at its end, with the code of the cause and a sentence."""

    status: EndStatus
    code: EndCode = EndCode.NONE
    detail: str = ""
    """The cause in a sentence. Empty for a success."""

    @property
    def is_finished(self) -> bool:
        """True if the run trained to its end, whether it reached its target or not.

        Such a run is never run again.
        """
        ended = self.status in (EndStatus.SUCCESS, EndStatus.TARGET_MISSED, EndStatus.ABORTED)
        return ended and self.code in (EndCode.NONE, EndCode.TARGET_MISSED)


SUCCESS = RunEnd(EndStatus.SUCCESS)


def end_of(status_text: str, code: str, detail: str) -> RunEnd:
    """Return the end with the status, the code, and the sentence of a file.

    An unknown status counts as a failure.
    """
    try:
        status = EndStatus(status_text)
    except ValueError:
        return RunEnd(EndStatus.FAILED, EndCode.ERROR, detail or f"status {status_text[:40]}")
    return RunEnd(status, parse_code(code, status, detail), detail)


def parse_code(code: object, status: EndStatus, sentence: str) -> EndCode:
    """Return the end code that a file contains.

    If the code is missing or invalid, it is derived from the status and the sentence.
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
"""Pattern of the sentences of versions without codes: the name of the exception, in `status.json`
after the process number.
"""


def derive_code(status: EndStatus, sentence: str) -> EndCode:
    """Return the code for a status and a sentence that a version without codes wrote."""
    if status in _CODE_OF_STATUS:
        return _CODE_OF_STATUS[status]
    if _DIVERGED.match(sentence):
        return EndCode.DIVERGED
    if "no space left in" in sentence:
        return EndCode.DISK_FULL
    return EndCode.ERROR if sentence else EndCode.NONE
