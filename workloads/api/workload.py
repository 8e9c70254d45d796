"""Interface of a workload, without a framework.

It has the data, model, schedule, metrics, and log keys of a benchmark.
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
    """A benchmark. An instance belongs to one run, in the controller and in each worker.

    A new workload defines `name`, `mlperf_name`, and the abstract methods `defaults`,
    `load_dataset_info`, `learning_rate`, `shapes`, `initial_weights` and `open_data`. A workload
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

    Each field is set as `workload.NAME`, or as its key, such as `key="data.decode"`.
    """
    default_rules: ClassVar[str] = "v0.7"
    """Round of `rules=auto`."""
    sample_unit: ClassVar[str] = "samples"
    """Unit of `samples_per_second`: `images`, `sentence pairs`, …"""
    extra_throughput_units: ClassVar[tuple[str, ...]] = ()
    """Additional units of throughput, such as `tokens`.

    Each training batch counts them in `global_counts`.
    """
    batch_unit: ClassVar[str] = "samples"
    """Unit of `global_batch_size`: `samples`, `tokens` or `bytes`."""
    gpu_precisions: ClassVar[tuple[str, ...]] = ("bf16", "fp16", "tf32")
    """Choices of `precision=auto` on GPUs.

    The first that trainer, device and rules allow is used, or else fp32. bf16 comes first, although
    NVIDIA's v0.7 submissions use fp16, because it needs no loss scaling.
    """
    reference_model: ClassVar[Mapping[str, Json]] = {}
    """Parameters of the reference model, to which rows of closed rules refer as `reference_model`.
    """
    known_deviations: ClassVar[tuple[str, ...]] = ()
    """Differences from the reference implementation in every run under closed rules.

    Each is a sentence.
    """
    runs_required: ClassVar[int] = 0
    """Number of runs in an official result. 0: no rules cover the workload."""

    @classmethod
    @abstractmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the data set, hyperparameter set, model and targets of a profile.

        Args:
            profile: `reference`, `demo` or `synthetic`.
            round: Round of the run. `Round.defaults` covers workloads that a round lists.
            options: Options that the user set, by field name.

        Raises:
            ValueError: The workload does not have the profile, or an option is invalid.
        """

    @classmethod
    def hyperparameter_sets(cls) -> Mapping[str, Mapping[str, Hyperparameter]]:
        """Return hyperparameter sets that are not files, by name.

        Each has `global_batch_size`, `learning_rate` and `lr_scaling`. If the workload has
        a target, each set also has `max_epochs`.
        """
        return {}

    @classmethod
    @abstractmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return the counts of the prepared data in `settings.data_dir`.

        Under `profile=synthetic`, return published counts.

        Raises:
            ValueError: The data is missing or does not suit the settings. The message names the
                remedy.
        """

    @classmethod
    def resolve(cls, settings: Settings) -> Settings:
        """Check and prepare further files that the settings name, and return the settings.

        Example: `backbone.weights`.

        Raises:
            ValueError: A file is missing or invalid. The message is a single line.
        """
        return settings

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return a lower bound of the bytes of a sample until the backward pass.

        0 means unknown.

        Planning refuses batches that do not fit into memory.
        """
        return 0

    # -- a run: settings, data set, schedule
    # ----------------------------------------------------------------------

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        self.settings = settings
        self.dataset_info = dataset_info
        self.options: Any = build_options(self.Options, settings)
        """`Options` with the values of the run."""

    @property
    def round(self) -> Round:
        """Round of the run, with the figures that planning wrote into `Settings.round`."""
        return Round(**self.settings.round)

    @property
    def epoch_samples(self) -> EpochSamples:
        """Samples of an epoch. Default: each training sample once."""
        return EpochSamples(self.dataset_info.train_samples)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch. Default: the last batch of an epoch may be smaller."""
        return num_steps(self.epoch_samples.trained, self.settings.global_batch_size)

    @cached_property
    def epochs(self) -> EpochSchedule:
        """First step of each epoch.

        Workloads whose epochs differ in their number of steps override it.
        """
        return EpochSchedule(lambda epoch: self.steps_per_epoch)

    @abstractmethod
    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""

    @property
    def warmup_steps(self) -> int:
        """Steps until the warm-up has reached the peak rate. Default: no warm-up."""
        return 0

    @property
    def first_decay_step(self) -> int | None:
        """First step with a lower rate than the step before.

        None: the rate never decays, or decays from the warm-up on.
        """
        return None

    def evaluation_steps(self) -> Iterator[int]:
        """Yield the numbers of completed steps after which to evaluate.

        They are in ascending order, without end.
        """
        return (self.epochs.start(epoch) for epoch in itertools.count(1))

    # -- training: trainers and the loop
    # --------------------------------------------------------------------------

    every_step_uses_every_parameter: ClassVar[bool] = True
    """False: the parameters that a step uses depend on its data, so trainers do not treat the graph
    as fixed.
    """

    @abstractmethod
    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of all arrays of a training batch of one replica.

        There is an item for each padded shape, the largest first.
        """

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of the model's inputs in evaluation, as `shapes`.

        Empty: the first evaluation compiles them.
        """
        return []

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Return a batch of the given shapes for the warm-up of a trainer.

        Its values are zeros, with a weight of 1 per sample.
        """
        import numpy as np

        arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
        count = next(iter(specs.values())).shape[0]
        return Batch(arrays, float(count), float(count), count)

    @abstractmethod
    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Yield the canonical name and the float32 values of each parameter.

        They are the same in every framework.

        Statistics of batch norm (`….running_mean`, `….running_var`) may be included. Missing
        statistics start at 0 and 1.
        """

    @abstractmethod
    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Open the prepared data. The loop calls this after `run_start`."""

    def optimizer(self) -> OptimizerSettings:
        """Return the settings of the optimizer.

        Default: `options.optimizer`, and options named as `OptimizerSettings`.
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
        """Return `optimizer()`.

        Raises ValueError if a replica's batch cannot be cut into equal pieces for accumulation.
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
        """Loss scaling of the run.

        It is the scaling of its trainer (`TrainerInfo`) in fp16, and no scaling in other
        precisions.
        """
        if self.settings.precision != "fp16":
            return LossScaling()
        return get_trainer(type(self), self.settings.framework).fp16_loss_scaling

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """Return the update rule of a parameter by its canonical name.

        Default: trained, without weight decay.
        """
        return ParameterRule()

    # -- quality
    # ----------------------------------------------------------------------------------------------

    measure_threads: int = 0
    """Threads that run `eval_batch_metrics` while the device computes. 0: it runs between two
    batches.
    """

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return small per-sample results of an evaluation batch from the outputs of the trainer.

        Threads may call this.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override `eval_batch_metrics`")

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return the value of each metric from the results of all samples.

        The results are joined over batches and workers.

        Metrics with a target come first. Other metrics, such as a validation loss, are logged too.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override `compute_metrics`")

    # -- keys of the log
    # ------------------------------------------------------------------------------------------

    length_dependent_log_keys: ClassVar[frozenset[str]] = frozenset()
    """Log keys that depend on the lengths of the training samples, which the published counts do
    not include.
    """

    def log_keys(self) -> Mapping[str, Json]:
        """Return the keys and values that the rules require in the log.

        The keys of the loop are not among them.
        """
        return {}

    def log_metadata(self) -> Mapping[str, Mapping[str, Json]]:
        """Return the metadata of keys of `log_keys`."""
        return {}

    def metric_signatures(self) -> Mapping[str, Json]:
        """Return the exact definition of each metric whose name does not define it.

        It is for `suite_run` in the log.
        """
        return {}

    def summarize_step_times(self, seconds: Sequence[float], how: str) -> Mapping[str, Json]:
        """Return log keys and values that replace the statistics of step times.

        A workload needs them if its steps differ in their work.

        Args:
            seconds: Time of each step after `timing.warmup_steps`.
            how: Clock that measured the times.

        Returns:
            Keys and values. Empty: the loop logs the statistics.
        """
        return {}
