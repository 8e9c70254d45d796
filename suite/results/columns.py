"""Declares the columns of `Run` and `Result`, and converts a log's record to a `Run`.

Every column of the results is declared in this module. A declaration contains a description, a
function that computes the column for a run, a function that combines the values of several runs, a
heading, and a flag for reports (docs/dev/add_a_column.md). Names of times and counters include the
unit. Unknown values are None.
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

if TYPE_CHECKING:  # Importing pandas takes 0.5 s, and only commands that print tables need pandas.
    import pandas as pd

EPOCHS = "epochs"
"""`epoch_unit` of most workloads."""
EPOCH_COLUMNS: Mapping[str, str] = {
    EPOCHS: "epochs",
    "samples": "samples_to_target",
    "tokens": "tokens_to_target",
}
"""Unit of the epochs to target to the column of a table that shows them."""
OURS = "ours"
"""Value of the column `round` for runs of this suite."""
TYPES = {
    "text": "object",
    "number": "float64",
    "count": "Int64",
    "flag": "bool",
    "object": "object",
}
"""DataFrame dtype of each column kind."""
_KINDS = {
    "str": "text",
    "float | None": "number",
    "int": "count",
    "int | None": "count",
    "bool": "flag",
}
"""Column kind by the type annotation of the field.

Columns with other type annotations have the kind `object`.
"""
Value = Callable[[RunRecord], Any]
"""Function that computes a column's value from the record of a run."""


BUSY, QUIET = LabelKind.BUSY.value, "not busy"


def busy_label(conditions: Sequence[Condition | None]) -> Label | None:
    """Return the label of runs on a busy machine.

    The label describes the load of the run with the highest load from other processes. The function
    returns None if no machine was busy.
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
    """Return the text of `busy_label`, or `not busy`.

    The text is empty if no machine is recorded as busy, but the load of at least one run was not
    recorded.
    """
    label = busy_label(conditions)
    if label is not None:
        return clean(label.text, 120)
    return QUIET if conditions and None not in conditions else ""


# Columns of a run


def _settings_of(log: RunRecord) -> RunSettings:
    return log.described_settings or RunSettings()


def _log(name: str) -> Value:
    return lambda log: getattr(log, name)


def _entry(name: str, of: str = "logged") -> Value:
    return lambda log: number(getattr(log, of).get(name))


def _blocks(name: str, *needed: str) -> Value:
    """Return a function that sums a field over the blocks that have the `needed` fields."""
    return lambda log: total(where_all_known(log.throughput, *needed), name)


def _step_ms(log: RunRecord) -> float | None:
    """Return the mean step time in ms.

    If the log contains individually timed steps, the mean is computed over these steps. Otherwise
    the mean is the training time of all blocks divided by the number of steps.
    """
    seconds = math.fsum(
        block.train_seconds or 0.0 for block in log.throughput if block.step is not None
    )
    segments = seconds * 1e3 / log.timed_steps if log.timed_steps and seconds > 0 else None
    return log.step_times.get("mean_ms", segments)


_telemetry = lru_cache(maxsize=8)(telemetry)


def _recorded_telemetry(log: RunRecord) -> RecordedTelemetry:
    """Return the telemetry of a run of this suite, or empty telemetry for foreign runs."""
    whole = (
        log.settings.profile and not log.resumptions
    )  # The telemetry of a resumed run covers only the steps after the last resumption.
    return (_telemetry(log.path.parent) if whole else None) or RecordedTelemetry((), {})


def _sensor(name: str, of: Callable[[Sequence[float]], float] = statistics.fmean) -> Value:
    """Return a function that aggregates a sensor's readings in a run with `of`."""

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
    """Return the training throughput of a run in each additional unit, such as `tokens`."""
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
    """Return a function that reads a field of `BlockTimes`.

    The function returns None if the log has no blocks.
    """
    return lambda log: getattr(log.block_times, name, None)


def _hyperparameters(log: RunRecord) -> dict[str, Any]:
    """Return the logged hyperparameters.

    The seed and hyperparameters that have a separate column are excluded.
    """
    return {name: value for name, value in log.hyperparameters.items() if name not in BOOKKEEPING}


def _no_value(log: RunRecord) -> None:
    """Return None as the default for columns that only published files fill."""


def _is_ours(log: RunRecord) -> bool:
    return log.described_settings is None or bool(log.described_settings.profile)


def _round(log: RunRecord) -> str:
    return OURS if _is_ours(log) else _settings_of(log).rules


def _folder(log: RunRecord) -> str:
    """Return the folder of a log of another program.

    The string is empty for a run of this suite.
    """
    return str(log_folder(log.path)) if log.has_log and not _is_ours(log) else ""


