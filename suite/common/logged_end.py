"""How a run ended according to its log. Standard library only: the controller asks before it imports a log reader."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from workloads import files

_TOKEN = b":::MLLOG"
_MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class LoggedEnd:
    """The `run_stop` of a log."""

    status: str
    """`success` or `aborted`."""
    reason: str
    """Why a run failed after its clock started; empty if it trained to its end, whether the target was reached or missed."""

    @property
    def is_finished(self) -> bool:
        """True if the run trained to its end: such a run counts, and is never run again."""
        return not self.reason


def read_logged_end(log: Path) -> LoggedEnd | None:
    """Return the last `run_stop` of a log of this suite, or None if there is no such log or the run did not end.

    Raises:
        OSError: The log exists and cannot be read.
    """
    end = None
    try:
        stream = files.open_stream(log)
    except FileNotFoundError:
        return None
    with stream:
        while line := stream.readline(_MAX_LINE_BYTES):
            if b"run_stop" in line and _TOKEN in line:
                end = _parse(line) or end
    return end


def _parse(line: bytes) -> LoggedEnd | None:
    try:
        event = json.loads(line[line.index(_TOKEN) + len(_TOKEN) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("key") != "run_stop":
        return None
    metadata = event.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return LoggedEnd(str(metadata.get("status") or ""), str(metadata.get("reason") or ""))
