"""Runs and results: the fields of `Run` and `Result`, and how the record of a log becomes a run.

A column is declared here and nowhere else. Its field has a description, the function that computes
it for a run, the function that combines the values of several runs, a heading, and whether reports
show it (docs/dev/add_a_column.md). Times and counts have the unit in their name. None is an unknown
value.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from suite.catalog.deviations import Deviation
from suite.common.labels import Label, LabelKind
from suite.common.run_end import SUCCESS
from suite.results.combine import (
    Combine,
    common_value,
    first,
    largest,
    mean,
    non_null,
    over_steps,
    share_of,
    total,
    where_all_known,
)
from suite.results.entry import is_submission_log, log_folder
from suite.results.logs.all_reduce import AllReduceTime
from suite.results.logs.events import number
from suite.results.logs.keys import BOOKKEEPING
from suite.results.logs.record import Condition, RunRecord, RunSettings
from suite.results.logs.recorded_telemetry import RecordedTelemetry, json_lines, telemetry
from suite.results.names import PLACEHOLDER, workload_name
from suite.results.text import clean
from suite.results.time_parts import TimeParts
from workloads.api import GradientAllReduceInfo, Json

if TYPE_CHECKING:  # half a second to import, which only commands that print tables pay
    import pandas as pd

EPOCHS = "epochs"
"""`epoch_unit` of this suite's own runs."""
EPOCH_COLUMNS: Mapping[str, str] = {
    EPOCHS: "epochs",
    "samples": "samples_to_target",
    "tokens": "tokens_to_target",
}
"""Unit of the epochs to target to the column of a table that shows them."""
OURS = "ours"
"""`round` of this suite's own runs."""
TYPES = {
    "text": "object",
    "number": "float64",
    "count": "Int64",
    "flag": "bool",
    "object": "object",
}
"""Kind of a column to its type in a DataFrame."""
_KINDS = {
    "str": "text",
    "float | None": "number",
    "int": "count",
    "int | None": "count",
    "bool": "flag",
}
"""Type of a field to the kind of its column.

Columns of all remaining types have the kind `object`.
"""
Value = Callable[[RunRecord], Any]
"""Function that computes a column of a run from its record."""


BUSY, QUIET = LabelKind.BUSY.value, "not busy"


def busy_label(conditions: Sequence[Condition | None]) -> Label | None:
    """Return the label of runs on a busy machine, with the reasons of the run that lost most.

    Returns None if no machine was busy.
    """
    busy = [condition for condition in conditions if condition is not None and condition.busy]
    if not busy:
        return None

    def largest_share(condition: Condition) -> float:
        shares = [
            value
            for name, value in condition.figures.items()
            if name.endswith("_share") and name != "cpu_share"
        ]
        return max(shares, default=0.0)

    scope = "" if len(conditions) == 1 else f"{len(busy)} of {len(conditions)} runs"
    return Label(LabelKind.BUSY, " and ".join(max(busy, key=largest_share).busy), scope)


def condition_text(conditions: Sequence[Condition | None]) -> str:
    """Return the condition of the machine during runs: the text of `busy_label`, or `not busy`.

    Empty if no machine was busy and the condition of a run is unknown.
    """
    label = busy_label(conditions)
    if label is not None:
        return clean(label.text, 120)
    return QUIET if conditions and None not in conditions else ""


# --- columns of a run
# -----------------------------------------------------------------------------------------


def _settings_of(log: RunRecord) -> RunSettings:
    return log.described_settings or RunSettings()


def _log(name: str) -> Value:
    return lambda log: getattr(log, name)


def _entry(name: str, of: str = "logged") -> Value:
    return lambda log: number(getattr(log, of).get(name))


def _blocks(name: str, *needed: str) -> Value:
    """Return the sum of a figure over the blocks of a run that have all `needed` figures."""
    return lambda log: total(where_all_known(log.throughput, *needed), name)


