"""What a row of the table holds: COLUMNS, and how a run becomes a row.

A column is added here and nowhere else. Times and counts are numbers in the unit that the column's name says, and missing where
a log does not tell.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from suite.results.identity import BOOKKEEPING, Row
from suite.results.logs.collect import Run
from suite.results.logs.events import number
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.logs.recorded_telemetry import Telemetry, json_lines, telemetry
from suite.results.names import workload_name

if TYPE_CHECKING:  # half a second to import, which only commands that print tables pay
    import pandas as pd

    Frame = pd.DataFrame

OURS = "ours"
"""`round` of this suite's own runs."""
Combine = Callable[[Sequence[Row], str], Any]
"""What a result has of a column, from the rows of its runs and the column's name."""


# --- how the figures of several runs become one -------------------------------------------------------------------------


def known(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of a column that are known."""
    return [value for value in (getattr(row, name) for row in rows) if value is not None]


def mean(rows: Sequence[Row], name: str) -> float | None:
    """Mean of what is known."""
    values = known(rows, name)
    return statistics.fmean(values) if values else None


def sum_of(values: Sequence[float]) -> float | None:
    """Their sum; None without any, and of numbers in a log whose sum no number holds."""
    try:
        return math.fsum(values) if values else None
    except OverflowError:
        return None


def total(rows: Sequence[Row], name: str) -> float | None:
    """Sum of what is known."""
    return sum_of(known(rows, name))


def over_steps(rows: Sequence[Row], name: str) -> float | None:
    """Mean over the steps of all runs."""
    known = [(getattr(row, name), row.steps or 1) for row in rows if getattr(row, name) is not None]
    return math.fsum(value * steps for value, steps in known) / sum(steps for _, steps in known) if known else None


def largest(rows: Sequence[Row], name: str) -> float | None:
    """The largest value."""
    return max(known(rows, name), default=None)


def first(rows: Sequence[Row], name: str) -> Any:
    """The first known value."""
    return next(iter(known(rows, name)), None)


def share_of(above: str, below: Sequence[str]) -> Combine:
    """Sum of a column over the sum of others, of the runs that have them all."""

    def combined(rows: Sequence[Row], _: str) -> float | None:
        whole = [row for row in rows if all(getattr(row, name) is not None for name in (above, *below))]
        base = math.fsum(getattr(row, name) for row in whole for name in below)
        return math.fsum(getattr(row, above) for row in whole) / base if base > 0 else None

    return combined


# --- the columns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One column: its text for the documentation, its type, its value for a run, and what a result makes of its runs'."""

    text: str
    kind: str
    """`text`, `number`, `count`, `flag` or `object`."""
    value: Callable[[Run, RunRecord | None], Any]
    combine: Combine | None = None
    """None: a result does not have it."""
    shown: bool = True
    """False: an object of the program, which no file holds."""


def _of_record(name: str) -> Callable[[Run, RunRecord | None], Any]:
    return lambda run, record: None if record is None else getattr(record, name)


def _logged(name: str) -> Callable[[Run, RunRecord | None], float | None]:
    return lambda run, record: None if record is None else number(record.hyperparameters.get(name))


def _blocks(name: str, *needed: str) -> Callable[[Run, RunRecord | None], float | None]:
    """Sum over the blocks of a run that have all `needed`."""

    def value(run: Run, record: RunRecord | None) -> float | None:
        blocks = record.throughput if record is not None else ()
        known = [
            getattr(block, name) for block in blocks if all(getattr(block, one) is not None for one in (name, *needed))
        ]
        return sum_of(known)

    return value


def _steps(name: str, scale: float = 1.0) -> Callable[[Run, RunRecord | None], float | None]:
    """A figure of `suite_step_times`."""

    def value(run: Run, record: RunRecord | None) -> float | None:
        found = None if record is None else record.step_times.get(name)
        return None if found is None else found * scale

    return value


def _step_ms(run: Run, record: RunRecord | None) -> float | None:
    """Mean time of a step: as timed one by one where they were, else of whole stretches."""
    if record is None or record.step_times.get("mean_ms") is not None:
        return None if record is None else record.step_times["mean_ms"]
    seconds = math.fsum(block.train_seconds or 0.0 for block in record.throughput if block.step is not None)
    return seconds * 1e3 / record.timed_steps if record.timed_steps and seconds > 0 else None


@functools.lru_cache(maxsize=8)
def _telemetry(folder: Path) -> Telemetry | None:
    return telemetry(folder)


def _sensor(
    name: str, of: Callable[[Sequence[float]], float] = statistics.fmean
) -> Callable[[Run, RunRecord | None], float | None]:
    """What `of` makes of a sensor's values (docs/telemetry.md)."""

    def value(run: Run, record: RunRecord | None) -> float | None:
        recorded = _telemetry(record.path.parent) if record is not None and record.settings.profile else None
        values = [one for one in (recorded.series.get(name, ()) if recorded else ()) if one is not None]
        return of(values) if values else None

    return value


def _energy(run: Run, record: RunRecord | None) -> float | None:
    recorded = _telemetry(record.path.parent) if record is not None and record.settings.profile else None
    return None if recorded is None else recorded.energy_joules


def _memory(run: Run, record: RunRecord | None) -> float | None:
    if record is None or not record.settings.profile:
        return None
    peaks = [number(line.get("memory_peak_bytes")) for line in json_lines(record.path.parent / "metrics.jsonl")]
    return max((peak for peak in peaks if peak is not None), default=None)


def _eval_loss(run: Run, record: RunRecord | None) -> float | None:
    last = record.evaluations[-1].values if record is not None and record.evaluations else {}
    return last.get("eval_loss", last.get("loss"))


def _quality(run: Run, record: RunRecord | None) -> float | None:
    return None if record is None else next(iter(record.quality.values()), None)


def _further_rates(run: Run, record: RunRecord | None) -> dict[str, float]:
    """Unit to units per second of training, over the blocks of a run."""
    sums: dict[str, list[float]] = {}
    for block in record.throughput if record is not None else ():
        for unit, rate in block.rates.items():
            units, seconds = sums.setdefault(unit, [0.0, 0.0])
            sums[unit] = [units + rate * (block.train_seconds or 0.0), seconds + (block.train_seconds or 0.0)]
    return {unit: units / seconds for unit, (units, seconds) in sums.items() if seconds > 0}


def _mean_rates(rows: Sequence[Row], name: str) -> dict[str, float]:
    every = known(rows, name)
    return {unit: statistics.fmean(one[unit] for one in every if unit in one) for one in every for unit in one}


def _hyperparameters(run: Run, record: RunRecord | None) -> dict[str, Any]:
    """Every logged key that holds a plain value, but for the seed and what is a column of its own."""
    logged = {} if record is None else record.hyperparameters
    return {name: value for name, value in logged.items() if name not in BOOKKEEPING}


def _submitter(run: Run, record: RunRecord | None) -> str:
    return "" if record is None or _is_ours(run) else record.org


def _folder(run: Run, record: RunRecord | None) -> str:
    """A result of another program is one folder, or one of `run_N`: several may log the same placeholder as platform."""
    if _is_ours(run) or record is None:
        return ""
    folder = record.path.absolute().parent
    return str(folder.parent if re.fullmatch(r"run_\d+", folder.name) else folder)


def _round(run: Run, record: RunRecord | None) -> str:
    return OURS if _is_ours(run) or run.settings is None else run.settings.rules


def _is_ours(run: Run) -> bool:
    return run.settings is None or bool(run.settings.profile)


def _setting(name: str) -> Callable[[Run, RunRecord | None], Any]:
    untold = getattr(RunSettings(), name)

    def value(run: Run, record: RunRecord | None) -> Any:
        found = untold if run.settings is None else getattr(run.settings, name)
        if name == "workload":
            return workload_name(found)
        return tuple(sorted(found)) if name in ("labels", "deviations") else found  # a cell's keys have an order

    return value


def _targets(run: Run, record: RunRecord | None) -> dict[str, float]:
    given = record.targets if record is not None else run.settings.targets if run.settings is not None else {}
    return dict(sorted(given.items()))


_KINDS = {"str": "text", "int": "count", "int | None": "count"}
_SETTINGS = {
    item.name: Column(
        f"Setting `{item.name}` (docs/logs.md: suite_run)", _KINDS.get(str(item.type), "object"), _setting(item.name)
    )
    for item in fields(RunSettings)
}
COLUMNS: Mapping[str, Column] = {
    "run": Column("Name of the run below the folder that was given", "text", lambda run, record: run.name),
    "path": Column("Its log, or its folder where there is none", "text", lambda run, record: str(run.path)),
    "round": Column("`ours`, a published round (`v0.7`), or `dgx1-article`", "text", _round),
    "submitter": Column("Who submitted it, of results of others", "text", _submitter),
    "division": Column("`closed` or `open`, as logged", "text", lambda run, record: record.division if record else ""),
    "folder": Column("Folder of a log of another program: it makes one result", "text", _folder),
    "benchmark": Column(
        "The rules' name of the workload", "text", lambda run, record: record.benchmark if record else ""
    ),
    "status": Column("`success`, or how it ended (docs/logs.md: status.json)", "text", lambda run, record: run.status),
    "reason": Column("Why it is no success", "text", lambda run, record: run.reason),
    "succeeded": Column("It did what was asked", "flag", lambda run, record: run.succeeded),
    "running": Column("It has not ended", "flag", lambda run, record: run.running),
    "copy_of": Column("The log with the same content that counts in its place", "text", lambda run, record: ""),
    **_SETTINGS,
    "targets": Column("Metric to the value that must be reached", "object", _targets),
    "hyperparameters": Column("Every other logged key with a plain value, the seed aside", "object", _hyperparameters),
    "to_target": Column(
        "It was to end at the target", "flag", lambda run, record: run.settings is None or run.settings.to_target
    ),
    "seed": Column("Seed, as logged", "object", _of_record("seed")),
    "start_ms": Column("`run_start`, milliseconds since 1970", "number", _of_record("start_ms")),
    "seconds": Column("`run_stop` - `run_start`: of a success the time to target", "number", _of_record("seconds")),
    "epochs": Column("Epochs until the target was reached", "number", _of_record("epochs_to_target")),
    "quality": Column("First metric of the last evaluation, as logged", "number", _quality, mean),
    "evaluations": Column("Evaluations", "count", lambda run, record: len(record.evaluations) if record else None),
    "samples": Column("Samples trained on", "number", _blocks("samples", "train_seconds"), total),
    "train_seconds": Column(
        "Seconds in training steps, evaluation aside", "number", _blocks("train_seconds", "samples"), total
    ),
    "evaluation_seconds": Column(
        "Seconds in evaluations", "number", _blocks("evaluation_seconds", "train_seconds", "data_wait_seconds"), total
    ),
    "data_wait_seconds": Column(
        "Seconds that training waited for data", "number", _blocks("data_wait_seconds", "train_seconds"), total
    ),
    "timed_seconds": Column(
        "Training seconds of the blocks that tell their waiting",
        "number",
        _blocks("train_seconds", "data_wait_seconds"),
        total,
    ),
    "steps": Column(
        "Optimizer steps in `train_seconds`",
        "count",
        lambda run, record: (record.timed_steps or None) if record else None,
        total,
    ),
    "data_wait_share": Column(
        "Waiting for data over training",
        "number",
        lambda run, record: None,
        share_of("data_wait_seconds", ["timed_seconds"]),
    ),
    "evaluation_share": Column(
        "Evaluation over training and evaluation",
        "number",
        lambda run, record: None,
        share_of("evaluation_seconds", ["evaluation_seconds", "timed_seconds"]),
    ),
    "further_rates": Column("Unit to units per second of training: `tokens`", "object", _further_rates, _mean_rates),
    "step_ms": Column("Mean time of a step, ms", "number", _step_ms, over_steps),
    "step_ms_deviation": Column("Standard deviation of steps timed one by one, ms", "number", _steps("sd_ms"), mean),
    "step_ms_median": Column("Their median, ms", "number", _steps("median_ms"), mean),
    "step_ms_p90": Column("Their 90th percentile, ms", "number", _steps("p90_ms"), mean),
    "step_ms_p99": Column("Their 99th percentile, ms", "number", _steps("p99_ms"), mean),
    "steps_timed": Column("How many were timed", "number", _steps("count"), mean),
    "staleness": Column(
        "Mean staleness of asynchronous updates",
        "number",
        lambda run, record: record.staleness.get("mean") if record else None,
        mean,
    ),
    "updates": Column(
        "Asynchronous updates", "number", lambda run, record: record.staleness.get("updates") if record else None, mean
    ),
    "eval_loss": Column("Loss of the last evaluation", "number", _eval_loss, mean),
    "gpu_percent": Column("Mean use of the GPUs, percent", "number", _sensor("gpu_percent"), mean),
    "memory_bytes": Column("Peak memory of the first device or process", "number", _memory, largest),
    "host_memory_bytes": Column("Peak memory of all processes", "number", _sensor("run_memory_bytes", max), mean),
    "watts": Column("Mean power of all devices", "number", _sensor("gpu_power_watts"), mean),
    "energy_joules": Column("Energy of all devices", "number", _energy, mean),
    "data_bytes": Column(
        "Bytes of the batches of all devices", "number", _blocks("data_bytes", "train_seconds"), total
    ),
    "model_parameters": Column("Trained parameters", "number", _logged("model_parameters"), first),
    "model_multiply_adds": Column(
        "Multiply-adds of a forward pass of one sample", "number", _logged("model_multiply_adds"), first
    ),
    "train_samples": Column("Samples of an epoch, as logged", "number", _logged("train_samples"), first),
    "learning_rate": Column("Base learning rate, as logged", "number", _logged("opt_base_learning_rate"), first),
    "price": Column(
        "Price of a device for an hour, as logged",
        "number",
        lambda run, record: number(run.settings.price_per_device_hour) if run.settings else None,
        first,
    ),
    "note": Column("What a published result says of itself", "text", lambda run, record: "", first),
    "published": Column("It stands in logs/published", "flag", lambda run, record: False),
    "single_figure": Column("One printed figure, without runs", "flag", lambda run, record: False, first),
    "published_rate": Column(
        "Samples per second of all devices, as published", "number", lambda run, record: None, first
    ),
    "condition": Column("How busy the machine was", "object", _of_record("condition"), shown=False),
    "gradients": Column("What the all-reduce of a step moves", "object", _of_record("gradients"), first, shown=False),
    "all_reduce": Column(
        "Times of all-reduces, of a run that trained nothing", "object", _of_record("all_reduce"), shown=False
    ),
    "record": Column("All that the log says", "object", lambda run, record: record, shown=False),
    "source": Column("The run as it was found", "object", lambda run, record: run, shown=False),
}
"""Name to column, in order."""


# --- the table ----------------------------------------------------------------------------------------------------------


def row_of(run: Run) -> dict[str, Any]:
    """A run as a row: the name of each column to its value."""
    record = run.reading.record if run.reading is not None else None
    return {name: column.value(run, record) for name, column in COLUMNS.items()}


def row_of_record(record: RunRecord) -> Row:
    """What a log says as a row, for whoever only asks in what logs differ."""
    return SimpleNamespace(
        **row_of(Run(record.path, record.path.name, None, record.settings, record.status, record.reason))
        | {
            "targets": dict(record.targets),
            "hyperparameters": dict(record.hyperparameters),
            "division": record.division,
            "record": record,
        }
    )


def frame(found: Iterable[Mapping[str, Any]]) -> Frame:
    """Rows as a table with the types of COLUMNS; copies are marked."""
    import pandas as pd

    table_rows = [dict(row) for row in found]
    _mark_copies(table_rows)
    types = {"text": "object", "number": "float64", "count": "Int64", "flag": "bool", "object": "object"}
    return pd.DataFrame(
        {
            name: pd.Series([row[name] for row in table_rows], dtype=types[column.kind])
            for name, column in COLUMNS.items()
        }
    )


def _mark_copies(found: Sequence[dict[str, Any]]) -> None:
    seen: dict[str, str] = {}
    for row in found:
        digest = getattr(row["record"], "digest", "")
        if digest and seen.setdefault(digest, row["path"]) != row["path"]:
            row["copy_of"] = seen[digest]


def rows(frame: Frame) -> Iterator[Row]:
    """The rows of any table as objects with its columns as attributes; what is not known is None."""
    import pandas as pd

    columns = {str(name): frame[name] for name in frame.columns}
    lists = {
        name: [
            None if value is pd.NA or (isinstance(value, float) and math.isnan(value)) else value
            for value in column.tolist()
        ]
        for name, column in columns.items()
    }
    return (SimpleNamespace(**dict(zip(lists, values, strict=True))) for values in zip(*lists.values(), strict=True))
