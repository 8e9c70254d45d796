"""The framework-free half of a benchmark."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, final

from workloads.api import rounds
from workloads.api.data import ArraySpec, Batch, DataPipeline, DatasetInfo
from workloads.api.deviations import Deviation, DeviationCode
from workloads.api.epochs import EpochSchedule, num_steps
from workloads.api.options import NOT_OPTIONS, build_options, hyperparameter_fields
from workloads.api.rules import Round, deviations
from workloads.api.sets import Hyperparameter, SetFiles
from workloads.api.settings import Defaults, Settings
from workloads.api.trainer_info import get_trainer
from workloads.api.updates import LossScaling, OptimizerSettings, ParameterRule
from workloads.api.values import Array, Arrays, Json
from workloads.api.worker_context import WorkerContext


class Workload(ABC):
    """Data, schedules, targets, metrics and log keys of a benchmark."""

    name: ClassVar[str]
    mlperf_name: ClassVar[str]
    """`submission_benchmark` in the log."""
    sample_unit: ClassVar[str]
    """What `samples_per_second` counts: images, sentence pairs, …"""
    extra_throughput_units: ClassVar[tuple[str, ...]] = ()
    """Units in which throughput is given too; each training batch has them in `global_counts`: `tokens`, …"""
    batch_unit: ClassVar[str] = "samples"
    """What `global_batch_size` counts: `samples`, or `tokens`."""
    default_rules: ClassVar[str]
    gpu_precisions: ClassVar[tuple[str, ...]] = ("bf16", "fp16", "tf32")
    """What `precision=auto` means on GPUs, the first that trainer and device have; else fp32. bf16, although NVIDIA's entries
    of v0.7 are in fp16: it has fp32's range, so no loss is scaled and no step skipped."""
    reference_model: ClassVar[Mapping[str, Json]] = {}
    """What rows of rounds call `reference_model`."""
    known_deviations: ClassVar[tuple[str, ...]] = ()
    """What closed runs compute otherwise than the reference in every setting: packages and verdicts state it."""
    length_dependent_log_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys of the log that follow from how long the training samples are, which their published counts do not tell."""
    runs_required: ClassVar[int] = 0
    """Runs that the rules ask for; 0: no rules know the workload."""
    measure_threads: int = 0
    """Threads that run `eval_batch_metrics` while the device computes. 0: it runs between two batches."""
    every_step_uses_every_parameter: ClassVar[bool] = True
    """False where the parameters that a step uses depend on the data: no trainer then takes the graph as fixed."""
    Options: ClassVar[type]
    """Dataclass of what a set gives (`workloads.api.hyperparameter`) and of what else can be typed (`workloads.api.option`).

    Both are typed as `workload.NAME`, but for a field with `key="data.decode"` in its metadata.
    """

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        self.settings = settings
        self.dataset_info = dataset_info
        self.options: Any = self.options_of(settings)
        """`Options` with the run's values."""
        self.epochs = EpochSchedule(self.steps_in_epoch)

    # -- before a run exists: what the controller asks ------------------------------------------------------------

    @classmethod
    def options_of(cls, settings: Settings) -> Any:
        """The settings' hyperparameters and options as `Options`."""
        return build_options(cls.Options, settings)

    @final
    @classmethod
    def rounds(cls) -> dict[str, Round]:
        """Name of a round (`v0.5`, `v0.7`) to what it is for this workload (`workloads.api.rounds`). Raises ValueError.

        A workload that no round has gets the figures of each, without rows: every run is open."""
        found = {name: rounds.get_round(name, cls) for name in rounds.files()}
        return {name: one for name, one in found.items() if one is not None}

    @final
    @classmethod
    def get_round(cls, rules: str) -> Round:
        """The round of this name. Raises ValueError for one that the workload does not have: no other's targets are taken."""
        found = rounds.get_round(rules, cls)
        if found is not None:
            return found
        there = " or ".join(f"rules={name}" for name in cls.rounds())
        another = (
            ", and workload.target=X for another target"
            if any(item.name == "target" for item in fields(cls.Options))
            else ""
        )
        raise ValueError(
            f"rules={rules}: {cls.name} has no such round, which would be its target, clock and rules; type {there}{another}"
        )

    @property
    def round(self) -> Round:
        """The round of the run: in a worker its figures, as planning found them."""
        figures = self.settings.round
        return Round(**figures) if figures else self.get_round(self.settings.rules)

    @classmethod
    @abstractmethod
    def defaults(cls, profile: str, rules: str, options: Mapping[str, Json]) -> Defaults:
        """What `profile` means here under `rules`, for the options that the user set (those left alone are missing).

        Raises ValueError for a profile that the workload does not have.
        """

    @classmethod
    def hyperparameter_sets(cls) -> Mapping[str, Mapping[str, Hyperparameter]]:
        """Sets that are no files; each holds at least `global_batch_size`, `learning_rate` and `lr_scaling`, and `max_epochs`
        where there are targets. By default there are none."""
        return {}

    @final
    @classmethod
    def named_sets(cls) -> SetFiles:
        """All named sets, files are read when they are asked for (`workloads.api.sets`). Raises ValueError for a bad one."""
        return SetFiles(cls.name, cls.Options, cls.hyperparameter_sets())

    @classmethod
    @abstractmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Counts from the manifest below `settings.data_dir`, or the published ones under `profile=synthetic`.

        Raises ValueError that names what is missing and what to type.
        """

    @classmethod
    def resolve(cls, settings: Settings) -> Settings:
        """The settings after files that they name beside the data set have been checked and made ready: `backbone.weights`.

        Raises ValueError, in one line.
        """
        return settings

    @final
    @classmethod
    def deviations(cls, settings: Settings, **rule_inputs: Json) -> list[Deviation]:
        """Return the reasons why a run with these settings is in the open division, by the rules of its round alone.

        Args:
            settings: Settings of the run.
            rule_inputs: Further values that rules ask for: `seed_source`, `cache_clear`, and those that the method
                `rule_inputs` returns. If any are given, only these are checked.
        """
        closed = rounds.get_round(settings.rules, cls)
        if closed is None or not closed.rows:
            missing = Deviation(DeviationCode.NO_RULES, "rules", settings.rules, detail=cls.name)
            return [] if rule_inputs else [missing]
        values = {**cls.effective_settings(settings), **rule_inputs}
        by_rules = deviations(closed.rows, values, rule_inputs or values)
        if rule_inputs:
            return by_rules
        found = []
        if rounds.is_user_defined(settings.rules):
            found.append(Deviation(DeviationCode.USER_FILE, "rules", settings.rules))
        if cls.named_sets().is_user_defined(settings.hyperparameter_set):
            found.append(Deviation(DeviationCode.USER_FILE, "hyperparameter_set", settings.hyperparameter_set))
        if closed.unsupported_reason:
            found.append(Deviation(DeviationCode.REFERENCE_DIFFERS, detail=closed.unsupported_reason))
        return [*found, *by_rules]

    @classmethod
    def effective_settings(cls, settings: Settings) -> dict[str, Json]:
        """Everything that decides what a run computes, by name: settings, then hyperparameters and options as they act."""
        split = ("hyperparameters", "hyperparameter_sources", "options", "round")
        of_run = {item.name: getattr(settings, item.name) for item in fields(settings) if item.name not in split}
        acting = vars(cls.options_of(settings))
        of_set = {**{name: acting[name] for name in hyperparameter_fields(cls.Options)}, **settings.hyperparameters}
        elsewhere = {*of_run, *of_set, *NOT_OPTIONS}
        return {**of_run, **of_set, **{name: value for name, value in acting.items() if name not in elsewhere}}

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Bytes that one sample leaves for the backward pass, at least; 0: not known. A batch that cannot fit is refused."""
        return 0

    # -- schedule -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def samples_per_epoch(self) -> int:
        """Samples that one epoch trains on, in `batch_unit`."""

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one epoch where all have the same number; the last partial batch is kept."""
        return num_steps(self.samples_per_epoch, self.settings.global_batch_size)

    @property
    def repeated_samples_per_epoch(self) -> int:
        """Samples that an epoch trains on twice, so that its last batch is full; 0 where the last batch is smaller. Counted as
        `DatasetInfo.train_samples` counts, whatever `batch_unit` is."""
        return 0

    @property
    def left_out_samples_per_epoch(self) -> int:
        """Samples of `DatasetInfo.train_samples` that an epoch does not train on."""
        return 0

    @final
    @property
    def repeated_share(self) -> float:
        """`repeated_samples_per_epoch` as a share of the training set, rounded up to a millionth: so it is never below a bound
        that the share itself misses."""
        return self._share(self.repeated_samples_per_epoch)

    @final
    @property
    def left_out_share(self) -> float:
        """`left_out_samples_per_epoch` in the same way."""
        return self._share(self.left_out_samples_per_epoch)

    @final
    def _share(self, samples: int) -> float:
        return -(-samples * 10**6 // self.dataset_info.train_samples) / 10**6 if samples else 0.0

    @final
    def rule_inputs(self) -> dict[str, Json]:
        """What rules ask of a run that follows from its settings and the data's counts together, by the names of their rows.

        The last three are in `batch_unit`; null where there is no such end.
        """
        batch, decay, most = self.settings.global_batch_size, self.first_decay_step, self.settings.max_epochs
        return {
            "repeated_share": self.repeated_share,
            "left_out_share": self.left_out_share,
            "warmup_samples": self.warmup_steps * batch,
            "first_decay_samples": None if decay is None else decay * batch,
            "run_samples": None if most is None else most * self.steps_per_epoch * batch,
        }

    def steps_in_epoch(self, epoch: int) -> int:
        """Steps of epoch 0, 1, …: `epochs` asks once for each. Other numbers than `steps_per_epoch` come from a batch plan."""
        return self.steps_per_epoch

    @abstractmethod
    def learning_rate(self, step: int) -> float:
        """Learning rate of step 0, 1, …"""

    @property
    def warmup_steps(self) -> int:
        """Steps after which the warm-up has reached the peak rate. Default: there is none."""
        return 0

    @property
    def first_decay_step(self) -> int | None:
        """Step at which the schedule first lowers the rate, whether a warm-up is over or not; None: it never does, or begins
        where the warm-up ends."""
        return None

    def evaluation_steps(self) -> Iterator[int]:
        """Step counts after which to evaluate, rising without end (the loop stops). Default: every epoch."""
        return (self.epochs.start(epoch) for epoch in itertools.count(1))

    # -- what trainers ask ----------------------------------------------------------------------------------------

    def optimizer(self) -> OptimizerSettings:
        """The optimizer that trainers build. Default: the one that `options.optimizer` names, with what else the options have
        under the names of `OptimizerSettings`. Trainers with an update of their own do not ask."""
        values = vars(self.options)
        if "optimizer" not in values:
            raise NotImplementedError(f"{type(self).__name__} names no optimizer")
        known = {item.name: values[item.name] for item in fields(OptimizerSettings) if item.name in values}
        return OptimizerSettings(**{**known, "name": values["optimizer"], "loss_scaling": self.loss_scaling})

    def update_settings(self) -> OptimizerSettings:
        """`optimizer()`, once it is clear that every replica's batch can be cut into its equal pieces. Raises ValueError."""
        settings = self.optimizer()
        pieces = settings.accumulation_steps
        every = (spec.shape[0] for specs in self.shapes() for spec in specs.values()) if pieces > 1 else ()
        for count in sorted(set(every)):
            if count % pieces:
                raise ValueError(
                    f"accumulation_steps={pieces}: a device's batch of {count} cannot be cut into {pieces} equal pieces; "
                    f"type batch=per_device:N with N a multiple of {pieces}"
                )
        return settings

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """How the parameter of this canonical name is updated. Default: no decay, no multiple, not frozen."""
        return ParameterRule()

    @property
    def loss_scaling(self) -> LossScaling:
        """Loss scaling of the run: the one of its trainer (`TrainerInfo`) in fp16, and none in other precisions."""
        if self.settings.precision != "fp16":
            return LossScaling()
        return get_trainer(type(self), self.settings.framework).fp16_loss_scaling

    @abstractmethod
    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """All shapes that a training batch of one replica can have, largest first."""

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """All shapes that an evaluation batch of one replica can have, of the arrays that the model takes; empty: not known,
        so that the first evaluation compiles what it needs."""
        return []

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """A batch of these shapes to warm up on: zeros, each sample of weight 1."""
        import numpy as np

        arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
        count = next(iter(specs.values())).shape[0]
        return Batch(arrays, float(count), float(count), count)

    # -- weights, data, quality -----------------------------------------------------------------------------------

    @abstractmethod
    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """(canonical name, float32 array) of every parameter, the same in every framework.

        Batch norm's `….running_mean` and `….running_var` may come too; those that do not start at 0 and 1.
        """

    @abstractmethod
    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Open the prepared data; called after `run_start`."""

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Small per-sample results of one evaluation batch from the trainer's outputs. May be called by several threads."""
        raise NotImplementedError(f"{type(self).__name__} measures nothing")

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Metric name to value, from the results of all samples (concatenated over batches and processes).

        Metrics with a target come first; others (a validation loss) are logged beside them.
        """
        raise NotImplementedError(f"{type(self).__name__} scores nothing")

    def summarize_step_times(self, seconds: Sequence[float], how: str) -> Mapping[str, Json]:
        """Key of the log to what it holds of a run whose steps were timed one by one, in place of their statistics.

        `seconds` of the steps after `timing.warmup_steps`, in order; `how` they were taken. Empty: the statistics. Only where
        steps differ from each other in what they do.
        """
        return {}

    def log_keys(self) -> Mapping[str, Json]:
        """Keys and values that the rules want in the log, beyond those that the loop writes."""
        return {}

    def log_metadata(self) -> Mapping[str, Mapping[str, Json]]:
        """Key of `log_keys` to what the rules want beside its value."""
        return {}

    def metric_signatures(self) -> Mapping[str, Json]:
        """Metric to how it is measured, where its name does not say that; stands in the log's `suite_run`."""
        return {}

    def eval_accuracy_value(self, scores: Mapping[str, float]) -> Json:
        """The value of `eval_accuracy`: a number where there is one target, else a flat object of the metrics with targets
        (all metrics where none has one)."""
        names = [name for name in self.settings.targets if name in scores] or list(scores)
        return scores[names[0]] if len(names) == 1 else {name: scores[name] for name in names}

    def targets_reached(self, scores: Mapping[str, float]) -> bool:
        """True if every target is reached; False where there is none."""
        targets = self.settings.targets
        return bool(targets) and all(scores[metric] >= target for metric, target in targets.items())
