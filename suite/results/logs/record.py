"""What one log says, as typed and frozen data."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from suite.common.labels import Label, LabelKind, label_of_text
from suite.results.directions import improves_as_it_falls
from suite.results.logs.all_reduce import AllReduceTime
from suite.results.logs.events import Problem
from suite.results.logs.keys import is_hyperparameter
from workloads.api import Deviation, GradientTraffic, Json, LoggedSettings, setting
from workloads.api.deviations import deviation_of_text


@dataclass(frozen=True, kw_only=True)
class RunSettings(LoggedSettings):
    """What was run: the `suite_run` object of our logs, whose keys are the field names. Of other logs what their own keys say:
    `workload` is the name of the benchmark, `system` the submission platform, `profile` is empty."""

    clock: str = ""
    """Of the round: `v0.5`, the clock starts before the model is built; `v0.7`, after up to 20 minutes of set-up."""
    first_epoch: int | None = setting(None, row=False)
    """Number of the round's first epoch."""
    ruleset: str = setting("", row=False)
    """Of mlperf-logging, by which the round's logs are checked; empty: none, or an older log, whose `rules` tell."""
    framework_version: str = ""
    system: str = ""
    device_name: str = ""
    thread_waiting: str = ""
    """`GOMP_SPINCOUNT=1000`: how threads on CPU cores wait for each other; empty: as their runtime chooses."""
    environment_variables: Mapping[str, str] = setting({}, hashed=False)
    """Variables by which the user tuned the workers, without secrets."""
    data_fingerprint: str = ""
    sample_unit: str = ""
    batch_unit: str = ""
    """What `batch_size_global` counts: `samples`, `tokens`; empty: samples, or nobody says."""
    labels: tuple[str, ...] = ()
    """Labels as texts (`suite.common.labels`)."""
    deviations: tuple[str, ...] = ()
    """Reasons for division open as sentences (`workloads.api.deviations`)."""
    label_facts: tuple[Label, ...] = setting((), row=False, hashed=False)
    """Labels as data; empty: a log of a version that stated texts alone, see `parsed_labels`."""
    deviation_facts: tuple[Deviation, ...] = setting((), row=False, hashed=False)
    """Reasons for division open as data; empty: a log of a version that stated sentences alone, see `parsed_deviations`."""
    run_index: int | None = setting(None, row=False)
    runs_required: int | None = setting(None, row=False)
    """Runs that the rules ask for a result."""
    suite_version: str = setting("", row=False)
    git_commit: str = setting("", row=False)
    study: str = setting("", row=False)
    study_cell: tuple[str, ...] = setting((), row=False)
    """Of the study: `key=value` each."""
    price_per_device_hour: str = setting("", row=False)
    """A number as text; empty: none was given."""

    @property
    def parsed_labels(self) -> tuple[Label, ...]:
        """Labels as data. Texts are translated if the log does not state the data behind each."""
        if len(self.label_facts) == len(self.labels):
            return self.label_facts
        return tuple(map(label_of_text, self.labels))

    @property
    def parsed_deviations(self) -> tuple[Deviation, ...]:
        """Reasons for division open as data. Sentences are translated if the log does not state the data behind each."""
        if len(self.deviation_facts) == len(self.deviations):
            return self.deviation_facts
        return tuple(map(deviation_of_text, self.deviations))

    def has_label(self, *kinds: LabelKind) -> bool:
        """Check for a label of one of these kinds."""
        return any(label.kind in kinds for label in self.parsed_labels)


FACTS = ("label_facts", "deviation_facts")
"""Fields that state `labels` and `deviations` as data. Tables and pages show the texts."""

NO_FIGURES: Mapping[str, float] = MappingProxyType({})
"""One empty mapping for all of a log's evaluations, which may be a million."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation."""

    line: int
    seconds: float
    """Seconds since `run_start`."""
    epoch: float | None
    """As the log labels it; from 1 in v0.6 and later, from 0, 1 or -1 under v0.5."""
    epochs_begun: int
    """Different epochs that the log had started by then."""
    quality: Mapping[str, float]
    """Metric name to value, in the units of the log."""
    scores: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """The same of metrics that have no target."""

    @property
    def values(self) -> dict[str, float]:
        """All metrics, those with a target first."""
        return {**self.quality, **self.scores}


