"""Which logs are of one run: whole copies, and copies taken while it was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from suite.results.logs.collect import Run
from suite.results.logs.record import RunRecord
from suite.results.names import workload_name


def copies(runs: Sequence[Run]) -> dict[int, str]:
    """Of several logs of one run the longest counts; `id` of the others, whole or taken while it was written, to its path."""
    logged = [(run.reading.record, run) for run in runs if run.reading is not None and run.reading.record.digest]
    kept: dict[Any, list[tuple[RunRecord, Run]]] = {}
    found: dict[int, str] = {}
    for record, run in sorted(logged, key=lambda pair: (*_length(pair[0]), pair[1].running), reverse=True):
        workload = workload_name(run.settings.workload) if run.settings is not None else ""
        alike = kept.setdefault((workload, record.start_ms, record.seed), [])
        whole = next((one for known, one in alike if _is_same_run(known, record)), None)
        if whole is None:
            alike.append((record, run))
        else:
            found[id(run)] = str(whole.path)
    return found


def _length(log: RunRecord) -> tuple[int, ...]:
    return log.status != "truncated", len(log.evaluations), len(log.throughput), len(log.logged)


def _is_same_run(whole: RunRecord, other: RunRecord) -> bool:
    """Whether two logs of equal start and seed hold one run: their records are equal, or what the shorter says of itself is.

    A start in whole seconds without a seed may be that of several runs which were started together.
    """
    if whole.digest == other.digest:
        return True
    if not other.start_ms or (other.seed is None and other.start_ms % 1000 == 0):
        return False
    logged = all(whole.logged.get(name) == value for name, value in other.logged.items())
    return logged and (whole.settings, whole.platform) == (other.settings, other.platform)
