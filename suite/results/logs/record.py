"""Content of a log as typed and frozen data."""

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

    In a log of this suite they are the `suite_run` object, whose keys are the field names. In a
    foreign log `workload` is the name of the benchmark, `system` is the submission platform, and
    `profile` is empty.
    """

    clock: str = ""
    """Clock of the round.

    It starts before the model is built (`v0.5`), or after up to 20 minutes of setup (`v0.7`).
    """
    first_epoch: int | None = setting(None, experiment_key=False)
    """Number of the round's first epoch."""
    ruleset: str = setting("", experiment_key=False)
    """Ruleset of mlperf-logging for the logs of the round.

    Empty in older logs, or if no ruleset exists.
    """
    framework_version: str = ""
    system: str = ""
    device_name: str = ""
    thread_waiting: str = ""
    """How threads on CPU cores wait: `GOMP_SPINCOUNT=1000`. Empty: the default of their runtime."""
    environment_variables: Mapping[str, str] = setting({}, hashed=False)
    """Variables by which the user tuned the workers, without secrets."""
    data_fingerprint: str = ""
    sample_unit: str = ""
    batch_unit: str = ""
    """Unit of `global_batch_size`: `samples`, `tokens`. Empty: samples, or unknown."""
    labels: tuple[str, ...] = ()
    """Labels as texts (`suite.common.labels`)."""
    deviations: tuple[str, ...] = ()
    """Reasons for division open as sentences (`suite.catalog.deviations`)."""
    label_facts: tuple[Label, ...] = setting((), experiment_key=False, hashed=False)
    """Labels as data; empty: a log of a version that stated texts alone, see `parsed_labels`."""
    deviation_facts: tuple[Deviation, ...] = setting((), experiment_key=False, hashed=False)
    """Reasons for division open as data; empty: a log of a version that stated sentences alone, see
    `parsed_deviations`.
    """
    run_index: int | None = setting(None, experiment_key=False)
    runs_required: int | None = setting(None, experiment_key=False)
    """Number of runs that the rules require for a result."""
    suite_version: str = setting("", experiment_key=False)
    git_commit: str = setting("", experiment_key=False)
    study: str = setting("", experiment_key=False)
    study_cell: tuple[str, ...] = setting((), experiment_key=False)
    """Values of the study in this run, each as `key=value`."""
    price_per_device_hour: str = setting("", experiment_key=False)
    """Number as text. Empty if it is unknown."""

    @property
    def parsed_labels(self) -> tuple[Label, ...]:
        """Labels as data. Texts are translated if the log does not state the data behind each."""
        if len(self.label_facts) == len(self.labels):
            return self.label_facts
        return tuple(map(label_of_text, self.labels))

    @property
    def parsed_deviations(self) -> tuple[Deviation, ...]:
        """Reasons for division open as data.

        Sentences are translated if the log does not state the data behind each.
        """
        if len(self.deviation_facts) == len(self.deviations):
            return self.deviation_facts
        return tuple(map(deviation_of_text, self.deviations))

    def has_label(self, *kinds: LabelKind) -> bool:
        """Check for a label of one of these kinds."""
        return any(label.kind in kinds for label in self.parsed_labels)


FACTS = ("label_facts", "deviation_facts")
"""Fields that state `labels` and `deviations` as data. Tables and pages show the texts."""