def _is_one_submission(log: RunRecord) -> bool:
    """Check whether all logs in the folder of a submission belong to the same result.

    The logs of a submitted result may have different settings.
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
    """Return a function that reads a field of a run's submission (`Entry`).

    For a run without a submission, the function returns `unknown`.
    """
    return lambda log: unknown if log.entry is None else getattr(log.entry, name)


# --- the columns
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Definition of a column of the results.

    The definition has a description, a function for the value of a run, and a function that
    combines the values of several runs.
    """

    text: str
    value: Callable[..., Any] | None
    """Function that computes the column from a record (`Value`), or from a result in a study.

    None for columns that only results have.
    """
    combine: Combine | None = None
    """Function that combines the values of several runs. None if results do not have the column,
    or if all runs of a result have the same value.
    """
    shown: bool = True
    """False for columns that contain Python objects. Such columns are not written to files."""
    kind: str = ""
    """Key of TYPES. If empty, the type annotation of the field determines the column kind."""
    heading: str = ""
    """Heading in tables and studies. If empty, the heading is derived from the column name."""
    reported: bool = False
    """True if the tables of `suite report` show the column."""


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
        value: Function that computes the column for a run. The default is for columns that only
            published files fill.
        combine: Function that combines the values of several runs into the value of their result.
        unknown: Default of the field, which represents an unknown value.
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
"""Declares a column that only results have, or that has a different meaning for results than for
runs.
"""


