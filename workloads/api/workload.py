"""Framework-independent interface of a workload.

A workload defines the data, model, schedule, metrics, and log keys of a benchmark.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, final

from workloads.api.data import ArraySpec, Batch, DataPipeline, DatasetInfo
from workloads.api.epochs import EpochSamples, EpochSchedule, num_steps
from workloads.api.options import Hyperparameter, WorkloadOptions, build_options
from workloads.api.round import Round
from workloads.api.settings import Defaults, Settings
from workloads.api.trainer_info import get_trainer
from workloads.api.updates import LossScaling, OptimizerSettings, ParameterRule
from workloads.api.values import Array, Arrays, Json
from workloads.api.worker_context import WorkerContext


class Workload(ABC):
    """Base class of benchmarks. The controller and each worker create an instance per run.

    A new workload defines `name`, `mlperf_name`, and the abstract methods `defaults`,
    `load_dataset_info`, `learning_rate`, `shapes`, `initial_weights`, and `open_data`. A workload
    with a target also defines `eval_batch_metrics` and `compute_metrics`. All other members have
    defaults.
    """

    # -- before a run: the controller reads the class
    # -------------------------------------------------------------

    name: ClassVar[str]
    mlperf_name: ClassVar[str]
    """Value of `submission_benchmark` in the log."""
    Options: ClassVar[type] = WorkloadOptions
    """Dataclass with the hyperparameters (`workloads.api.hyperparameter`) and options
    (`workloads.api.option`).

    The command-line key of a field is `workload.NAME`, or the argument `key` of the field, such as
    `key="data.decode"`.
    """
    default_rules: ClassVar[str] = "v0.7"
    """Round that `rules=auto` selects."""
    sample_unit: ClassVar[str] = "samples"
    """Unit of `samples_per_second`, such as `images` or `sentence pairs`."""
    extra_throughput_units: ClassVar[tuple[str, ...]] = ()
    """Additional units of throughput, such as `tokens`.

    The attribute `global_counts` of each training batch contains the size of the batch in these
    units.
    """
    batch_unit: ClassVar[str] = "samples"
    """Unit of `global_batch_size`: `samples`, `tokens`, or `bytes`."""
    falling_metrics: ClassVar[frozenset[str]] = frozenset()
    """Metrics that improve as they fall, such as a loss or an error rate.

    The run reaches the target of such a metric when the metric is at or below the target. All other
    metrics improve as they rise.
    """
    epoch_unit: ClassVar[str] = "epochs"
    """Unit in which the rules count training up to the target: `epochs` or `samples`.

    With `samples`, the records of blocks and evaluations have the metadata `samples_count`, and
    reports show the samples to the target.
    """
    gpu_precisions: ClassVar[tuple[str, ...]] = ("bf16", "fp16", "tf32")
    """Candidates for `precision=auto` on GPUs, in order of preference.

    `precision=auto` selects the first candidate that the trainer, the device, and the rules allow,
    or fp32 if none is allowed. bf16 comes first because bf16 needs no loss scaling, although
    NVIDIA's v0.7 submissions use fp16.
    """
    reference_model: ClassVar[Mapping[str, Json]] = {}
    """Parameters of the reference model. Tables show these parameters as `reference_model` in
    rows of the closed division.
    """
    known_deviations: ClassVar[tuple[str, ...]] = ()
    """Differences from the reference implementation that every closed-division run has.

    Each string is a sentence that describes a difference.
    """
    runs_required: ClassVar[int] = 0
    """Number of runs that an official result requires. The value is 0 if no rules cover the
    workload.
    """

    @classmethod
    @abstractmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the data set, hyperparameter set, model, and targets of a profile.

        Args:
            profile: `reference`, `demo`, or `synthetic`.
            round: Round of the run. A workload that the round lists can return `round.defaults(…)`.
            options: Options that the user set, by field name.

        Raises:
            ValueError: The workload does not support the profile, or an option is invalid.
        """

    @classmethod
    def hyperparameter_sets(cls) -> Mapping[str, Mapping[str, Hyperparameter]]:
        """Return the hyperparameter sets that the code defines instead of files, by name.

        Each set has `global_batch_size`, `learning_rate`, and `lr_scaling`. If the workload has a
        target, each set also has `max_epochs`.
        """
        return {}

    @classmethod
    @abstractmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return the sample counts of the prepared data in `settings.data_dir`.

        Under `profile=synthetic`, the method returns the sample counts of the published data set.

        Raises:
            ValueError: The data is missing or does not match the settings. The message contains the
                remedy.
        """

    @classmethod
    def resolve(cls, settings: Settings) -> Settings:
        """Check and prepare additional files that the settings name, and return the settings.

        An example is the file of `backbone.weights`.

        Raises:
            ValueError: A file is missing or invalid. The message is a single line.
        """
        return settings

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return a lower bound of a sample's activation memory in bytes.

        Activation memory stores activations until the backward pass. The result 0 means that the
        memory is unknown.

        Planning rejects batches whose activations do not fit into device memory.
        """
        return 0

    @classmethod
    def state_bytes(cls, settings: Settings) -> int:
        """Return a lower bound of a device's memory for parameters, gradients, and optimizer state.

        The unit is bytes. 0 means that the memory is small or unknown.

        Planning rejects runs that do not fit into memory.
        """
        return 0

    # -- a run: settings, data set, schedule
    # ----------------------------------------------------------------------

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        self.settings = settings
        self.dataset_info = dataset_info
        self.options: Any = build_options(self.Options, settings)
        """Instance of `Options` with the values of the run."""

    @property
    def round(self) -> Round:
        """Return the round of the run.

        The properties of the round come from `Settings.round`, which planning sets.
        """
        return Round(**self.settings.round)

    @property
    def epoch_samples(self) -> EpochSamples:
        """Return the number of samples in an epoch.

        By default, an epoch contains each training sample once.
        """
        return EpochSamples(self.dataset_info.train_samples)

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps in an epoch.

        By default, the last batch of an epoch may be smaller than all other batches.
        """
        return num_steps(self.epoch_samples.trained, self.settings.global_batch_size)

    @cached_property
    def epochs(self) -> EpochSchedule:
        """Return the first step of each epoch.

        Workloads whose epochs have different numbers of steps override this property.
        """
        return EpochSchedule(lambda epoch: self.steps_per_epoch)

    @abstractmethod
    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step. Step numbers start at 0."""

    @property
    def warmup_steps(self) -> int:
        """Return the number of warm-up steps before the learning rate reaches its peak.

        By default, the learning rate has no warm-up.
        """
        return 0

    @property
    def first_decay_step(self) -> int | None:
        """Return the first step whose learning rate is lower than in the previous step.

        The result is None if the learning rate never decays, or if it decays directly after the
        warm-up.
        """
        return None

    def evaluation_steps(self) -> Iterator[int]:
        """Yield the numbers of completed steps after which the model is evaluated.

        The step numbers are ascending, and the iterator is infinite.
        """
        return (self.epochs.start(epoch) for epoch in itertools.count(1))

    # -- training: trainers and the loop
    # --------------------------------------------------------------------------

    every_step_uses_every_parameter: ClassVar[bool] = True
    """False if a step uses only some parameters, depending on its data. Trainers then do not
    treat the computation graph as static.
    """

    @abstractmethod
    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of all arrays in a training batch of one replica.

        The sequence contains a mapping for each padded shape of a batch, with the largest shape
        first.
        """

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of the model's inputs in evaluation, in the form of `shapes`.

        If the sequence is empty, the first evaluation compiles the model for these shapes.
        """
        return []

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Return a batch of the given shapes for the warm-up of a trainer.

        The values of the batch are zeros, and each sample has a weight of 1.
        """
        import numpy as np

        arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
        count = next(iter(specs.values())).shape[0]
        return Batch(arrays, float(count), float(count), count)

    @abstractmethod
    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Yield the canonical name and the float32 values of each parameter.

        The values are identical in every framework.

        The iterator may include batch-norm statistics (`….running_mean`, `….running_var`). Running
        means that are not included start at 0, and running variances start at 1.
        """

    @abstractmethod
    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Open the prepared data. The training loop calls this method after `run_start`."""

    def optimizer(self) -> OptimizerSettings:
        """Return the settings of the optimizer.

        By default, the optimizer is `options.optimizer`. Its settings are all options whose names
        are fields of `OptimizerSettings`.
        """
        values = vars(self.options)
        if "optimizer" not in values:
            raise NotImplementedError(
                f"{type(self).__name__}: `Options` has no field `optimizer`. Override `optimizer`"
            )
        common = {
            item.name: values[item.name]
            for item in fields(OptimizerSettings)
            if item.name in values
        }
        return OptimizerSettings(
            **{**common, "name": values["optimizer"], "loss_scaling": self.loss_scaling}
        )

    @final
    def update_settings(self) -> OptimizerSettings:
        """Return `optimizer()` after checking the number of accumulation steps.

        The method raises ValueError if a replica's batch cannot be split into equal micro-batches
        for gradient accumulation.
        """
        settings = self.optimizer()
        pieces = settings.accumulation_steps
        counts = (
            (spec.shape[0] for specs in self.shapes() for spec in specs.values())
            if pieces > 1
            else ()
        )
        for count in sorted(set(counts)):
            if count % pieces:
                raise ValueError(
                    f"accumulation_steps={pieces}: a device's batch of {count} cannot be cut into"
                    f" {pieces} equal pieces. Set batch=per_device:N with N a multiple of {pieces}"
                )
        return settings

    @property
    def loss_scaling(self) -> LossScaling:
        """Return the loss scaling of the run.

        In fp16, the trainer defines the loss scaling (`TrainerInfo`). Other precisions use no loss
        scaling.
        """
        if self.settings.precision != "fp16":
            return LossScaling()
        return get_trainer(type(self), self.settings.framework).fp16_loss_scaling

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """Return the update rule of a parameter by its canonical name.

        By default, a parameter is trained without weight decay.
        """
        return ParameterRule()

    # -- quality
    # ----------------------------------------------------------------------------------------------

    measure_threads: int = 0
    """Number of threads that run `eval_batch_metrics` while the device computes. With 0,
    `eval_batch_metrics` runs between two batches.
    """

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return small per-sample results of an evaluation batch from the trainer's outputs.

        Several threads may call this method concurrently.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override `eval_batch_metrics`")

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return the value of each metric from the results of all samples.

        `results` contains the concatenated results of all batches and workers.

        Metrics with a target come first in the returned dict. All other metrics, such as a
        validation loss, are also logged.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override `compute_metrics`")

    # -- keys of the log
    # ------------------------------------------------------------------------------------------

    length_dependent_log_keys: ClassVar[frozenset[str]] = frozenset()
    """Log keys whose values depend on the lengths of the training samples. The lengths are
    unknown if only the published sample counts are available.
    """

    def log_keys(self) -> Mapping[str, Json]:
        """Return the log keys that the rules require, with their values.

        Keys that the training loop logs are not included.
        """
        return {}

    def log_metadata(self) -> Mapping[str, Mapping[str, Json]]:
        """Return the metadata of the keys in `log_keys`."""
        return {}

    def metric_signatures(self) -> Mapping[str, Json]:
        """Return the exact definition of each metric whose name is ambiguous.

        The definitions are logged in `suite_run`.
        """
        return {}

    def summarize_step_times(self, seconds: Sequence[float], how: str) -> Mapping[str, Json]:
        """Return log keys and values that replace the default statistics of step times.

        A workload overrides this method if the steps of the workload do different amounts of work.

        Args:
            seconds: Time of each step after `timing.warmup_steps`.
            how: Clock that measured the times.

        Returns:
            Log keys and values. If the mapping is empty, the training loop logs the default
            statistics.
        """
        return {}
