"""Small LLM pretraining: Llama 3.1 8B on C4, MLPerf Training v5.1.

This module does not import a framework.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from workloads.api import (
    Array,
    Arrays,
    ArraySpec,
    Batch,
    DataPipeline,
    DatasetInfo,
    Defaults,
    EpochSamples,
    Json,
    ParameterRule,
    Round,
    Settings,
    WorkerContext,
    Workload,
    check_evaluation_coverage,
)
from workloads.llama31_8b.data import TokenData, evaluation_share
from workloads.llama31_8b.dataset import load_dataset_info, published_dataset_info
from workloads.llama31_8b.network import REFERENCE_PARAMETERS, Network
from workloads.llama31_8b.settings import (
    DEMO_EVALUATION_INTERVAL,
    DEMO_EVALUATION_SAMPLES,
    DEMO_MODEL,
    DEMO_TARGET,
    EVALUATION_INTERVAL,
    EVALUATION_SAMPLES,
    METRIC,
    REFERENCE_MODEL,
    LlamaOptions,
)

STATE_BYTES_PER_PARAMETER = 16
"""Bytes of the fp32 value, gradient, and two moments of a parameter."""


def shards(settings: Settings) -> bool:
    """Return True if each device of a run holds only a part of the parameters."""
    chosen = settings.options.get("sharding") or "auto"
    return chosen == "shard" or (chosen == "auto" and settings.profile != "demo")


class Llama(Workload):
    """Pretraining of a language model from scratch."""

    name = "llama31_8b"
    mlperf_name = "llama31_8b"
    sample_unit = "sequences"
    extra_throughput_units = ("tokens",)
    default_rules = "v5.1"
    falling_metrics = frozenset({METRIC})
    epoch_unit = "samples"
    gpu_precisions = ("bf16", "tf32")
    reference_model = REFERENCE_MODEL
    known_deviations = (
        "an epoch is one permutation of the windows; the reference shuffles several copies of the"
        " corpus together",
        "the validation windows keep their order; the reference permutes them before it takes the"
        " first 1,024",
    )
    runs_required = 10
    Options = LlamaOptions
    options: LlamaOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.network = Network.of(settings.model)
        size, devices = settings.global_batch_size, settings.devices
        if size % devices:
            raise ValueError(
                f"batch=global:{size}: {devices} devices cannot share {size} sequences evenly. Set"
                f" batch=global:{max(1, size // devices) * devices}"
            )
        if dict(settings.model) == dict(REFERENCE_MODEL):
            count = self.network.parameter_count()
            assert count == REFERENCE_PARAMETERS, f"{count} parameters"

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        demo = Defaults("llama-demo", "demo", DEMO_MODEL, {METRIC: DEMO_TARGET})
        return round.defaults(cls.name, profile, REFERENCE_MODEL, demo)

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return the sample counts of the prepared data.

        With `profile=synthetic`, the counts of the published C4 files are returned.
        """
        length = int(settings.model["sequence_length"])
        evaluation = DEMO_EVALUATION_SAMPLES if settings.profile == "demo" else EVALUATION_SAMPLES
        if not settings.data_dir:
            return published_dataset_info(length, evaluation)
        return load_dataset_info(settings.data_dir, length, evaluation)

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return the memory of a sequence's activations that the backward pass needs, in bytes.

        Only the activations of a micro-batch exist at the same time, so the memory is divided by
        the number of micro-batches. In bf16, a token and layer need 34 · hidden bytes, or 2 ·
        hidden bytes with recomputation (derived: 139,264 and 8,192 bytes at the reference size).
        """
        network = Network.of(settings.model)
        narrow = 1 if settings.precision in ("bf16", "fp16") else 2
        per_value = 2 if settings.options.get("recompute") else 34
        whole = network.layers * network.hidden * network.sequence_length * per_value * narrow
        return whole // max(1, int(settings.hyperparameters.get("accumulation_steps") or 1))

    @classmethod
    def state_bytes(cls, settings: Settings) -> int:
        """Return a device's memory for fp32 parameters, gradients, and two moments, in bytes."""
        whole = STATE_BYTES_PER_PARAMETER * Network.of(settings.model).parameter_count()
        return whole // settings.devices if shards(settings) else whole

    @property
    def shards(self) -> bool:
        """Return True if each device holds only a part of the parameters."""
        return shards(self.settings)

    @property
    def epoch_samples(self) -> EpochSamples:
        """Return the numbers of samples of an epoch. Windows that fill no batch are left out."""
        size = self.settings.global_batch_size
        rest = self.dataset_info.train_samples % size
        return EpochSamples(self.dataset_info.train_samples - rest, left_out=rest)

    @property
    def evaluation_interval_steps(self) -> int:
        """Return the number of steps between two evaluations (training_rules.adoc)."""
        samples = (
            DEMO_EVALUATION_INTERVAL if self.settings.profile == "demo" else EVALUATION_INTERVAL
        )
        return math.ceil(samples / self.settings.global_batch_size)

    def evaluation_steps(self) -> Iterator[int]:
        interval = self.evaluation_interval_steps
        step = 0
        while True:
            step += interval
            yield step

    @property
    def warmup_steps(self) -> int:
        return self.options.warmup_steps

    def learning_rate(self, step: int) -> float:
        """Return the rate of a step (NeMo 2.1.0, lr_scheduler.py: CosineAnnealingScheduler).

        The rate increases linearly to `learning_rate`, and then decreases along half a cosine to
        `end_rate_factor` times this rate at `max_steps`.
        """
        values = self.options
        peak, warmup = values.learning_rate, values.warmup_steps
        if step <= warmup:
            return peak * (step + 1) / (warmup + 1)
        passed = min(1.0, (step - warmup) / max(1, values.max_steps - warmup))
        end = values.end_rate_factor * peak
        return end + (peak - end) * 0.5 * (1.0 + math.cos(math.pi * passed))

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """Return the rule of a parameter: matrices decay, and vectors do not.

        Embedding and classifier are matrices (Megatron core 0.11.0, optimizer/__init__.py).
        """
        is_matrix = not parameter.endswith("norm.weight")
        return ParameterRule(decay=self.options.weight_decay if is_matrix else 0.0)

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        share = self.settings.global_batch_size // self.settings.devices
        spec = ArraySpec((share, self.network.sequence_length), "int64")
        return [{"token": spec, "label": spec}]

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        share = evaluation_share(self.settings, self.dataset_info.evaluation_samples)
        spec = ArraySpec((share, self.network.sequence_length), "int64")
        return [{"token": spec, "label": spec}]

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Return a batch of zeros whose weight is its number of tokens."""
        arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
        count, length = next(iter(specs.values())).shape
        return Batch(arrays, float(count * length), float(count * length), count)

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return self.network.initial_weights(seed)

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        return TokenData(self.settings, self.dataset_info, worker, seed)

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return the mean loss of each window, and the numbers of the windows, without padding."""
        numbers = batch.arrays["number"]
        valid = numbers >= 0
        return {
            "number": numbers[valid],
            "loss": np.asarray(outputs["loss"], np.float64)[valid],
        }

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return the mean of -log p (natural logarithm) over all tokens of the windows.

        All windows have the same number of tokens, so their mean is the mean over tokens. The mean
        is computed in the order of the windows.

        Raises:
            ValueError: A window is missing or occurs twice.
        """
        numbers = results["number"]
        check_evaluation_coverage(numbers, self.dataset_info.evaluation_samples, "sequences")
        return {METRIC: float(np.mean(results["loss"][np.argsort(numbers)]))}

    def log_keys(self) -> Mapping[str, Json]:
        """Return the log keys that the rules require (closed_llama31_8b.yaml)."""
        values = self.options
        return {
            "max_sequence_length": self.network.sequence_length,
            "max_steps": values.max_steps,
            "gradient_accumulation_steps": values.accumulation_steps,
            "opt_name": "adamw",
            "opt_base_learning_rate": values.learning_rate,
            "opt_end_learning_rate": values.end_rate_factor * values.learning_rate,
            "opt_learning_rate_warmup_steps": values.warmup_steps,
            "opt_learning_rate_decay_steps": values.max_steps - values.warmup_steps,
            "opt_learning_rate_decay_schedule": "cosine with linear warmup",
            "opt_adamw_beta_1": values.beta1,
            "opt_adamw_beta_2": values.beta2,
            "opt_adamw_epsilon": values.epsilon,
            "opt_adamw_weight_decay": values.weight_decay,
            "opt_gradient_clip_norm": values.clip_norm,
        }
