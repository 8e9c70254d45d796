"""Curves of quality, training loss, and throughput over the time of a run.

The table has a row for each evaluation of each run. An evaluation with several metrics has a row
for each metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.results.columns import Run
from suite.results.logs.record import Evaluation, RunRecord, Throughput
from suite.results.table import read_runs

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {  # Types of the columns in a DataFrame.
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
    """Return the curves of the runs below `paths`, including failed and unfinished runs.

    Copies of logs are omitted. Unknown values are missing in the DataFrame. A training block
    without an evaluation has a row without a metric. In logs of other programs, every training
    block has such a row, because these logs do not assign evaluations to blocks.

    Args:
        paths: Logs, or folders that are searched for logs.

    Returns:
        A DataFrame with the columns `run` (name below the folder), `step` (optimizer steps since
        the start), `epoch` (epochs since the start), `seconds` since `run_start`, `metric` and its
        `value` in the unit of the log, `training_loss` and `samples_per_second` of the training
        block before the evaluation.

    Raises:
        ValueError: A path contains no log.
    """
    return curves_of(read_runs(paths))


def curves_of(runs: Iterable[Run]) -> pd.DataFrame:
    """Return the curves of runs as a table with the columns of `curves`."""
    import pandas as pd

    rows = []
    for run in runs:
        if run.record is not None and not run.copy_of:
            rows += [{"run": run.run, **row} for row in _rows(run.record)]
    columns = {
        name: pd.Series([row.get(name) for row in rows], dtype=dtype)
        for name, dtype in _TYPES.items()
    }
    return pd.DataFrame(columns)


def _rows(log: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run, without the column `run`."""
    for evaluation, block in paired(log):
        row: dict[str, Any] = {}
        if block is not None:
            row = {
                "step": block.step,
                "seconds": block.seconds,
                "training_loss": block.loss,
                "samples_per_second": block.samples_per_second,
            }
        if evaluation is None:
            yield row
            continue
        row |= {"seconds": evaluation.seconds, "epoch": log.epochs_at(evaluation)}
        for metric, value in evaluation.values.items():
            yield {**row, "metric": metric, "value": value}


def paired(log: RunRecord) -> list[tuple[Evaluation | None, Throughput | None]]:
    """Return pairs (evaluation, training block) of a log, in log order.

    This suite logs a training block after the evaluation at the end of the block, so each block is
    paired with the evaluation above it. In logs of other programs, evaluations and blocks are not
    paired: each pair contains an evaluation or a block, and None.
    """
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