NO_FIGURES: Mapping[str, float] = MappingProxyType({})
"""Empty mapping that all evaluations of a log share, of which there may be a million."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation."""

    line: int
    seconds: float
    """Seconds since `run_start`."""
    epoch: float | None
    """Label in the log: from 1 in v0.6 and later, from 0, 1 or -1 in v0.5."""
    epochs_begun: int
    """Number of epochs that the log had started by this evaluation."""
    quality: Mapping[str, float]
    """Metric name to value, in the units of the log."""
    scores: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Values of the metrics that have no target."""

    @property
    def values(self) -> dict[str, float]:
        """All metrics. The metrics with a target come first."""
        return {**self.quality, **self.scores}


@dataclass(frozen=True, slots=True)
class Throughput:
    """`tracked_stats` of an evaluation block."""

    line: int
    seconds: float | None
    """Seconds since `run_start`, if it is logged."""
    step: int | None
    """Optimizer steps done at the end of the block."""
    samples_per_second: float | None
    samples: float | None
    """Samples trained on in this block."""
    train_seconds: float | None
    evaluation_seconds: float | None
    data_wait_seconds: float | None
    loss: float | None
    data_bytes: float | None = None
    """Bytes of all devices' batches in this block."""
    rates: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Throughput in further units of the workload, per second: `tokens`, …"""
    scores: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Metrics without a target in the evaluation of this block, such as a validation loss."""