@dataclass(frozen=True, slots=True)
class Throughput:
    """`tracked_stats` of one evaluation block."""

    line: int
    seconds: float | None
    """Seconds since `run_start`; None without one."""
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
    """Bytes of the batches that all devices were given in this block."""
    rates: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Throughput in further units of the workload, per second: `tokens`, …"""
    scores: Mapping[str, float] = field(default_factory=lambda: NO_FIGURES)
    """Metrics without a target that the evaluation of this block gave: a validation loss."""


@dataclass(frozen=True)
class Condition:
    """How much of the machine the run got (`suite_condition`, docs/logs.md)."""

    busy: tuple[str, ...] = ()
    """Why the machine was a busy one, a few words each; empty: it was not, as far as is known."""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """One run, as described by its log; the defaults are what a log without records says."""

    path: Path = Path()
    format: str = ""
    """`MLLOG`, `MLL`, `MLPv0.5.0`, `MLPerf` (dated lines); empty if the file holds no record."""
    benchmark: str = ""
    """`submission_benchmark`: the rules' name; `ssd` for RetinaNet too, which `settings.workload` tells from SSD."""
    org: str = ""
    division: str = ""
    """`submission_division`. A resumed run of this suite is `open`, whatever its log says."""
    submission_status: str = ""
    platform: str = ""
    settings: RunSettings = RunSettings()
    seed: int | None = None
    start_ms: float | None = None
    """`run_start`, milliseconds since 1970."""
    seconds: float | None = None
    """`run_stop` - `run_start`, interruptions included; MiniGo of v0.6: the time stamp in `eval_result`. None if it is
    missing."""
    status: str = ""
    """`success`, `aborted`, `failed` (ended, but the claim of success does not hold, or a figure is not plausible),
    `truncated` (no `run_stop`), `unreadable` (no record)."""
    reason: str = ""
    """Why it is no success, one line; empty for success."""
    targets: Mapping[str, float] = field(default_factory=dict)
    targets_source: str = ""
    """`log`; `rules`: the log has none, these are the official ones of its round; empty: unknown."""
    evaluations: tuple[Evaluation, ...] = ()
    """Those at or before `run_stop`, in order of time."""
    epochs_to_target: float | None = None
    """Epochs trained when the target was reached; None if it was not, there was none, or the log contradicts itself."""
    epochs_trained: float | None = None
    """Epochs trained by `run_stop`, all within `seconds`: more than `epochs_to_target` if the run continued after the target;
    None where that is None."""
    quality: Mapping[str, float] = field(default_factory=dict)
    """Of the last evaluation, also if that is not finite: NaN after a diverged run. `evaluations` has finite values only."""
    throughput: tuple[Throughput, ...] = ()
    logged: Mapping[str, Json] = field(default_factory=dict)
    """First value of every other key that holds a number, text, or a short list of such; `hyperparameters` are among them."""
    batch_logged: int | None = None
    """Samples (Transformer: tokens) per optimizer step as the log gives them."""
    digest: str = ""
    """Hash of the text of all records: two files that have the same hold the same run. Empty without a record."""
    batch_basis: str = ""
    """`global`, or that a v0.5 log does not say whether `batch_logged` is of one device or of all; empty: no batch."""

    resumptions: int = 0
    """Number of times that the run was resumed from a checkpoint (`suite_continued`)."""
    interrupted_seconds: float = 0.0
    """Part of `seconds` between the last line before each interruption and the resumption."""
    checkpoint_seconds: float = 0.0
    """Spent on writing checkpoints, within `seconds`."""
    condition: Condition | None = None
    """None: the log does not tell."""
    step_times: Mapping[str, float] = field(default_factory=dict)
    """Of runs with `timing=steps` (`suite_step_times`, docs/logs.md): `count`, `mean_ms`, …; empty for others."""
    step_times_by: str = ""
    """What took them."""
    all_reduce: AllReduceTime | None = None
    """Of a run that timed all-reduces and trained nothing."""
    gradients: GradientTraffic | None = None
    """What the all-reduce of a step moves; None where the log does not tell."""
    staleness: Mapping[str, float] = field(default_factory=dict)
    """Of runs with `update=async` (`suite_staleness`, docs/logs.md): `updates`, `mean`, `most`; empty for others."""

    @functools.cached_property
    def hyperparameters(self) -> Mapping[str, Json]:
        """Of what is logged that in which runs of one experiment agree."""
        ours = bool(self.settings.profile)
        return {key: value for key, value in self.logged.items() if is_hyperparameter(key, ours)}

    def epochs_at(self, evaluation: Evaluation) -> float | None:
        """Epochs trained by one of the evaluations: its label where the round counts from 1, else the epochs begun."""
        return float(evaluation.epochs_begun) if self.settings.first_epoch == 0 else evaluation.epoch

    @property
    def timed_steps(self) -> int:
        """Optimizer steps in the blocks' training seconds: those after the warm-up."""
        steps = (block.step or 0 for block in self.throughput if block.train_seconds is not None)
        return max(0, max(steps, default=0) - self.settings.timing_warmup_steps)

    @property
    def best_quality(self) -> Mapping[str, float]:
        """Quality at the evaluation with the best first metric; empty without evaluations."""
        qualities = [evaluation.quality for evaluation in self.evaluations]
        if not qualities:
            return {}
        metric = next(iter(self.targets), next(iter(qualities[0])))
        best = min if improves_as_it_falls(metric, self.benchmark) else max
        with_metric = [quality for quality in qualities if metric in quality]
        return best(with_metric or qualities, key=lambda quality: quality.get(metric, next(iter(quality.values()))))

    @property
    def finished(self) -> bool:
        """True if the run did what was asked: reached the target, or trained for the asked length."""
        if self.start_ms is None or self.seconds is None:
            return False
        if self.settings.to_target:
            return self.status == "success"
        return not self.reason and self.status in ("success", "aborted")


@dataclass(frozen=True)
class Reading:
    """A record and everything in the file that could not be read or does not fit."""

    record: RunRecord
    problems: tuple[Problem, ...]