def _summed(text: str, name: str, *needed: str) -> Any:
    return column(text, _blocks(name, *needed), total)


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns(RunSettings):
    """Columns that both runs and results have.

    Instances are compared by identity.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def key(self) -> str:
        """Return a stable identifier that is unique within one set of runs."""
        raise NotImplementedError

    run: str = _text("Path of the run, relative to the folder that the command reads", _log("name"))
    path: str = _text(
        "Path of the log, or of the run folder if the run has no log", lambda log: str(log.path)
    )
    round: str = _text("`ours`, a published round (`v0.7`), `not known`, or `dgx1-article`", _round)
    submitter: str = _text(
        "Submitter of a foreign result, according to its folders, system description, or log",
        _submitter,
    )
    division: str = _text(
        "`closed` or `open`, according to the system description, the folders, or the log",
        _division,
    )
    folder: str = _text(
        "Folder of a log from another program. All logs in the folder form one result", _folder
    )
    is_submission: bool = column(
        "True if all logs in the folder form one result, because the folder is part of a submission"
        " or the log is named `result_*.txt`",
        _is_one_submission,
        unknown=False,
    )
    benchmark: str = _text("Name of the benchmark in the MLPerf rules", _log("benchmark"))
    published: bool = column(
        "True if the run is part of logs/published", lambda log: False, unknown=False
    )
    single_figure: bool = column(
        "True if the publication gives a single number without runs",
        lambda log: False,
        unknown=False,
    )
    to_target: bool = column(
        "True if the run was configured to end at the target",
        lambda log: _settings_of(log).to_target,
        unknown=True,
    )
    hyperparameters: Mapping[str, Json] = column(
        "Logged hyperparameters, according to the definition of the MLPerf rules",
        _hyperparameters,
        unknown={},
    )
    seconds: float | None = column(
        "Time from `run_start` to `run_stop`, which is the time to target of a successful run. It"
        " includes the interruptions of a resumed run",
        _log("seconds"),
    )
    scaling_factor: float | None = column(
        "Factor in the `scaling.json` next to the log, by which the times of the result are"
        " multiplied",
        _entry_value("scaling_factor", None),
        common_value,
        reported=True,
    )
    interrupted_seconds: float | None = _mean(
        "Part of `seconds` between an interruption and the resumption of the run",
        _log("interrupted_seconds"),
    )
    setup_seconds: float | None = _mean(
        "Seconds from `run_start` to the first block", _block_time("setup_seconds")
    )
    block_seconds: float | None = _mean(
        "Seconds of all blocks: training and evaluation", _block_time("block_seconds")
    )
    checkpoint_seconds: float | None = _mean(
        "Seconds spent on writing checkpoints. `train_seconds` does not include them",
        _log("checkpoint_seconds"),
    )
    epochs: float | None = column(
        "Epochs until the target was reached, or samples or tokens according to `epoch_unit`",
        _log("epochs_to_target"),
    )
    epoch_unit: str = column(
        "Unit of `epochs`: `epochs`, or `samples` or `tokens` for some workloads",
        lambda log: log.settings.epoch_unit,
        unknown=EPOCHS,
    )
    quality: float | None = _mean(
        "Value of the first metric in the last evaluation",
        lambda log: next(iter(log.quality.values()), None),
    )
    samples: float | None = _summed(
        "Number of samples that the run trained on", "samples", "train_seconds"
    )
    train_seconds: float | None = _summed(
        "Seconds of all training steps, without evaluations", "train_seconds", "samples"
    )
    evaluation_seconds: float | None = _summed(
        "Seconds of all evaluations", "evaluation_seconds", "train_seconds", "data_wait_seconds"
    )
    data_wait_seconds: float | None = _summed(
        "Seconds that training waited for data", "data_wait_seconds", "train_seconds"
    )
    timed_seconds: float | None = _summed(
        "Training seconds of the blocks whose time of waiting for data is logged",
        "train_seconds",
        "data_wait_seconds",
    )
    steps: int | None = column(
        "Optimizer steps in `train_seconds`", lambda log: log.timed_steps or None, total
    )
    data_wait_share: float | None = column(
        "Time of waiting for data, divided by the training time",
        combine=share_of("data_wait_seconds", ["timed_seconds"]),
        heading="data wait",
    )
    evaluation_share: float | None = column(
        "Evaluation time, divided by the time of training and evaluation",
        combine=share_of("evaluation_seconds", ["evaluation_seconds", "timed_seconds"]),
    )
    further_rates: Mapping[str, float] = column(
        "Further units of throughput, such as `tokens`, with their number per second of training",
        _further_rates,
        _mean_rates,
        {},
    )
    step_ms: float | None = column(
        "Mean time of a step in milliseconds", _step_ms, over_steps, heading="ms/step"
    )
    step_ms_deviation: float | None = _mean(
        "Standard deviation of the step times in milliseconds, if steps are timed separately",
        _entry("sd_ms", "step_times"),
        heading="sd",
    )
    step_ms_median: float | None = _mean(
        "Median of the step times in milliseconds, if steps are timed separately",
        _entry("median_ms", "step_times"),
        heading="median",
    )
    step_ms_p90: float | None = _mean(
        "90th percentile of the step times in milliseconds",
        _entry("p90_ms", "step_times"),
        heading="p90",
    )
    step_ms_p99: float | None = _mean(
        "99th percentile of the step times in milliseconds",
        _entry("p99_ms", "step_times"),
        heading="p99",
    )
    steps_timed: float | None = _mean(
        "Number of steps that were timed separately", _entry("count", "step_times"), heading="steps"
    )
    staleness: float | None = _mean(
        "Mean staleness of the asynchronous updates", _entry("mean", "staleness")
    )
    updates: float | None = _mean("Number of asynchronous updates", _entry("updates", "staleness"))
    eval_loss: float | None = _mean("Loss in the last evaluation", _eval_loss)
    gpu_percent: float | None = _mean(
        "Mean utilization of the GPUs in percent", _sensor("gpu_percent"), heading="GPU %"
    )
    memory_bytes: float | None = column(
        "Peak memory of the first GPU, or of the first process on CPUs, in bytes", _memory, largest
    )
    host_memory_bytes: float | None = _mean(
        "Peak memory of all processes in bytes", _sensor("run_memory_bytes", max)
    )
    watts: float | None = _mean(
        "Mean power of all devices in watts", _sensor("gpu_power_watts"), heading="W"
    )
    energy_joules: float | None = _mean(
        "Energy that all devices used, in joules",
        lambda log: _recorded_telemetry(log).energy_joules,
    )
    data_bytes: float | None = _summed(
        "Size of the training batches of all devices in bytes", "data_bytes", "train_seconds"
    )
    model_parameters: float | None = _first(
        "Number of trained parameters", _entry("model_parameters")
    )
    model_multiply_adds: float | None = _first(
        "Number of multiply-adds in the forward pass of one sample", _entry("model_multiply_adds")
    )
    train_samples: float | None = _first(
        "Logged number of samples in an epoch", _entry("train_samples")
    )
    learning_rate: float | None = _first(
        "Logged base learning rate", _entry("opt_base_learning_rate")
    )
    price: float | None = _first(
        "Logged price of a device per hour",
        lambda log: number(_settings_of(log).price_per_device_hour),
    )
    note: str = _text("Note in the publication of the result", lambda log: "", first)
    published_rate: float | None = _first("Published samples per second of all devices")
    gradients: GradientAllReduceInfo | None = column(
        "Size of the gradients that the all-reduce of a step sums",
        _log("gradients"),
        first,
        shown=False,
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
        "`not busy`, or the reasons why the machine counts as busy. Empty if the load is unknown",
        lambda log: condition_text((log.condition,)),
    )
    busy: Label | None = column(
        "Label of runs on a busy machine",
        lambda log: busy_label((log.condition,)),
        shown=False,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(Columns):
    """Columns of a run, which form a row in the table of runs."""

    status: str = column(
        "`success`, or the status of a run that failed (docs/reference/run_folder.md)",
        _log("status"),
        unknown="success",
    )
    reason: str = _text("Reason why the run failed", _log("reason"))
    succeeded: bool = column(
        "True if the run reached its target, or completed its fixed length",
        _log("succeeded"),
        unknown=True,
    )
    running: bool = column("True if the run has not ended", _log("running"), unknown=False)
    copy_of: str = _text(
        "Path of a log of the same run that is at least as long. Reports use that log instead",
        lambda log: "",
    )
    repeat_of: str = _text(
        "Path of a log of the same run in the same folder. Both logs count, as in MLPerf's score",
        lambda log: "",
    )
    also_in: str = _text("Entry that contains the same log. Both entries count", lambda log: "")
    entry_problems: tuple[str, ...] = column(
        "Files next to the log that cannot be used, with the reasons",
        _entry_value("problems", ()),
        unknown=(),
        shown=False,
    )
    seed: int | None = column("Logged seed", _log("seed"), kind="object")
    start_ms: float | None = column(
        "Time of `run_start` in milliseconds since 1970", _log("start_ms")
    )
    evaluations: int | None = column(
        "Number of evaluations", lambda log: len(log.evaluations) if log.has_log else None
    )
    condition: Condition | None = column(
        "Load of the machine during the run", _log("condition"), shown=False
    )
    all_reduce: AllReduceTime | None = column(
        "Times of all-reduces in a run of the workload allreduce", _log("all_reduce"), shown=False
    )
    record: RunRecord | None = column(
        "The parsed log", lambda log: log if log.has_log else None, shown=False
    )
    source: RunRecord | None = column(
        "The record of the run, even if the run has no log. None for published runs",
        lambda log: log,
        shown=False,
    )
    printed: Mapping[str, str] | None = column(
        "Row of the run in a file of logs/published", shown=False
    )
    published_line: str = _text("File and line number of this row", _no_value, shown=False)

    @property
    def key(self) -> str:
        """Return the path of the log.

        For a run without a log, the key is built from the run's name, workload, start time, and
        duration.
        """
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
    """Return the number of epochs that a run trained within its `seconds`.

    Epochs after the target was reached are included.
    """
    trained = run.record.epochs_trained if run.record is not None else None
    return run.epochs if trained is None or run.epochs is None else trained


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(Columns):
    """Runs of an experiment and their combined score (suite.results.scores)."""

    runs_successful: int = scored("Number of successful runs", unknown=0, heading="runs")
    runs_failed: int = scored("Number of failed runs", unknown=0, heading="failed")
    runs_required: int | None = scored(
        "Number of runs that the rules require. Missing if no rules apply", heading="required"
    )
    runs_retained: int = scored("Number of runs over which the means are computed", unknown=0)
    score_method: str = scored(
        "`olympic mean` (without the fastest and the slowest run), `plain mean` (fewer than three"
        " runs), or `single figure`",
        unknown="",
    )
    score_notes: tuple[str, ...] = scored(
        "Reasons why the score is not official, how a failed run counts, and the settings in which"
        " the runs differ",
        unknown=(),
    )
    mixed_notes: tuple[str, ...] = scored(
        "Notes on settings and versions in which the runs of the result differ",
        unknown=(),
        shown=False,
    )
    seconds: float | None = scored(
        "Score: mean time to target of the retained runs, multiplied by `scaling_factor`",
        heading="time to target",
    )
    unscaled_seconds: float | None = scored(
        "Mean time to target of the retained runs, without `scaling_factor`"
    )
    epochs: float | None = scored(
        "Mean number of epochs to target of the retained runs", reported=True
    )
    seconds_per_epoch: float | None = scored(
        "Mean time of training and evaluation of the retained runs, divided by their mean number of"
        " epochs. For logs of other programs, the time also includes the setup",
        heading="time per epoch",
    )
    seconds_over_epochs: float | None = scored(
        "Mean time of the retained runs from `run_start`, including the setup, divided by their"
        " mean number of epochs"
    )
    seconds_setup: float | None = scored(
        "Part of `seconds` before the first block. Missing if the logs do not separate the setup",
        heading="setup",
    )
    seconds_training: float | None = scored(
        "Part of `seconds` in training steps, without the time of waiting for data",
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
        "Remaining part of `seconds`: checkpoints, interruptions, and time between blocks",
        heading="other",
    )
    seconds_minimum: float | None = scored(
        "Time to target of the fastest run, multiplied by `scaling_factor`"
    )
    seconds_maximum: float | None = scored(
        "Time to target of the slowest run, multiplied by `scaling_factor`"
    )
    seconds_standard_deviation: float | None = scored(
        "Sample standard deviation of the times of all successful runs, multiplied by"
        " `scaling_factor`"
    )
    samples_per_second: float | None = scored(
        "Number of samples of all successful runs, divided by their time in training steps",
        reported=True,
    )
    run_seconds: float | None = scored(
        "Mean length of the successful runs, with or without a target"
    )
    machine_condition: str = scored(
        "`not busy`, or the reasons why the machine counts as busy", unknown=""
    )
    key: str = ""
    """Digest of the experiment's settings. The digest is stable between calls and unique within one
    set of runs.
    """
    all_reduces: tuple[AllReduceTime, ...] = ()

    @property
    def parts(self) -> TimeParts | None:
        """Return the breakdown of `seconds`, or None if the logs do not contain the breakdown."""
        values = [getattr(self, f"seconds_{name}") for name in TimeParts._fields]
        return None if None in values else TimeParts(*values)

    @property
    def device_count(self) -> int:
        """Return `devices`, which must not be None.

        The results of `with_time` and `with_size` meet this condition.
        """
        assert self.devices is not None
        return self.devices

    @property
    def global_batch(self) -> int:
        """Return `global_batch_size`, which must not be None.

        The results of `with_size` meet this condition.
        """
        assert self.global_batch_size is not None
        return self.global_batch_size

    @property
    def target_seconds(self) -> float:
        """Return `seconds`, which must not be None.

        The results of `with_time` meet this condition.
        """
        assert self.seconds is not None
        return self.seconds

    runs: tuple[Run, ...] = ()
    """The successful runs, in order of start time."""
    attempts: tuple[Run, ...] = ()
    """All runs in order of start time, including failed runs."""


AnyResult = TypeVar("AnyResult", bound=Result)


def with_size(results: Iterable[Result]) -> list[Result]:
    """Return the results whose number of devices and global batch size are recorded."""
    return [result for result in results if result.devices and result.global_batch_size]


def with_time(results: Iterable[Result]) -> list[Result]:
    """Return the results with a time to target and a recorded number of devices."""
    return [result for result in results if result.to_target and result.seconds and result.devices]


def _columns() -> Iterator[tuple[str, Column]]:
    """Yield the columns of a run, with the measurements before the settings."""
    for item in sorted(fields(Run), key=lambda item: "column" not in item.metadata):
        column = item.metadata.get("column") or Column(
            f"Setting `{item.name}` (docs/reference/log_format.md: suite_run)", _setting(item)
        )
        yield item.name, column


def declared_fields(kind: type[Columns]) -> list[Field[Any]]:
    """Return the dataclass fields of `Run` or `Result` that are not settings."""
    return [item for item in fields(kind) if "column" in item.metadata]


def kind_of(item: Field[Any]) -> str:
    """Return the column kind of a field, which is a key of TYPES."""
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
        )  # Label objects with equal fields compare equal.

    return value


COLUMNS: Mapping[str, Column] = dict(_columns())
"""Columns of a run by name, in the order of the table."""
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
"""Fields that contain Python objects and are therefore not written to tables or files."""
REPORTED = tuple(name for name, column in _OF_RESULTS.items() if column.reported)
HEADINGS: Mapping[str, str] = {
    name: column.heading for name, column in _OF_RESULTS.items() if column.heading
}
"""Maps columns to their headings, for headings that differ from the column name."""


# --- the table
# --------------------------------------------------------------------------------------------------


def run_of(log: RunRecord) -> Run:
    """Convert the record of a log to a `Run`."""
    values: dict[str, Any] = {}
    for name, column in COLUMNS.items():
        if column.value is not None:
            value = column.value(log)
            values[name] = None if value != value else value  # NaN means unknown
    return Run(**values)


def run_of_log(log: RunRecord) -> Run:
    """Convert the record of a single log to a `Run`, to compare the log's settings."""
    run = run_of(RunRecord(log.path, has_log=False, described_settings=log.settings, end=SUCCESS))
    return replace(
        run, targets=log.targets, hyperparameters=log.hyperparameters, division=log.division
    )


def frame(rows: Iterable[Columns], kind: type[Columns] = Run) -> pd.DataFrame:
    """Return runs or results as a DataFrame with the dtypes in TYPES.

    Columns that contain Python objects are omitted.
    """
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
