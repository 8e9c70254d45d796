"""Reasons for division open that are found after the log's first lines were written."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from suite.worker.runlog import RunLog
from workloads.api import Deviation

KEY = "suite_open"
"""Key of the line that holds such reasons (docs/logs.md)."""


def append_open_reasons(log: Path, reasons: Sequence[Deviation]) -> None:
    """Append the line to a log that its run has closed. Without a log, nothing is written."""
    with contextlib.suppress(FileNotFoundError), RunLog(log, append=True) as stream:
        texts, facts = [reason.text for reason in reasons], [reason.to_json() for reason in reasons]
        stream.event(KEY, {"reasons": texts, "deviation_facts": facts})
