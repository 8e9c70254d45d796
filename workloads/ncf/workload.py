"""NCF: NeuMF on MovieLens-20M, MLPerf Training v0.5. Framework-free; facts in docs and constants with their sources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
    OptimizerSettings,
    Round,
    Settings,
    WorkerContext,
    Workload,
)
from workloads.ncf import sampling, weights
from workloads.ncf.data import NCFData, device_draws, evaluation_users_per_batch
from workloads.ncf.dataset_info import load_dataset_info, published_facts
from workloads.ncf.metrics import hit_rate, hits
from workloads.ncf.settings import DEMO_MODEL, REFERENCE_MODEL, NCFOptions
from workloads.ncf.sharding import SAMPLES_PER_POSITIVE, SyntheticNCFData

REFERENCE_PARAMETERS = 31_832_577
"""With ML-20M's counts (reference neumf.py)."""


class NCF(Workload):
    """Neural collaborative filtering."""

    name = "ncf"
    mlperf_name = "ncf"
    sample_unit = "samples"
    default_rules = "v0.5"
    gpu_precisions = ("tf32", "bf16")  # small matrices: more is bandwidth; the rules of v0.5 know no tf32
    reference_model = REFERENCE_MODEL
    runs_required = 100
    Options = NCFOptions
    options: NCFOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.data: NCFData | None = None
        """What was opened last: a trainer whose device draws the samples takes the positives from it."""
        device_draws(settings)  # what cannot be is said before the run
        self.measure_threads = 0 if settings.device == "cpu" else 1
        if dataset_info.sizes == published_facts().sizes and settings.profile != "demo":
            count = weights.parameter_count(self.users, self.items, settings.model)
            assert count == REFERENCE_PARAMETERS, f"{count} parameters, not the reference's {REFERENCE_PARAMETERS}"

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """NCF was part of round v0.5 alone; a demo has the round's target."""
        demo = Defaults("ml-demo", "demo", DEMO_MODEL, round.targets)
        return round.defaults(cls.name, profile, REFERENCE_MODEL, demo)

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Counts from the prepared data's manifest; ML-20M's published ones under profile=synthetic."""
        return load_dataset_info(Path(settings.data_dir)) if settings.data_dir else published_facts()

    @property
    def users(self) -> int:
        """Users of the data set."""
        return self.dataset_info.sizes["users"]

    @property
    def items(self) -> int:
        """Items of the data set."""
        return self.dataset_info.sizes["items"]

    @property
    def epoch_samples(self) -> EpochSamples:
        """Every positive with four negatives: 99,308,850 samples for ML-20M."""
        return EpochSamples(SAMPLES_PER_POSITIVE * self.dataset_info.train_samples)

    def learning_rate(self, step: int) -> float:
        """Constant: no warm-up, no decay (reference and every submission)."""
        return self.options.learning_rate

    def optimizer(self) -> OptimizerSettings:
        values = self.options
        return OptimizerSettings("adam", beta1=values.beta1, beta2=values.beta2, epsilon=values.epsilon)

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """A full batch of one replica, and the last one of an epoch where it is smaller."""
        replicas = self.settings.devices
        full = math.ceil(self.settings.global_batch_size / replicas)
        samples = self.epoch_samples.trained
        last = math.ceil((samples % self.settings.global_batch_size) / replicas)
        sizes = sorted({min(full, math.ceil(samples / replicas)), last} - {0}, reverse=True)
        kinds = {"user": "int32", "item": "int32", "label": "float32", "weight": "float32"}
        return [{name: ArraySpec((size,), dtype) for name, dtype in kinds.items()} for size in sizes]

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """One: a full batch of users, each with all candidates."""
        users = evaluation_users_per_batch(self.settings, self.users, self.settings.devices)
        candidates = (users, sampling.EVALUATION_NEGATIVES + 1)
        return [{"user": ArraySpec((users,), "int32"), "item": ArraySpec(candidates, "int32")}]

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return weights.initial_weights(self.users, self.items, self.settings.model, seed)

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Open the arrays; evaluation negatives are drawn at the first evaluation, never stored beside the data."""
        if self.settings.profile == "synthetic":
            return SyntheticNCFData(self.settings, self.dataset_info, worker, seed)
        self.data = NCFData(self.settings, self.dataset_info, worker, seed)
        return self.data

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Whether each user's test item is among the ten best; padding is dropped."""
        hit = hits(outputs["logits"], batch.arrays["item"])
        return {"hit": hit[batch.arrays["valid"]]}

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """HR@10 over every user once. Raises ValueError if the count is not the data set's."""
        hit = np.asarray(results["hit"], dtype=bool)
        if hit.size != self.users:
            raise ValueError(f"evaluation saw {hit.size} users of {self.users}")
        return {"hr_at_10": hit_rate(hit)}

    def log_keys(self) -> Mapping[str, Json]:
        """What the v0.5 rules want, under the names of the later mllog form."""
        values = self.options
        return {
            "opt_name": "adam",
            "opt_base_learning_rate": values.learning_rate,
            "opt_adam_beta_1": values.beta1,
            "opt_adam_beta_2": values.beta2,
            "opt_adam_epsilon": values.epsilon,
            "preproc_hp_min_ratings": self.dataset_info.sizes["min_ratings"],
            "preproc_hp_num_eval": sampling.EVALUATION_NEGATIVES,
            "preproc_hp_sample_eval_replacement": True,
            "input_hp_num_neg": sampling.NEGATIVES_PER_POSITIVE,
            "input_hp_sample_train_replacement": True,
            "eval_hp_num_neg": sampling.EVALUATION_NEGATIVES,
            "eval_hp_num_users": self.users,
            "model_hp_mf_dim": self.settings.model["mf_dim"],
            "model_hp_mlp_layer_sizes": list(self.settings.model["mlp_layer_sizes"]),
        }