@dataclass(frozen=True)
class Condition:
    """Share of the machine that the run got (`suite_condition`, docs/reference/log_format.md)."""

    busy: tuple[str, ...] = ()
    """Reasons why the machine counts as busy, a few words each."""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """A run as its log describes it. The defaults are the content of a log without records."""

    path: Path = Path()
    """The log, or the folder of a run without a log."""
    name: str = ""
    """Path below the searched folder: job and run. Empty if the log was read alone."""
    has_log: bool = True
    """False if the log is missing or cannot be opened."""
    entry: Entry | None = None
    """Entry that the folder of the log belongs to. It is set when the folders are read."""
    described_settings: RunSettings | None = None
    """`settings` with the values that other sources have: a run of the same job if the log ends
    early, the entry, and published results. None if the settings are unknown, or the log was read
    alone.
    """
    format: str = ""
    """`MLLOG`, `MLL`, `MLPv0.5.0`, `MLPerf` (dated lines), or empty if the file has no record."""
    benchmark: str = ""
    """`submission_benchmark`, the name in the rules.

    `ssd` may be RetinaNet, which `settings.workload` distinguishes.
    """
    org: str = ""
    division: str = ""
    """`submission_division`. A resumed run of this suite is always `open`."""
    submission_status: str = ""
    platform: str = ""
    settings: RunSettings = RunSettings()
    seed: int | None = None
    start_ms: float | None = None
    """`run_start`, milliseconds since 1970."""
    seconds: float | None = None
    """`run_stop` - `run_start`, with interruptions.

    MiniGo of v0.6: the time stamp in `eval_result`. None if it is missing.
    """
    end: RunEnd = RunEnd(EndStatus.UNREADABLE, EndCode.NO_RECORD)
    """SUCCESS, ABORTED, FAILED (ended, but the claim of success does not hold, or a figure is not
    plausible), TRUNCATED (no `run_stop`), or UNREADABLE (no record). For an unfinished log next to
    a `status.json`, the end in `status.json`.
    """
    targets: Mapping[str, float] = field(default_factory=dict)
    targets_source: str = ""
    """`log`, `rules` (the log has no targets, and its round has official targets), or empty
    (unknown).
    """
    evaluations: tuple[Evaluation, ...] = ()
    """Evaluations up to `run_stop`, in order of time."""
    epochs_to_target: float | None = None
    """Epochs trained when the target was reached.

    None if it was not reached, or the log contradicts itself.
    """
    epochs_trained: float | None = None
    """Epochs trained by `run_stop`, all within `seconds`.

    More than `epochs_to_target` if the run continued after the target. None if `epochs_to_target`
    is None.
    """
    quality: Mapping[str, float] = field(default_factory=dict)
    """Quality of the last evaluation.

    It may be NaN after a diverged run, whereas `evaluations` has finite values only.
    """
    throughput: tuple[Throughput, ...] = ()
    logged: Mapping[str, Json] = field(default_factory=dict)
    """First value of every further key that holds a number, a string, or a short list, such as the
    `hyperparameters`.
    """
    batch_logged: int | None = None
    """Samples (Transformer: tokens) per optimizer step in the log."""
    digest: str = ""
    """Hash of the text of all records, equal for copies of a log. Empty without a record."""
    batch_basis: str = ""
    """`global`, or a note on v0.5 logs that `batch_logged` may count the samples of a single
    device. Empty without a batch.
    """

    resumptions: int = 0
    """Number of times that the run was resumed from a checkpoint (`suite_continued`)."""
    interrupted_seconds: float = 0.0
    """Part of `seconds` between the last line before each interruption and the resumption."""
    block_times: BlockTimes | None = None
    """Setup and blocks; None for foreign logs, and for runs that have not ended."""
    checkpoint_seconds: float = 0.0
    """Part of `seconds` in which checkpoints were written."""
    condition: Condition | None = None
    """Share of the machine, if the log has a `suite_condition`."""
    step_times: Mapping[str, float] = field(default_factory=dict)
    """Step times of runs with `timing=steps` (`suite_step_times`): `count`,
    `mean_ms`, …
    """
    step_times_by: str = ""
    """Instrument of `step_times`."""
    all_reduce: AllReduceTime | None = None
    """Times of a run that measured all-reduces and did not train."""
    gradients: GradientAllReduceInfo | None = None
    """Traffic of the all-reduce in a step (`suite_gradients`)."""
    staleness: Mapping[str, float] = field(default_factory=dict)
    """Staleness in runs with `update=async` (`suite_staleness`): `updates`, `mean`,
    `most`.
    """
    problems: tuple[Problem, ...] = ()
    """Everything in the file that could not be read or does not fit, with line numbers."""

    @property
    def status(self) -> str:
        """Name of the status: `success`, `aborted`, `failed`, `truncated`, `unreadable`."""
        return self.end.status.value

    @property
    def reason(self) -> str:
        """The cause of the status in a sentence. Empty for a success."""
        return self.end.detail

    @functools.cached_property
    def hyperparameters(self) -> Mapping[str, Json]:
        """Logged values in which all runs of an experiment agree."""
        is_suite_log = bool(self.settings.profile)
        return {
            key: value for key, value in self.logged.items() if is_hyperparameter(key, is_suite_log)
        }

    def epochs_at(self, evaluation: Evaluation) -> float | None:
        """Return the epochs trained by an evaluation.

        It is the label if the round counts from 1, else the number of started epochs.
        """
        return (
            float(evaluation.epochs_begun) if self.settings.first_epoch == 0 else evaluation.epoch
        )

    @property
    def timed_steps(self) -> int:
        """Optimizer steps in the blocks' training seconds. The warm-up is left out."""
        steps = (block.step or 0 for block in self.throughput if block.train_seconds is not None)
        return max(0, max(steps, default=0) - self.settings.timing_warmup_steps)

    @property
    def best_quality(self) -> Mapping[str, float]:
        """Quality at the evaluation with the best first metric. Empty without evaluations."""
        qualities = [evaluation.quality for evaluation in self.evaluations]
        if not qualities:
            return {}
        metric = next(iter(self.targets), next(iter(qualities[0])))
        best = min if improves_as_it_falls(metric, self.benchmark) else max
        with_metric = [quality for quality in qualities if metric in quality]
        return best(
            with_metric or qualities,
            key=lambda quality: quality.get(metric, next(iter(quality.values()))),
        )

    @property
    def succeeded(self) -> bool:
        """True if the run reached its target or trained for the requested length, by its log."""
        return self.end.status is EndStatus.SUCCESS

    @property
    def running(self) -> bool:
        """True if the run had not ended.

        Also true if its controller was killed on a machine that is not visible from here.
        """
        return self.end.status is EndStatus.RUNNING

    @property
    def finished(self) -> bool:
        """True if the run reached its target, or trained for the requested length."""
        if self.start_ms is None or self.seconds is None:
            return False
        if self.settings.to_target:
            return self.end.status is EndStatus.SUCCESS
        return (
            self.end.status in (EndStatus.SUCCESS, EndStatus.ABORTED)
            and self.end.code is EndCode.NONE
        )
