"""Read from the log and `status.json` how a run ended.

The module has few imports, so that the controller starts fast.
"""

from __future__ import annotations

import json
from pathlib import Path

from suite.common.run_end import EndCode, EndStatus, RunEnd, parse_code
from suite.common.run_folder import STATUS_FILE
from suite.common.status_file import StatusFile
from workloads import files

_TOKEN = b":::MLLOG"
_MAX_LINE_BYTES = 1 << 20


def read_logged_end(log: Path) -> RunEnd | None:
    """Return how a run ended according to its log, or None without a `run_stop` record.

    The last `run_stop` record of the log determines the status, SUCCESS or ABORTED. A run that
    completed its training has no code (`EndCode.NONE`).

    Raises:
        OSError: The log exists but cannot be read.
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


def read_filed_end(folder: Path) -> RunEnd | None:
    """Return how a run ended according to `status.json` in its folder.

    Returns None if the file is missing or damaged.
    """
    try:
        return StatusFile.read(folder / STATUS_FILE).end
    except (OSError, ValueError):
        return None


def _parse(line: bytes) -> RunEnd | None:
    try:
        event = json.loads(line[line.index(_TOKEN) + len(_TOKEN) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("key") != "run_stop":
        return None
    metadata = event.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    status = (
        EndStatus.SUCCESS
        if metadata.get("status") == EndStatus.SUCCESS.value
        else EndStatus.ABORTED
    )
    reason = str(metadata.get("reason") or "")
    return RunEnd(
        status,
        parse_code(metadata.get("code"), EndStatus.ABORTED, reason) if reason else EndCode.NONE,
        reason,
    )
