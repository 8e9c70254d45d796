"""Append reasons for the open division to the log of a run that has ended.

The appended reasons were found after the first lines of the log had been written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from suite.catalog.deviations import Deviation, DeviationCode
from suite.common.paths import PROJECT
from suite.common.runspec import RunSpec
from suite.results.text import clean
from suite.worker.heartbeat import WorkerStatus
from suite.worker.runlog import RunLog

KEY = "suite_open"
"""Log key of the line that contains the appended reasons for the open division
(docs/reference/log_format.md).
"""


def append_open_reasons(log: Path, reasons: Sequence[Deviation]) -> None:
    """Append reasons for the open division to the log of a run that has ended.

    If the log does not exist, the function does not create it.
    """
    with contextlib.suppress(FileNotFoundError), RunLog(log, append=True) as stream:
        texts, facts = [reason.text for reason in reasons], [reason.to_json() for reason in reasons]
        stream.event(KEY, {"reasons": texts, "deviation_facts": facts})


def code_deviation(
    run: RunSpec, heartbeats: Sequence[WorkerStatus | None], environment: str
) -> Deviation | None:
    """Return the deviation of a run whose workers imported unexpected code, or None.

    The expected code is the code of the controller's checkout.

    Args:
        run: The run, with the digest of the expected code.
        heartbeats: Last heartbeat of each worker, with the digest of the imported code.
        environment: Name of the environment, for the suggested remedy.
    """
    expected = run.code_digest
    different = [
        heartbeat
        for heartbeat in heartbeats
        if heartbeat is not None and heartbeat.code_digest != expected
    ]
    if not expected or not different:
        return None
    root = clean(different[0].code_root, 200)
    source = (
        f"its code is in {root}" if root else "its version does not report the path of the code"
    )
    sentence = (
        f"worker {different[0].process} imported other code than the controller's checkout"
        f" {PROJECT} has ({source}). Create the environment from this checkout: suite env create"
        f" {environment}"
    )
    return Deviation(DeviationCode.OTHER_CHECKOUT, detail=sentence)