def _step_ms(log: RunRecord) -> float | None:
    """Return the mean time of a step: of steps that were timed one by one, else of whole blocks."""
    seconds = math.fsum(
        block.train_seconds or 0.0 for block in log.throughput if block.step is not None
    )
    segments = seconds * 1e3 / log.timed_steps if log.timed_steps and seconds > 0 else None
    return log.step_times.get("mean_ms", segments)


_telemetry = lru_cache(maxsize=8)(telemetry)


def _recorded_telemetry(log: RunRecord) -> RecordedTelemetry:
    """Return the telemetry of a run of this suite; empty for foreign runs."""
    whole = (
        log.settings.profile and not log.resumptions
    )  # the telemetry of a resumed run covers its last part only
    return (_telemetry(log.path.parent) if whole else None) or RecordedTelemetry((), {})


def _sensor(name: str, of: Callable[[Sequence[float]], float] = statistics.fmean) -> Value:
    """Return a function that combines the values of a sensor with `of`."""

    def value(log: RunRecord) -> float | None:
        values = [
            value for value in _recorded_telemetry(log).series.get(name, ()) if value is not None
        ]
        return of(values) if values else None

    return value


def _memory(log: RunRecord) -> float | None:
    lines = json_lines(log.path.parent / "metrics.jsonl") if log.settings.profile else ()
    peaks = [number(line.get("memory_peak_bytes")) for line in lines]
    return max((peak for peak in peaks if peak is not None), default=None)


def _eval_loss(log: RunRecord) -> float | None:
    last = log.evaluations[-1].values if log.evaluations else {}
    return last.get("eval_loss", last.get("loss"))


def _further_rates(log: RunRecord) -> dict[str, float]:
    """Return the units per second of training by unit, over all blocks of a run."""
    sums: dict[str, list[float]] = {}
    for block in log.throughput:
        for unit, rate in block.rates.items():
            units, seconds = sums.setdefault(unit, [0.0, 0.0])
            sums[unit] = [
                units + rate * (block.train_seconds or 0.0),
                seconds + (block.train_seconds or 0.0),
            ]
    return {unit: units / seconds for unit, (units, seconds) in sums.items() if seconds > 0}


def _mean_rates(rows: Sequence[Any], name: str) -> dict[str, float]:
    every = non_null(rows, name)
    return {
        unit: statistics.fmean(rates[unit] for rates in every if unit in rates)
        for rates in every
        for unit in rates
    }


def _block_time(name: str) -> Value:
    """Return one of the block times of a log; unknown for a log that has none."""
    return lambda log: getattr(log.block_times, name, None)


def _hyperparameters(log: RunRecord) -> dict[str, Any]:
    """Return the logged hyperparameters except the seed and the settings that are columns."""
    return {name: value for name, value in log.hyperparameters.items() if name not in BOOKKEEPING}


def _no_value(log: RunRecord) -> None:
    """Return None: the column exists in published files only."""


def _is_ours(log: RunRecord) -> bool:
    return log.described_settings is None or bool(log.described_settings.profile)


def _round(log: RunRecord) -> str:
    return OURS if _is_ours(log) else _settings_of(log).rules


def _folder(log: RunRecord) -> str:
    """Return the folder of a foreign log; empty for a run of this suite."""
    return str(log_folder(log.path)) if log.has_log and not _is_ours(log) else ""


def _is_one_submission(log: RunRecord) -> bool:
    """Check whether all logs in the folder of a foreign log are one result.

    Their settings may differ.
    """
    if not _folder(log):
        return False
    return is_submission_log(log.path.name) or (log.entry is not None and log.entry.is_submission)


def _submitter(log: RunRecord) -> str:
    if _is_ours(log):
        return ""
    submitter = log.entry.submitter if log.entry is not None else ""
    return submitter or ("" if PLACEHOLDER in log.org else log.org)


def _division(log: RunRecord) -> str:
    division = log.entry.division if log.entry is not None and not _is_ours(log) else ""
    return division or log.division


