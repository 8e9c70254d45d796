"""Classes for the content of a log, as typed and frozen data."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from suite.catalog.deviations import Deviation, deviation_of_text
from suite.common.labels import Label, LabelKind, label_of_text
from suite.common.run_end import EndCode, EndStatus, RunEnd
from suite.results.directions import improves_as_it_falls
from suite.results.entry import Entry
from suite.results.logs.all_reduce import AllReduceTime
from suite.results.logs.blocks import BlockTimes
from suite.results.logs.events import Problem
from suite.results.logs.keys import is_hyperparameter
from workloads.api import GradientAllReduceInfo, Json, LoggedSettings, setting


@dataclass(frozen=True, kw_only=True)
class RunSettings(LoggedSettings):
    """Settings of a run.

    In a log of this suite, the settings are the `suite_run` object, whose keys are the field names.
    In a log of another program, `workload` is the name of the benchmark, `system` is the submission
    platform, and `profile` is empty.
    """

    clock: str = ""
    """Rule that determines when the clock of a run starts.

    The clock starts before the model is built (`v0.5`), or after at most 20 minutes of setup
    (`v0.7`).
    """
    first_epoch: int | None = setting(None, experiment_key=False)
    """Number of the first epoch (0 or 1), which the round determines."""
    ruleset: str = setting("", experiment_key=False)
    """Name of the mlperf-logging ruleset that checks logs of the round.

    The name is empty in logs of older suite versions, and for rounds without a ruleset.
    """
    framework_version: str = ""
    system: str = ""
    device_name: str = ""
    thread_waiting: str = ""
    """Setting that determines how idle CPU threads wait, such as `GOMP_SPINCOUNT=1000`. Empty
    for the default of the thread runtime.
    """
    environment_variables: Mapping[str, str] = setting({}, hashed=False)
    """Environment variables with which the user tuned the workers, without secrets."""
    data_fingerprint: str = ""
    sample_unit: str = ""
    batch_unit: str = ""
    """Unit of `global_batch_size`, such as `samples` or `tokens`. Empty for samples or an unknown
    unit.
    """
    labels: tuple[str, ...] = ()
    """Labels of the run as display texts (`suite.common.labels`)."""
    deviations: tuple[str, ...] = ()
    """Reasons why the run is in the open division, as display texts
    (`suite.catalog.deviations`).
    """
    label_facts: tuple[Label, ...] = setting((), experiment_key=False, hashed=False)
    """Labels in structured form. Empty in logs of older suite versions, which contain only the
    display texts (see `parsed_labels`).
    """
    deviation_facts: tuple[Deviation, ...] = setting((), experiment_key=False, hashed=False)
    """Reasons for the open division in structured form. Empty in logs of older suite versions,
    which contain only the display texts (see `parsed_deviations`).
    """
    run_index: int | None = setting(None, experiment_key=False)
    runs_required: int | None = setting(None, experiment_key=False)
    """Number of runs that the rules require for a result."""
    suite_version: str = setting("", experiment_key=False)
    git_commit: str = setting("", experiment_key=False)
    study: str = setting("", experiment_key=False)
    study_cell: tuple[str, ...] = setting((), experiment_key=False)
    """Values of the study's axes for this run, each as `key=value`."""
    price_per_device_hour: str = setting("", experiment_key=False)
    """Price per device-hour as a decimal string. Empty if the price is unknown."""

    @property
    def parsed_labels(self) -> tuple[Label, ...]:
        """Return the labels in structured form.

        For logs that contain only display texts, the texts are parsed.
        """
        if len(self.label_facts) == len(self.labels):
            return self.label_facts
        return tuple(map(label_of_text, self.labels))

    @property
    def parsed_deviations(self) -> tuple[Deviation, ...]:
        """Return the reasons for the open division in structured form.

        For logs that contain only display texts, the texts are parsed.
        """
        if len(self.deviation_facts) == len(self.deviations):
            return self.deviation_facts
        return tuple(map(deviation_of_text, self.deviations))

    def has_label(self, *kinds: LabelKind) -> bool:
        """Check whether the settings have a label of one of these kinds."""
        return any(label.kind in kinds for label in self.parsed_labels)


FACTS = ("label_facts", "deviation_facts")
"""Fields that contain `labels` and `deviations` in structured form. Tables and pages show the
display texts instead.
"""

