"""Curves: how quality, loss and throughput of runs went, as one table with a row for each evaluation and metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.results.columns import RunRow
from suite.results.logs.record import Evaluation, RunRecord, Throughput
from suite.results.table import read_runs

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {
    "run": "object",
    "step": "Int64",
    "epoch": "float64",
    "seconds": "float64",
    "metric": "object",
    "value": "float64",
    "training_loss": "float64",
    "samples_per_second": "float64",
}


def curves(paths: str | Path | Sequence[str | Path]) -> pd.DataFrame:
    """How the runs below `paths` went, those that failed or go on too; a log that is a copy of another is left out.

    Columns: `run` (its name below the folder), `step` (optimizer steps done), `epoch` (epochs trained), `seconds` since
    `run_start`, `metric` and its `value` in the units of the log, `training_loss` and `samples_per_second` of the stretch of
    training before. A stretch without an evaluation has a row without a metric; so do all of other programs, whose logs do not
    say to which evaluation a stretch belongs. What a log does not tell is missing.

    Raises ValueError for a path without any log.
    """
    return curves_of(read_runs(paths))


def curves_of(runs: Iterable[RunRow]) -> pd.DataFrame:
    """The same of rows that were read already."""
    import pandas as pd

    logged = [(row.run, row.record) for row in runs if row.record is not None and not row.copy_of]
    lines = [{"run": run, **line} for run, record in logged for line in _lines(record)]
    return pd.DataFrame(
        {name: pd.Series([line.get(name) for line in lines], dtype=kind) for name, kind in _TYPES.items()}
    )


def _lines(log: RunRecord) -> Iterator[dict[str, Any]]:
    for evaluation, block in paired(log):
        line: dict[str, Any] = {}
        if block is not None:
            line |= {"step": block.step, "seconds": block.seconds, "training_loss": block.loss}
            line["samples_per_second"] = block.samples_per_second
        if evaluation is None:
            yield line
            continue
        line |= {"seconds": evaluation.seconds, "epoch": log.epochs_at(evaluation)}
        yield from (line | {"metric": metric, "value": value} for metric, value in evaluation.values.items())


def paired(log: RunRecord) -> list[tuple[Evaluation | None, Throughput | None]]:
    """Evaluations and stretches of training in the order of the log; this suite writes a stretch after its evaluation."""
    pairs: list[tuple[Evaluation | None, Throughput | None]] = []
    items: list[Evaluation | Throughput] = [*log.evaluations, *log.throughput]
    for item in sorted(items, key=lambda item: item.line):
        if isinstance(item, Evaluation):
            pairs.append((item, None))
        elif log.settings.profile and pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], item)
        else:
            pairs.append((None, item))
    return pairs