def _entry_value(name: str, unknown: Any) -> Value:
    """Return a fact of the entry of a run; `unknown` for a run without an entry."""
    return lambda log: unknown if log.entry is None else getattr(log.entry, name)


# --- the columns
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Definition of a column.

    It has a description, the value for a run, and the way in which a result combines its runs.
    """

    text: str
    value: Callable[..., Any] | None
    """Computes the column: from a record (`Value`), or in a study from a result.

    None: only scores have the column.
    """
    combine: Combine | None = None
    """None: a result does not have the column, or its runs all have the same value."""
    shown: bool = True
    """False: an object of the program, which files do not have."""
    kind: str = ""
    """One of TYPES; empty: the kind that follows from the type of the field."""
    heading: str = ""
    """Heading in tables and studies; empty: made from the name."""
    reported: bool = False
    """True: tables of `suite report` have the column."""


def column(
    text: str,
    value: Value | None = _no_value,
    combine: Combine | None = None,
    unknown: Any = None,
    **more: Any,
) -> Any:
    """Declare a column as a dataclass field.

    Args:
        text: Description for the documentation.
        value: Computes the column for a run; the default is for columns of published files.
        combine: Combines the values of several runs for their result.
        unknown: Value if nothing is known.
        more: Further fields of `Column`.
    """
    metadata = {"column": Column(text, value, combine, **more)}
    if isinstance(unknown, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=unknown, metadata=metadata)


_text, _mean, _first = (
    partial(column, unknown=""),
    partial(column, combine=mean),
    partial(column, combine=first),
)


scored = partial(column, value=None)
"""Declare a column that only results have, or that has a different meaning for results."""


def _summed(text: str, name: str, *needed: str) -> Any:
    return column(text, _blocks(name, *needed), total)


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns(RunSettings):
    """Columns that both runs and results have.

    Two instances are equal if they are the same object.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def key(self) -> str:
        """Stable identifier, different for each row of one set of runs."""
        raise NotImplementedError

    run: str = _text("Name of the run below the folder that was given", _log("name"))
    path: str = _text("Its log, or its folder where there is none", lambda log: str(log.path))
    round: str = _text("`ours`, a published round (`v0.7`), `not known`, or `dgx1-article`", _round)
    submitter: str = _text(
        "Submitter of a result of others: by the folders, the system description, or the log",
        _submitter,
    )
    division: str = _text(
        "`closed` or `open`: by the system description, the folders, or the log", _division
    )
    folder: str = _text("Folder of a foreign log: it makes one result", _folder)
    is_submission: bool = column(
        "All logs in its folder are one result: it lies in a submission, or is called"
        " `result_*.txt`",
        _is_one_submission,
        unknown=False,
    )
    benchmark: str = _text("The rules' name of the workload", _log("benchmark"))
    published: bool = column("It stands in logs/published", lambda log: False, unknown=False)
    single_figure: bool = column(
        "One printed figure, without runs", lambda log: False, unknown=False
    )
    to_target: bool = column(
        "It was to end at the target", lambda log: _settings_of(log).to_target, unknown=True
    )
    hyperparameters: Mapping[str, Json] = column(
        "Logged hyperparameters, as the rules use the word", _hyperparameters, unknown={}
    )
    seconds: float | None = column(
        "`run_stop` - `run_start`: of a success the time to target. A resumed run's interruptions"
        " count",
        _log("seconds"),
    )
    scaling_factor: float | None = column(
        "Factor of the `scaling.json` beside its log, which multiplies the times of the result",
        _entry_value("scaling_factor", None),
        common_value,
        reported=True,
    )
    interrupted_seconds: float | None = _mean(
        "Part of `seconds` in which a resumed run was interrupted", _log("interrupted_seconds")
    )
    setup_seconds: float | None = _mean(
        "Seconds from `run_start` to the first block", _block_time("setup_seconds")
    )
    block_seconds: float | None = _mean(
        "Seconds of all blocks: training and evaluation", _block_time("block_seconds")
    )
    checkpoint_seconds: float | None = _mean(
        "Seconds spent on checkpoints, in no training seconds", _log("checkpoint_seconds")
    )
    epochs: float | None = column(
        "Epochs until the target was reached; of published results in `epoch_unit`",
        _log("epochs_to_target"),
    )
    epoch_unit: str = column(
        "Unit of `epochs`: `epochs`, or for published results of some workloads `samples`"
        " or `tokens`",
        lambda log: EPOCHS,
        unknown=EPOCHS,
    )
    quality: float | None = _mean(
        "First metric of the last evaluation, as logged",
        lambda log: next(iter(log.quality.values()), None),
    )
    samples: float | None = _summed("Samples trained on", "samples", "train_seconds")
    train_seconds: float | None = _summed(
        "Seconds in training steps, evaluation aside", "train_seconds", "samples"
    )
    evaluation_seconds: float | None = _summed(
        "Seconds in evaluations", "evaluation_seconds", "train_seconds", "data_wait_seconds"
    )
    data_wait_seconds: float | None = _summed(
        "Seconds that training waited for data", "data_wait_seconds", "train_seconds"
    )
    timed_seconds: float | None = _summed(
        "Training seconds of the blocks that tell their waiting",
        "train_seconds",
        "data_wait_seconds",
    )
    steps: int | None = column(
        "Optimizer steps in `train_seconds`", lambda log: log.timed_steps or None, total
    )
    data_wait_share: float | None = column(
        "Waiting for data over training",
        combine=share_of("data_wait_seconds", ["timed_seconds"]),
        heading="data wait",
    )
    evaluation_share: float | None = column(
        "Evaluation over training and evaluation",
        combine=share_of("evaluation_seconds", ["evaluation_seconds", "timed_seconds"]),
    )
    further_rates: Mapping[str, float] = column(
        "Unit to units per second of training: `tokens`", _further_rates, _mean_rates, {}
    )
    step_ms: float | None = column(
        "Mean time of a step, ms", _step_ms, over_steps, heading="ms/step"
    )
    step_ms_deviation: float | None = _mean(
        "Standard deviation of steps timed one by one, ms",
        _entry("sd_ms", "step_times"),
        heading="sd",
    )
    step_ms_median: float | None = _mean(
        "Their median, ms", _entry("median_ms", "step_times"), heading="median"
    )
    step_ms_p90: float | None = _mean(
        "Their 90th percentile, ms", _entry("p90_ms", "step_times"), heading="p90"
    )
    step_ms_p99: float | None = _mean(
        "Their 99th percentile, ms", _entry("p99_ms", "step_times"), heading="p99"
    )
    steps_timed: float | None = _mean(
        "How many were timed", _entry("count", "step_times"), heading="steps"
    )
    staleness: float | None = _mean(
        "Mean staleness of asynchronous updates", _entry("mean", "staleness")
    )
    updates: float | None = _mean("Asynchronous updates", _entry("updates", "staleness"))
    eval_loss: float | None = _mean("Loss of the last evaluation", _eval_loss)
    gpu_percent: float | None = _mean(
        "Mean use of the GPUs, percent", _sensor("gpu_percent"), heading="GPU %"
    )
    memory_bytes: float | None = column(
        "Peak memory of the first device or process", _memory, largest
    )
    host_memory_bytes: float | None = _mean(
        "Peak memory of all processes", _sensor("run_memory_bytes", max)
    )
    watts: float | None = _mean(
        "Mean power of all devices", _sensor("gpu_power_watts"), heading="W"
    )
    energy_joules: float | None = _mean(
        "Energy of all devices", lambda log: _recorded_telemetry(log).energy_joules
    )
    data_bytes: float | None = _summed(
        "Bytes of the batches of all devices", "data_bytes", "train_seconds"
    )
    model_parameters: float | None = _first("Trained parameters", _entry("model_parameters"))
    model_multiply_adds: float | None = _first(
        "Multiply-adds of a forward pass of one sample", _entry("model_multiply_adds")
    )
    train_samples: float | None = _first("Samples of an epoch, as logged", _entry("train_samples"))
    learning_rate: float | None = _first(
        "Base learning rate, as logged", _entry("opt_base_learning_rate")
    )
    price: float | None = _first(
        "Price of a device for an hour, as logged",
        lambda log: number(_settings_of(log).price_per_device_hour),
    )
    note: str = _text("What a published result says of itself", lambda log: "", first)
    published_rate: float | None = _first("Samples per second of all devices, as published")
    gradients: GradientAllReduceInfo | None = column(
        "What the all-reduce of a step moves", _log("gradients"), first, shown=False
    )
    label_facts: tuple[Label, ...] = column(
        "Labels as data", lambda log: _settings_of(log).label_facts, unknown=(), shown=False
    )
    deviation_facts: tuple[Deviation, ...] = column(
        "Reasons for division open as data",
        lambda log: _settings_of(log).deviation_facts,
        unknown=(),
        shown=False,
    )
    machine_condition: str = _text(
        "`not busy`, or what made the machine a busy one; empty: not known",
        lambda log: condition_text((log.condition,)),
    )
    busy: Label | None = column(
        "Label of runs on a busy machine",
        lambda log: busy_label((log.condition,)),
        shown=False,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(Columns):
    """A run: the columns of its record, a row of the table of runs."""

    status: str = column(
        "`success`, or how it ended (docs/reference/run_folder.md)",
        _log("status"),
        unknown="success",
    )
    reason: str = _text("Why it is no success", _log("reason"))
    succeeded: bool = column("It did what was asked", _log("succeeded"), unknown=True)
    running: bool = column("It has not ended", _log("running"), unknown=False)
    copy_of: str = _text(
        "The log of the same run, as long or longer, that counts in its place", lambda log: ""
    )
    repeat_of: str = _text(
        "A log of the same run in its folder; both count, as in the official score", lambda log: ""
    )
    also_in: str = _text("Another entry that contains the same log; both count", lambda log: "")
    entry_problems: tuple[str, ...] = column(
        "Files beside the log that cannot be used, and why",
        _entry_value("problems", ()),
        unknown=(),
        shown=False,
    )
    seed: int | None = column("Seed, as logged", _log("seed"), kind="object")
    start_ms: float | None = column("`run_start`, milliseconds since 1970", _log("start_ms"))
    evaluations: int | None = column(
        "Evaluations", lambda log: len(log.evaluations) if log.has_log else None
    )
    condition: Condition | None = column("How busy the machine was", _log("condition"), shown=False)
    all_reduce: AllReduceTime | None = column(
        "Times of all-reduces, of a run that trained nothing", _log("all_reduce"), shown=False
    )
    record: RunRecord | None = column(
        "All that the log says", lambda log: log if log.has_log else None, shown=False
    )
    source: RunRecord | None = column(
        "The record, also of a run without a log; missing for published runs",
        lambda log: log,
        shown=False,
    )
    printed: Mapping[str, str] | None = column("Its line of a published file", shown=False)
    published_line: str = _text("File and number of this line", _no_value, shown=False)

    @property
    def key(self) -> str:
        """Path of the log, or name, workload, start, and length of a run without a log."""
        return self.path or f"{self.run}/{self.workload}/{self.start_ms}/{self.seconds}"


def epoch_columns(row: Columns) -> dict[str, float | int | None]:
    """Return the epochs to target in the column of their unit. The remaining columns are None.

    The columns are `epochs`, `samples_to_target`, and `tokens_to_target`.
    """
    columns: dict[str, float | int | None] = dict.fromkeys(EPOCH_COLUMNS.values())
    counts_epochs = row.epoch_unit == EPOCHS
    if row.epochs is not None:
        value = row.epochs if counts_epochs else round(row.epochs)
        columns[EPOCH_COLUMNS[row.epoch_unit]] = value
    return columns


def epochs_trained(run: Run) -> float | None:
    """Return the epochs that a run trained within its `seconds`.

    They include epochs after the target was reached.
    """
    trained = run.record.epochs_trained if run.record is not None else None
    return run.epochs if trained is None or run.epochs is None else trained


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(Columns):
    """Runs of one experiment and their score (suite.results.scores)."""

    runs_successful: int = scored("Runs that did what was asked", unknown=0, heading="runs")
    runs_failed: int = scored("Runs that did not", unknown=0, heading="failed")
    runs_required: int | None = scored(
        "Runs that the rules ask for; missing where none do", heading="required"
    )
    runs_retained: int = scored("Runs that the means are taken over", unknown=0)
    score_method: str = scored(
        "`olympic mean` (fastest and slowest dropped), `plain mean` (fewer than three runs),"
        " `single figure`",
        unknown="",
    )
    score_notes: tuple[str, ...] = scored(
        "Why it is not the official score, how a failed run was counted, in what its runs differ",
        unknown=(),
    )
    mixed_notes: tuple[str, ...] = scored(
        "Notes on settings and versions in which its runs differ", unknown=(), shown=False
    )
    seconds: float | None = scored(
        "Score: mean time to target of the retained runs, multiplied by `scaling_factor`",
        heading="time to target",
    )
    unscaled_seconds: float | None = scored(
        "Mean time to target of the retained runs, without `scaling_factor`"
    )
    epochs: float | None = scored("Mean epochs to target of the same runs", reported=True)
    seconds_per_epoch: float | None = scored(
        "Mean time of the blocks of the retained runs over their mean epochs: training and"
        " evaluation, no setup. For logs of other programs, and results without single runs, that"
        " of all time from `run_start`",
        heading="time per epoch",
    )
    seconds_over_epochs: float | None = scored(
        "Mean time of the retained runs from `run_start`, setup included, over their epochs"
    )
    seconds_setup: float | None = scored(
        "Part of `seconds` before the first block; missing where a log does not separate it",
        heading="setup",
    )
    seconds_training: float | None = scored(
        "Part of `seconds` in training steps, without waiting for data",
        heading="training",
    )
    seconds_data_wait: float | None = scored(
        "Part of `seconds` in which training waited for data",
        heading="waiting",
    )
    seconds_evaluation: float | None = scored(
        "Part of `seconds` in evaluations",
        heading="evaluation",
    )
    seconds_other: float | None = scored(
        "Rest of `seconds`: checkpoints, interruptions, time between blocks",
        heading="other",
    )
    seconds_minimum: float | None = scored("Fastest run, multiplied by `scaling_factor`")
    seconds_maximum: float | None = scored("Slowest run, multiplied by `scaling_factor`")
    seconds_standard_deviation: float | None = scored(
        "Sample standard deviation over all successful runs, multiplied by `scaling_factor`"
    )
    samples_per_second: float | None = scored(
        "All samples over all training seconds of all successful runs, evaluation aside",
        reported=True,
    )
    run_seconds: float | None = scored("Mean length of the successful runs, to a target or not")
    machine_condition: str = scored("`not busy`, or what made the machine a busy one", unknown="")
    key: str = ""
    """Digest of the experiment: stable between calls, and different for each result of one set of
    runs.
    """
    all_reduces: tuple[AllReduceTime, ...] = ()

    @property
    def parts(self) -> TimeParts | None:
        """The parts of `seconds`; None if the logs do not separate them."""
        values = [getattr(self, f"seconds_{name}") for name in TimeParts._fields]
        return None if None in values else TimeParts(*values)

    @property
    def device_count(self) -> int:
        """`devices` of a result from `with_time` or `with_size`, where it is known."""
        assert self.devices is not None
        return self.devices

    @property
    def global_batch(self) -> int:
        """`global_batch_size` of a result from `with_size`, where it is known."""
        assert self.global_batch_size is not None
        return self.global_batch_size

    @property
    def target_seconds(self) -> float:
        """`seconds` of a result from `with_time`, where it is known."""
        assert self.seconds is not None
        return self.seconds

    runs: tuple[Run, ...] = ()
    """The successful runs, in order of start."""
    attempts: tuple[Run, ...] = ()
    """All runs, failed ones included."""


AnyResult = TypeVar("AnyResult", bound=Result)


def with_size(results: Iterable[Result]) -> list[Result]:
    """Return the results with known devices and batch."""
    return [result for result in results if result.devices and result.global_batch_size]


def with_time(results: Iterable[Result]) -> list[Result]:
    """Return the results with a time to target on a known number of devices."""
    return [result for result in results if result.to_target and result.seconds and result.devices]


def _columns() -> Iterator[tuple[str, Column]]:
    """Yield the columns of a run: measured figures, then settings."""
    for item in sorted(fields(Run), key=lambda item: "column" not in item.metadata):
        column = item.metadata.get("column") or Column(
            f"Setting `{item.name}` (docs/reference/log_format.md: suite_run)", _setting(item)
        )
        yield item.name, column


def declared_fields(kind: type[Columns]) -> list[Field[Any]]:
    """Return the fields of a row that are not settings."""
    return [item for item in fields(kind) if "column" in item.metadata]


def kind_of(item: Field[Any]) -> str:
    """Return the kind of a field, a key of TYPES."""
    column = item.metadata.get("column")
    return (column.kind if column is not None else "") or _KINDS.get(str(item.type), "object")


def _setting(item: Field[Any]) -> Value:
    name = item.name

    def value(log: RunRecord) -> Any:
        setting = getattr(_settings_of(log), name)
        if name == "workload":
            return workload_name(setting)
        if name == "targets":
            return dict(sorted((log.targets if log.has_log else setting).items()))
        return (
            tuple(sorted(setting)) if name in ("labels", "deviations") else setting
        )  # equal for equal labels

    return value


COLUMNS: Mapping[str, Column] = dict(_columns())
"""Columns of a run by name, in order."""
_OF_RESULTS: Mapping[str, Column] = {
    item.name: item.metadata["column"] for item in declared_fields(Result)
}
SCORE_COLUMNS: Mapping[str, str] = {
    name: column.text
    for name, column in _OF_RESULTS.items()
    if column.value is None and column.shown
}
"""Columns that only results have, with their descriptions."""
HIDDEN = frozenset(
    (
        "key",
        "runs",
        "attempts",
        "all_reduces",
        *(name for name, column in {**COLUMNS, **_OF_RESULTS}.items() if not column.shown),
    )
)
"""Fields that hold objects of the program, which no table or file has."""
REPORTED = tuple(name for name, column in _OF_RESULTS.items() if column.reported)
HEADINGS: Mapping[str, str] = {
    name: column.heading for name, column in _OF_RESULTS.items() if column.heading
}
"""Headings that differ from the names."""


# --- the table
# --------------------------------------------------------------------------------------------------


def run_of(log: RunRecord) -> Run:
    """Return the columns of a record."""
    values: dict[str, Any] = {}
    for name, column in COLUMNS.items():
        if column.value is not None:
            value = column.value(log)
            values[name] = None if value != value else value  # NaN is an unknown value
    return Run(**values)


def run_of_log(log: RunRecord) -> Run:
    """Return the columns of a log that was read alone, to compare the settings of logs."""
    run = run_of(RunRecord(log.path, has_log=False, described_settings=log.settings, end=SUCCESS))
    return replace(
        run, targets=log.targets, hyperparameters=log.hyperparameters, division=log.division
    )


def frame(rows: Iterable[Columns], kind: type[Columns] = Run) -> pd.DataFrame:
    """Return rows as a table with the types of their fields, without the objects of the program."""
    import pandas as pd

    listed = list(rows)
    kinds = {item.name: TYPES[kind_of(item)] for item in fields(kind)}
    names = [name for name in (COLUMNS if kind is Run else kinds) if name not in HIDDEN]
    return pd.DataFrame(
        {
            name: pd.Series([getattr(row, name) for row in listed], dtype=kinds[name])
            for name in names
        }
    )
