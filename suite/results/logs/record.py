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
    In a foreign log, `workload` is the name of the benchmark, `system` is the submission platform,
    and `profile` is empty.
    """

    clock: str = ""
    """Start of the timed part of a run, according to the round.

    The clock starts before the model is built (`v0.5`), or after up to 20 minutes of setup
    (`v0.7`).
    """
    first_epoch: int | None = setting(None, experiment_key=False)
    """Number of the first epoch, according to the round."""
    ruleset: str = setting("", experiment_key=False)
    """Name of the mlperf-logging ruleset for logs of the round.

    The name is empty in older logs, or if no ruleset exists.
    """
    framework_version: str = ""
    system: str = ""
    device_name: str = ""
    thread_waiting: str = ""
    """How threads on CPU cores wait, such as `GOMP_SPINCOUNT=1000`. Empty for the default of the
    thread runtime.
    """
    environment_variables: Mapping[str, str] = setting({}, hashed=False)
    """Environment variables by which the user tuned the workers, without secrets."""
    data_fingerprint: str = ""
    sample_unit: str = ""
    batch_unit: str = ""
    """Unit of `global_batch_size`, such as `samples` or `tokens`. Empty for samples or an unknown
    unit.
    """
    labels: tuple[str, ...] = ()
    """Labels as display texts (`suite.common.labels`)."""
    deviations: tuple[str, ...] = ()
    """Reasons why the run is in the open division, as sentences (`suite.catalog.deviations`)."""
    label_facts: tuple[Label, ...] = setting((), experiment_key=False, hashed=False)
    """Labels in structured form. Empty in logs of older suite versions, which contain only the
    texts (see `parsed_labels`).
    """
    deviation_facts: tuple[Deviation, ...] = setting((), experiment_key=False, hashed=False)
    """Reasons for the open division in structured form. Empty in logs of older suite versions,
    which contain only the sentences (see `parsed_deviations`).
    """
    run_index: int | None = setting(None, experiment_key=False)
    runs_required: int | None = setting(None, experiment_key=False)
    """Number of runs that the rules require for a result."""
    suite_version: str = setting("", experiment_key=False)
    git_commit: str = setting("", experiment_key=False)
    study: str = setting("", experiment_key=False)
    study_cell: tuple[str, ...] = setting((), experiment_key=False)
    """Study values of this run, each as `key=value`."""
    price_per_device_hour: str = setting("", experiment_key=False)
    """Price per device-hour as a decimal string. Empty if the price is unknown."""

    @property
    def parsed_labels(self) -> tuple[Label, ...]:
        """Return the labels in structured form.

        If the log contains only the texts, the texts are parsed.
        """
        if len(self.label_facts) == len(self.labels):
            return self.label_facts
        return tuple(map(label_of_text, self.labels))

    @property
    def parsed_deviations(self) -> tuple[Deviation, ...]:
        """Return the reasons for the open division in structured form.

        If the log contains only the sentences, the sentences are parsed.
        """
        if len(self.deviation_facts) == len(self.deviations):
            return self.deviation_facts
        return tuple(map(deviation_of_text, self.deviations))

    def has_label(self, *kinds: LabelKind) -> bool:
        """Check whether the settings have a label of one of these kinds."""
        return any(label.kind in kinds for label in self.parsed_labels)


FACTS = ("label_facts", "deviation_facts")
"""Fields that contain `labels` and `deviations` in structured form. Tables and pages show the texts
instead.
"""

NO_FIGURES: Mapping[str, float] = MappingProxyType({})
"""Empty mapping that all evaluations of a log share, because a log may have a million
evaluations.
"""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation."""

    line: int
    seconds: float
    """Seconds since `run_start`."""
    epoch: float | None
    """Epoch label in the log. Labels start at 1 in v0.6 and later, and at 0, 1, or -1 in v0.5."""
    epochs_begun: int
    """Number of epochs that had started before this evaluation."""
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

    The record covers a block of training and its evaluation.
    """

    line: int
    seconds: float | None
    """Seconds since `run_start`, or None if the log does not contain the time."""
    step: int | None
    """Number of optimizer steps at the end of the block, counted from the start of the run."""
    samples_per_second: float | None
    samples: float | None
    """Number of samples trained on in this block."""
    train_seconds: float | None
    evaluation_seconds: float | None
    data_wait_seconds: float | None
    loss: float | None
    data_bytes: float | None = None
    """Size in bytes of the batches of all devices in this block."""
    rates: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Throughput per second in further units of the workload, such as `tokens`."""
    scores: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Values of metrics without a target in the evaluation of this block, such as a validation
    loss.
    """


@dataclass(frozen=True)
class Condition:
    """Load of the machine during a run (`suite_condition`, docs/reference/log_format.md)."""

    busy: tuple[str, ...] = ()
    """Reasons why the machine was classified as busy, as short phrases."""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """Data of a run from its log. The defaults represent a log without records."""

    path: Path = Path()
    """Path of the log, or the folder of a run without a log."""
    name: str = ""
    """Job and run as a path below the searched folder. Empty if a single log was read."""
    has_log: bool = True
    """False if the log is missing or cannot be opened."""
    entry: Entry | None = None
    """Submission that the folder of the log belongs to. The field is set after all folders have
    been read.
    """
    described_settings: RunSettings | None = None
    """`settings` completed with values from other sources. The sources are a run of the same job if
    the log ends early, the entry, and published results. None if the settings are unknown, or if a
    single log was read.
    """
    format: str = ""
    """Line format: `MLLOG`, `MLL`, `MLPv0.5.0`, or `MLPerf` (dated lines). Empty if the file has no
    record.
    """
    benchmark: str = ""
    """Value of `submission_benchmark`, which is the name in the rules.

    `ssd` may be RetinaNet. `settings.workload` then has the correct name.
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

    For MiniGo v0.6, the time comes from `eval_result`. None if the time is missing.
    """
    end: RunEnd = RunEnd(EndStatus.UNREADABLE, EndCode.NO_RECORD)
    """Outcome of the run, according to its log.

    The status is SUCCESS, ABORTED, FAILED (the claim of success is wrong, or a value is
    implausible), TRUNCATED (no `run_stop`), or UNREADABLE (no record). For an unfinished log next
    to a `status.json`, the outcome comes from `status.json`.
    """
    targets: Mapping[str, float] = field(default_factory=dict)
    targets_source: str = ""
    """Source of the targets: `log`, `rules` (the log has no targets, but its round has official
    targets), or empty if the targets are unknown.
    """
    evaluations: tuple[Evaluation, ...] = ()
    """Evaluations until `run_stop`, in order of time."""
    epochs_to_target: float | None = None
    """Number of epochs trained when the target was reached.

    The unit is `settings.epoch_unit`, so the number may be a number of samples. None if the target
    was not reached, or if the log contradicts itself.
    """
    epochs_trained: float | None = None
    """Number of epochs trained until `run_stop`, that is, within `seconds`.

    The number exceeds `epochs_to_target` if the run continued after the target. None if
    `epochs_to_target` is None.
    """
    quality: Mapping[str, float] = field(default_factory=dict)
    """Quality of the last evaluation.

    The quality may be NaN after a diverged run, whereas `evaluations` contains only finite values.
    """
    throughput: tuple[Throughput, ...] = ()
    logged: Mapping[str, Json] = field(default_factory=dict)
    """First value of every other key that has a number, a string, or a short list, such as the
    `hyperparameters`.
    """
    batch_logged: int | None = None
    """Samples per optimizer step in the log. For Transformer, the unit is tokens."""
    digest: str = ""
    """Hash of the text of all records, which is equal for copies of a log. Empty without a
    record.
    """
    batch_basis: str = ""
    """`global`, or a note that `batch_logged` of a v0.5 log may be the batch of a single device.
    Empty without a batch size.
    """

    resumptions: int = 0
    """Number of resumptions from a checkpoint (`suite_continued`)."""
    interrupted_seconds: float = 0.0
    """Part of `seconds` in which the run was interrupted: from the last record before each
    interruption to the resumption.
    """
    block_times: BlockTimes | None = None
    """Setup time and block time. None for foreign logs and for unfinished runs."""
    checkpoint_seconds: float = 0.0
    """Part of `seconds` in which checkpoints were written."""
    condition: Condition | None = None
    """Load of the machine during the run, if the log has a `suite_condition`."""
    step_times: Mapping[str, float] = field(default_factory=dict)
    """Step time statistics of runs with `timing=steps` (`suite_step_times`): `count`, `mean_ms`,
    …
    """
    step_times_by: str = ""
    """Method by which `step_times` were measured."""
    all_reduce: AllReduceTime | None = None
    """All-reduce times of a run that measured all-reduces instead of training."""
    gradients: GradientAllReduceInfo | None = None
    """Gradient traffic of the all-reduce in a step (`suite_gradients`)."""
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
        """Return the name of the status.

        The names are `success`, `aborted`, `failed`, `truncated`, and `unreadable`.
        """
        return self.end.status.value

    @property
    def reason(self) -> str:
        """Return the cause of the status as a sentence. The result is empty for a success."""
        return self.end.detail

    @functools.cached_property
    def hyperparameters(self) -> Mapping[str, Json]:
        """Return the logged values that are equal in all runs of an experiment."""
        is_suite_log = bool(self.settings.profile)
        return {
            key: value for key, value in self.logged.items() if is_hyperparameter(key, is_suite_log)
        }

    def epochs_at(self, evaluation: Evaluation) -> float | None:
        """Return the number of epochs trained before an evaluation.

        The result is the label if the round numbers epochs from 1. Otherwise the result is the
        number of started epochs. If the log counts training in samples, the result is the number of
        samples.
        """
        if self.settings.epoch_unit == "samples":
            return evaluation.samples
        return (
            float(evaluation.epochs_begun) if self.settings.first_epoch == 0 else evaluation.epoch
        )

    @property
    def timed_steps(self) -> int:
        """Return the number of optimizer steps in the blocks' training times, without warm-up."""
        steps = (block.step or 0 for block in self.throughput if block.train_seconds is not None)
        return max(0, max(steps, default=0) - self.settings.timing_warmup_steps)

    @property
    def best_quality(self) -> Mapping[str, float]:
        """Return the quality of the evaluation with the best value of the first metric.

        The result is empty without evaluations.
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

        The result is also True if the controller was killed on a machine that is not visible from
        here.
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
