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
from suite.results.logs.copies import mark_copies
from suite.results.logs.events import number
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.logs.recorded_telemetry import RecordedTelemetry, json_lines, telemetry
from suite.results.names import workload_name
from suite.results.text import clean

if TYPE_CHECKING:  # half a second to import, which only commands that print tables pay
    import pandas as pd

OURS = "ours"
"""`round` of this suite's own runs."""
TYPES = {"text": "object", "number": "float64", "count": "Int64", "flag": "bool", "object": "object"}
"""Kind of a column to its type in a table."""
Value = Callable[[Run, RunRecord], Any]
"""What a run has of a column, from the run and its log."""
Combine = Callable[[Sequence[Row], str], Any]
"""What a result has of a column, from the rows of its runs and the column's name."""


# --- how the figures of several runs become one -------------------------------------------------------------------------


def having(rows: Iterable[Any], *names: str) -> list[Any]:
    """Those of which all these values are known."""
    return [row for row in rows if all(getattr(row, name) is not None for name in names)]


def known(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of a column that are known."""
    return [getattr(row, name) for row in having(rows, name)]


def mean(rows: Sequence[Row], name: str) -> float | None:
    """Mean of what is known."""
    values = known(rows, name)
    return statistics.fmean(values) if values else None


def total(rows: Sequence[Any], name: str) -> float | None:
    """Sum of what is known; None also of numbers in a log whose sum no number holds."""
    values = known(rows, name)
    try:
        return math.fsum(values) if values else None
    except OverflowError:
        return None


def over_steps(rows: Sequence[Row], name: str) -> float | None:
    """Mean over the steps of all runs."""
    weighted = [(getattr(row, name), row.steps or 1) for row in having(rows, name)]
    return math.fsum(one * steps for one, steps in weighted) / sum(steps for _, steps in weighted) if weighted else None


def largest(rows: Sequence[Row], name: str) -> float | None:
    """The largest value."""
    return max(known(rows, name), default=None)


def first(rows: Sequence[Row], name: str) -> Any:
    """The first known value."""
    return next(iter(known(rows, name)), None)


def share_of(above: str, below: Sequence[str]) -> Combine:
    """Sum of a column over the sum of others, of the runs that have them all."""

    def combined(rows: Sequence[Row], _: str) -> float | None:
        whole = having(rows, above, *below)
        base = math.fsum(getattr(row, name) for row in whole for name in below)
        return math.fsum(getattr(row, above) for row in whole) / base if base > 0 else None

    return combined


BUSY, QUIET = "busy machine", "not busy"


def condition_text(conditions: Sequence[Any]) -> str:
    """`busy machine: others took 48 % of its cores`, or of how many runs (the worst one's reasons); empty: not all tell."""
    busy = [one for one in conditions if one is not None and one.busy]
    if not busy:
        return QUIET if conditions and None not in conditions else ""

    def others(one: Any) -> float:
        shares = (value for name, value in one.figures.items() if name.endswith("_share") and name != "cpu_share")
        return max(shares, default=0.0)

    count = "" if len(conditions) == 1 else f" ({len(busy)} of {len(conditions)} runs)"
    return clean(f"{BUSY}{count}: {' and '.join(max(busy, key=others).busy)}", 120)


# --- what a run has of a column -----------------------------------------------------------------------------------------


_NO_LOG = RunRecord(
    *(Path(), "", "", "", "", "", ""), RunSettings(), *(None, None, None, "", ""), {}, "", (), None, {}, (), {}
)
"""In place of the log that a run did not leave."""


@dataclass(frozen=True)
class Column:
    """One column: its text for the documentation, its type, its value for a run, and what a result makes of its runs'."""

    text: str
    kind: str
    """One of TYPES."""
    value: Value
    combine: Combine | None = None
    """None: a result does not have it."""
    shown: bool = True
    """False: an object of the program, which no file holds."""


def _always(value: Any) -> Value:
    return lambda run, log: value


def _log(name: str) -> Value:
    return lambda run, log: getattr(log, name)


def _entry(name: str, of: str = "logged") -> Value:
    return lambda run, log: number(getattr(log, of).get(name))


def _blocks(name: str, *needed: str) -> Value:
    """Sum over the blocks of a run that have all `needed`."""
    return lambda run, log: total(having(log.throughput, *needed), name)


def _step_ms(run: Run, log: RunRecord) -> float | None:
    """Mean time of a step: as timed one by one where they were, else of whole stretches."""
    seconds = math.fsum(block.train_seconds or 0.0 for block in log.throughput if block.step is not None)
    stretches = seconds * 1e3 / log.timed_steps if log.timed_steps and seconds > 0 else None
    return log.step_times.get("mean_ms", stretches)


_telemetry = functools.lru_cache(maxsize=8)(telemetry)


def _beside(log: RunRecord) -> RecordedTelemetry:
    """What was sampled during a run of ours (docs/telemetry.md)."""
    return (_telemetry(log.path.parent) if log.settings.profile else None) or RecordedTelemetry((), {})


def _sensor(name: str, of: Callable[[Sequence[float]], float] = statistics.fmean) -> Value:
    """What `of` makes of a sensor's values."""

    def value(run: Run, log: RunRecord) -> float | None:
        values = [one for one in _beside(log).series.get(name, ()) if one is not None]
        return of(values) if values else None

    return value


def _memory(run: Run, log: RunRecord) -> float | None:
    lines = json_lines(log.path.parent / "metrics.jsonl") if log.settings.profile else ()
    peaks = [number(line.get("memory_peak_bytes")) for line in lines]
    return max((peak for peak in peaks if peak is not None), default=None)


def _eval_loss(run: Run, log: RunRecord) -> float | None:
    last = log.evaluations[-1].values if log.evaluations else {}
    return last.get("eval_loss", last.get("loss"))


def _further_rates(run: Run, log: RunRecord) -> dict[str, float]:
    """Unit to units per second of training, over the blocks of a run."""
    sums: dict[str, list[float]] = {}
    for block in log.throughput:
        for unit, rate in block.rates.items():
            units, seconds = sums.setdefault(unit, [0.0, 0.0])
            sums[unit] = [units + rate * (block.train_seconds or 0.0), seconds + (block.train_seconds or 0.0)]
    return {unit: units / seconds for unit, (units, seconds) in sums.items() if seconds > 0}


def _mean_rates(rows: Sequence[Row], name: str) -> dict[str, float]:
    every = known(rows, name)
    return {unit: statistics.fmean(one[unit] for one in every if unit in one) for one in every for unit in one}


def _hyperparameters(run: Run, log: RunRecord) -> dict[str, Any]:
    """But for the seed and what is a column of its own."""
    return {name: value for name, value in log.hyperparameters.items() if name not in BOOKKEEPING}


def _settings(run: Run) -> RunSettings:
    return run.settings or RunSettings()


def _is_ours(run: Run) -> bool:
    return run.settings is None or bool(run.settings.profile)


def _folder(run: Run, log: RunRecord) -> str:
    """A result of another program is one folder, or one of `run_N`: several may log the same placeholder as platform."""
    if _is_ours(run) or log is _NO_LOG:
        return ""
    folder = log.path.absolute().parent
    return str(folder.parent if re.fullmatch(r"run_\d+", folder.name) else folder)


def _setting(name: str) -> Value:
    def value(run: Run, log: RunRecord) -> Any:
        setting = getattr(_settings(run), name)
        if name == "workload":
            return workload_name(setting)
        return tuple(sorted(setting)) if name in ("labels", "deviations") else setting  # a cell's keys have an order

    return value


def _targets(run: Run, log: RunRecord) -> dict[str, float]:
    given = log.targets if log is not _NO_LOG else _settings(run).targets
    return dict(sorted(given.items()))


# --- the columns --------------------------------------------------------------------------------------------------------


_KINDS = {"str": "text", "int": "count", "int | None": "count"}
_SETTINGS = {
    item.name: Column(
        f"Setting `{item.name}` (docs/logs.md: suite_run)", _KINDS.get(str(item.type), "object"), _setting(item.name)
    )
    for item in fields(RunSettings)
}
COLUMNS: Mapping[str, Column] = {
    "run": Column("Name of the run below the folder that was given", "text", lambda run, log: run.name),
    "path": Column("Its log, or its folder where there is none", "text", lambda run, log: str(run.path)),
    "round": Column(
        "`ours`, a published round (`v0.7`), `not known`, or `dgx1-article`",
        "text",
        lambda run, log: OURS if _is_ours(run) else _settings(run).rules,
    ),
    "submitter": Column(
        "Who submitted it, of results of others", "text", lambda run, log: "" if _is_ours(run) else log.org
    ),
    "division": Column("`closed` or `open`, as logged", "text", _log("division")),
    "folder": Column("Folder of a log of another program: it makes one result", "text", _folder),
    "benchmark": Column("The rules' name of the workload", "text", _log("benchmark")),
    "status": Column("`success`, or how it ended (docs/logs.md: status.json)", "text", lambda run, log: run.status),
    "reason": Column("Why it is no success", "text", lambda run, log: run.reason),
    "succeeded": Column("It did what was asked", "flag", lambda run, log: run.succeeded),
    "running": Column("It has not ended", "flag", lambda run, log: run.running),
    "copy_of": Column("The log of the same run, as long or longer, that counts in its place", "text", _always("")),
    **_SETTINGS,
    "targets": Column("Metric to the value that must be reached", "object", _targets),
    "hyperparameters": Column("Logged hyperparameters, as the rules use the word", "object", _hyperparameters),
    "to_target": Column("It was to end at the target", "flag", lambda run, log: _settings(run).to_target),
    "seed": Column("Seed, as logged", "object", _log("seed")),
    "start_ms": Column("`run_start`, milliseconds since 1970", "number", _log("start_ms")),
    "seconds": Column("`run_stop` - `run_start`: of a success the time to target", "number", _log("seconds")),
    "epochs": Column("Epochs until the target was reached", "number", _log("epochs_to_target")),
    "quality": Column(
        "First metric of the last evaluation, as logged",
        "number",
        lambda run, log: next(iter(log.quality.values()), None),
        mean,
    ),
    "evaluations": Column("Evaluations", "count", lambda run, log: None if log is _NO_LOG else len(log.evaluations)),
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
    "steps": Column("Optimizer steps in `train_seconds`", "count", lambda run, log: log.timed_steps or None, total),
    "data_wait_share": Column(
        "Waiting for data over training", "number", _always(None), share_of("data_wait_seconds", ["timed_seconds"])
    ),
    "evaluation_share": Column(
        "Evaluation over training and evaluation",
        "number",
        _always(None),
        share_of("evaluation_seconds", ["evaluation_seconds", "timed_seconds"]),
    ),
    "further_rates": Column("Unit to units per second of training: `tokens`", "object", _further_rates, _mean_rates),
    "step_ms": Column("Mean time of a step, ms", "number", _step_ms, over_steps),
    "step_ms_deviation": Column(
        "Standard deviation of steps timed one by one, ms", "number", _entry("sd_ms", "step_times"), mean
    ),
    "step_ms_median": Column("Their median, ms", "number", _entry("median_ms", "step_times"), mean),
    "step_ms_p90": Column("Their 90th percentile, ms", "number", _entry("p90_ms", "step_times"), mean),
    "step_ms_p99": Column("Their 99th percentile, ms", "number", _entry("p99_ms", "step_times"), mean),
    "steps_timed": Column("How many were timed", "number", _entry("count", "step_times"), mean),
    "staleness": Column("Mean staleness of asynchronous updates", "number", _entry("mean", "staleness"), mean),
    "updates": Column("Asynchronous updates", "number", _entry("updates", "staleness"), mean),
    "eval_loss": Column("Loss of the last evaluation", "number", _eval_loss, mean),
    "gpu_percent": Column("Mean use of the GPUs, percent", "number", _sensor("gpu_percent"), mean),
    "memory_bytes": Column("Peak memory of the first device or process", "number", _memory, largest),
    "host_memory_bytes": Column("Peak memory of all processes", "number", _sensor("run_memory_bytes", max), mean),
    "watts": Column("Mean power of all devices", "number", _sensor("gpu_power_watts"), mean),
    "energy_joules": Column("Energy of all devices", "number", lambda run, log: _beside(log).energy_joules, mean),
    "data_bytes": Column(
        "Bytes of the batches of all devices", "number", _blocks("data_bytes", "train_seconds"), total
    ),
    "model_parameters": Column("Trained parameters", "number", _entry("model_parameters"), first),
    "model_multiply_adds": Column(
        "Multiply-adds of a forward pass of one sample", "number", _entry("model_multiply_adds"), first
    ),
    "train_samples": Column("Samples of an epoch, as logged", "number", _entry("train_samples"), first),
    "learning_rate": Column("Base learning rate, as logged", "number", _entry("opt_base_learning_rate"), first),
    "price": Column(
        "Price of a device for an hour, as logged",
        "number",
        lambda run, log: number(_settings(run).price_per_device_hour),
        first,
    ),
    "note": Column("What a published result says of itself", "text", _always(""), first),
    "published": Column("It stands in logs/published", "flag", _always(False)),
    "single_figure": Column("One printed figure, without runs", "flag", _always(False), first),
    "published_rate": Column("Samples per second of all devices, as published", "number", _always(None), first),
    "machine_condition": Column(
        "`not busy`, or what made the machine a busy one; empty: not known",
        "text",
        lambda run, log: condition_text((log.condition,)),
    ),
    "condition": Column("How busy the machine was", "object", _log("condition"), shown=False),
    "gradients": Column("What the all-reduce of a step moves", "object", _log("gradients"), first, shown=False),
    "all_reduce": Column(
        "Times of all-reduces, of a run that trained nothing", "object", _log("all_reduce"), shown=False
    ),
    "record": Column("All that the log says", "object", lambda run, log: None if log is _NO_LOG else log, shown=False),
    "source": Column("The run as it was found", "object", lambda run, log: run, shown=False),
}
"""Name to column, in order."""


# --- the table ----------------------------------------------------------------------------------------------------------


def row_of(run: Run) -> dict[str, Any]:
    """A run as a row: the name of each column to its value."""
    log = run.reading.record if run.reading is not None else _NO_LOG
    return {name: column.value(run, log) for name, column in COLUMNS.items()}


def row_of_settings(settings: RunSettings) -> dict[str, Any]:
    """The row of a success of which nothing but its settings is known, for whoever knows more to fill in."""
    return row_of(Run(Path(), "", None, settings, "success", ""))


def row_of_record(record: RunRecord) -> Row:
    """What a log says as a row, for whoever only asks in what logs differ."""
    logged = {name: getattr(record, name) for name in ("targets", "hyperparameters", "division")}
    return SimpleNamespace(**row_of_settings(record.settings) | logged)


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with the types of COLUMNS; copies are marked."""
    import pandas as pd

    table_rows = [dict(row) for row in rows]
    mark_copies(table_rows)
    return pd.DataFrame(
        {
            name: pd.Series([row[name] for row in table_rows], dtype=TYPES[column.kind])
            for name, column in COLUMNS.items()
        }
    )


def rows(frame: pd.DataFrame) -> Iterator[Row]:
    """The rows of any table as objects with its columns as attributes; what is not known is None."""

    def plain(column: Any) -> list[Any]:
        missing, values = column.isna().to_numpy(), column.tolist()
        return (
            [None if gone else value for gone, value in zip(missing, values, strict=True)] if missing.any() else values
        )

    lists = {str(name): plain(frame[name]) for name in frame.columns}
    return (SimpleNamespace(**dict(zip(lists, values, strict=True))) for values in zip(*lists.values(), strict=True))