NO_FIGURES: Mapping[str, float] = MappingProxyType({})
"""Empty mapping that all evaluations without scores share. A log may have a million evaluations,
so a separate mapping for each would waste memory.
"""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation in a log, with the values of its metrics."""

    line: int
    seconds: float
    """Seconds since `run_start`."""
    epoch: float | None
    """Epoch label in the log. Labels start at 1 in v0.6 and later, and at 0, 1, or -1 in v0.5."""
    epochs_begun: int
    """Number of epochs that started before this evaluation."""
    quality: Mapping[str, float]
    """Values of the metrics with a target, in the units of the log."""
    scores: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Values of the metrics without a target."""
    samples: float | None = None
    """Number of samples trained before this evaluation, if the log counts training in samples."""

    @property
    def values(self) -> dict[str, float]:
        """Return all metrics. The metrics with a target come first."""
        return {**self.quality, **self.scores}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Content of a `tracked_stats` record.

    The record describes a block of training and the evaluation after the block.
    """

    line: int
    seconds: float | None
    """Seconds since `run_start`, or None if the log does not contain the time."""
    step: int | None
    """Number of optimizer steps from the start of the run to the end of the block."""
    samples_per_second: float | None
    samples: float | None
    """Number of training samples in this block."""
    train_seconds: float | None
    evaluation_seconds: float | None
    data_wait_seconds: float | None
    loss: float | None
    data_bytes: float | None = None
    """Total size in bytes of the batches of all devices in this block."""
    rates: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Throughput per second in additional units of the workload, such as `tokens`."""
    scores: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Metrics without a target in the evaluation of this block, such as a validation loss."""


@dataclass(frozen=True)
class Condition:
    """Load of the machine during a run (`suite_condition`, docs/reference/log_format.md)."""

    busy: tuple[str, ...] = ()
    """Reasons why the machine was classified as busy, as short phrases."""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """Data of a run from its log. The default values describe a log without records."""

    path: Path = Path()
    """Path of the log, or the folder of a run without a log."""
    name: str = ""
    """Job and run as a path relative to the searched folder. Empty if a single log was read."""
    has_log: bool = True
    """False if the log is missing or cannot be opened."""
    entry: Entry | None = None
    """Submission to which the folder of the log belongs. The field is set after all folders have
    been read.
    """
    described_settings: RunSettings | None = None
    """`settings`, completed with values from other sources. The sources are another run of the same
    job, the entry, and published results. None if the settings are unknown, or if a single log was
    read.
    """
    format: str = ""
    """Line format: `MLLOG`, `MLL`, `MLPv0.5.0`, or `MLPerf` (dated lines). Empty if the file has no
    record.
    """
    benchmark: str = ""
    """Value of `submission_benchmark`, which is the name in the MLPerf rules.

    The name `ssd` may stand for RetinaNet. In this case, `settings.workload` has the correct name.
    """
    org: str = ""
    division: str = ""
    """Value of `submission_division`. A resumed run of this suite is always `open`."""
    submission_status: str = ""
    platform: str = ""
    settings: RunSettings = RunSettings()
    seed: int | None = None
    start_ms: float | None = None
    """Time of `run_start` in milliseconds since 1970."""
    seconds: float | None = None
    """Time from `run_start` to `run_stop` in seconds, including interruptions.

    For MiniGo v0.6, the time is read from `eval_result`. None if the log does not contain the time.
    """
    end: RunEnd = RunEnd(EndStatus.UNREADABLE, EndCode.NO_RECORD)
    """Outcome of the run, according to its log.

    The status is SUCCESS, ABORTED, FAILED (a claimed success is wrong, or a value is implausible),
    TRUNCATED (no `run_stop`), or UNREADABLE (no record). If the log is unfinished and its folder
    contains a `status.json`, the outcome is read from `status.json`.
    """
    targets: Mapping[str, float] = field(default_factory=dict)
    targets_source: str = ""
    """Source of the targets: `log`, or `rules` if the log has no targets but its round has official
    targets. Empty if the targets are unknown.
    """
    evaluations: tuple[Evaluation, ...] = ()
    """Evaluations until `run_stop`, in order of time."""
    epochs_to_target: float | None = None
    """Number of epochs that were trained when the target was reached.

    The unit is `settings.epoch_unit`, so the number may be a number of samples. None if the target
    was not reached, or if the log contradicts itself.
    """
    epochs_trained: float | None = None
    """Number of epochs that were trained until `run_stop`.

    This number is larger than `epochs_to_target` if the run continued after the target was reached.
    None if `epochs_to_target` is None.
    """
    quality: Mapping[str, float] = field(default_factory=dict)
    """Quality of the last evaluation.

    The quality may be NaN after a diverged run, although `evaluations` contains only finite values.
    """
    throughput: tuple[Throughput, ...] = ()
    logged: Mapping[str, Json] = field(default_factory=dict)
    """First value of each key without a field of its own, if the value is a number, a string, or a
    short list. `hyperparameters` is a subset of these keys.
    """
    batch_logged: int | None = None
    """Logged number of samples per optimizer step. For Transformer, the number of tokens."""
    digest: str = ""
    """Hash of the text of all records. Copies of a log have the same hash. Empty if the log has no
    record.
    """
    batch_basis: str = ""
    """`global`, or a note that `batch_logged` of a v0.5 log may be the batch size of a single
    device. Empty if no batch size is logged.
    """

    resumptions: int = 0
    """Number of resumptions from a checkpoint (`suite_continued`)."""
    interrupted_seconds: float = 0.0
    """Fraction of `seconds` in seconds that the run was interrupted. An interruption lasts from the
    last record before it to the resumption.
    """
    block_times: BlockTimes | None = None
    """Setup time and block time. None for logs of other programs and for unfinished runs."""
    checkpoint_seconds: float = 0.0
    """Time in seconds, within `seconds`, in which checkpoints were written."""
    condition: Condition | None = None
    """Load of the machine during the run. None if the log has no `suite_condition` record."""
    step_times: Mapping[str, float] = field(default_factory=dict)
    """Step time statistics of runs with `timing=steps` (`suite_step_times`): `count`, `mean_ms`,
    …
    """
    step_times_by: str = ""
    """Method by which `step_times` were measured."""
    all_reduce: AllReduceTime | None = None
    """All-reduce times of a run that measured all-reduces instead of training a model."""
    gradients: GradientAllReduceInfo | None = None
    """Size of the gradients that are summed by all-reduce in each step (`suite_gradients`)."""
    staleness: Mapping[str, float] = field(default_factory=dict)
    """Staleness statistics of runs with `update=async` (`suite_staleness`): `updates`, `mean`,
    `most`.
    """
    problems: tuple[Problem, ...] = ()
    """Problems with line numbers: unreadable lines, contradictions, and deviations from the log
    format.
    """

    @property
    def status(self) -> str:
        """Return the name of the outcome.

        The names are `success`, `aborted`, `failed`, `truncated`, and `unreadable`.
        """
        return self.end.status.value

    @property
    def reason(self) -> str:
        """Return the reason for the outcome as a sentence.

        The sentence is empty for a successful run.
        """
        return self.end.detail

    @functools.cached_property
    def hyperparameters(self) -> Mapping[str, Json]:
        """Return the logged values that must be equal in all runs of an experiment."""
        is_suite_log = bool(self.settings.profile)
        return {
            key: value for key, value in self.logged.items() if is_hyperparameter(key, is_suite_log)
        }

    def epochs_at(self, evaluation: Evaluation) -> float | None:
        """Return the number of epochs that were trained before an evaluation.

        If the round numbers epochs from 1, the epoch label is returned. Otherwise the number of
        started epochs is returned. If the log counts training in samples, the number of samples is
        returned.
        """
        if self.settings.epoch_unit == "samples":
            return evaluation.samples
        return (
            float(evaluation.epochs_begun) if self.settings.first_epoch == 0 else evaluation.epoch
        )

    @property
    def timed_steps(self) -> int:
        """Return the number of optimizer steps in the timed training blocks, without warm-up."""
        steps = (block.step or 0 for block in self.throughput if block.train_seconds is not None)
        return max(0, max(steps, default=0) - self.settings.timing_warmup_steps)

    @property
    def best_quality(self) -> Mapping[str, float]:
        """Return the quality of the evaluation with the best value of the first metric.

        The mapping is empty if the log has no evaluations.
        """
        qualities = [evaluation.quality for evaluation in self.evaluations]
        if not qualities:
            return {}
        metric = next(iter(self.targets), next(iter(qualities[0])))
        best = (
            min
            if improves_as_it_falls(metric, self.benchmark, self.settings.falling_metrics)
            else max
        )
        with_metric = [quality for quality in qualities if metric in quality]
        return best(
            with_metric or qualities,
            key=lambda quality: quality.get(metric, next(iter(quality.values()))),
        )

    @property
    def succeeded(self) -> bool:
        """Return True if the log shows that the run reached its target or requested length."""
        return self.end.status is EndStatus.SUCCESS

    @property
    def running(self) -> bool:
        """Return True if the run has not ended.

        A run whose controller was killed on another machine is also reported as running if the
        controller process is not visible from this machine.
        """
        return self.end.status is EndStatus.RUNNING

    @property
    def finished(self) -> bool:
        """Return True if the run reached its target or its requested length."""
        if self.start_ms is None or self.seconds is None:
            return False
        if self.settings.to_target:
            return self.end.status is EndStatus.SUCCESS
        return (
            self.end.status in (EndStatus.SUCCESS, EndStatus.ABORTED)
            and self.end.code is EndCode.NONE
        )
