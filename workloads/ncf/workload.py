"""Recommendation: NCF (NeuMF) on MovieLens-20M, MLPerf Training v0.5.

This module does not import a framework.
"""

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
from workloads.ncf.data import NCFData, evaluation_users_per_batch, sample_on_device
from workloads.ncf.dataset_info import load_dataset_info, published_facts
from workloads.ncf.metrics import hit_rate, hits
from workloads.ncf.settings import DEMO_MODEL, REFERENCE_MODEL, NCFOptions
from workloads.ncf.sharding import SAMPLES_PER_POSITIVE, SyntheticNCFData

REFERENCE_PARAMETERS = 31_832_577
"""Number of parameters for the users and items of ML-20M (reference neumf.py)."""


class NCF(Workload):
    """Recommendation with neural collaborative filtering."""

    name = "ncf"
    mlperf_name = "ncf"
    sample_unit = "samples"
    default_rules = "v0.5"
    gpu_precisions = (
        "tf32",
        "bf16",
    )  # v0.5 does not allow tf32. Memory bandwidth limits the speed of small matrix products.
    reference_model = REFERENCE_MODEL
    runs_required = 100
    Options = NCFOptions
    options: NCFOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.data: NCFData | None = None
        """Input pipeline that was opened most recently.

        If a trainer generates samples on the device, it reads the training positives from this
        pipeline.
        """
        # The call raises an error for unsupported settings before the run starts.
        sample_on_device(settings)
        self.measure_threads = 0 if settings.device == "cpu" else 1
        if dataset_info.sizes == published_facts().sizes and settings.profile != "demo":
            count = weights.parameter_count(self.users, self.items, settings.model)
            assert count == REFERENCE_PARAMETERS, (
                f"{count} parameters, not the reference's {REFERENCE_PARAMETERS}"
            )

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the defaults of a profile.

        Only round v0.5 includes NCF. Demos have the same target as round v0.5.
        """
        demo = Defaults("ml-demo", "demo", DEMO_MODEL, round.targets)
        return round.defaults(cls.name, profile, REFERENCE_MODEL, demo)

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return the sizes of the prepared data set.

        With `profile=synthetic`, the method returns the published sizes of ML-20M.
        """
        return (
            load_dataset_info(Path(settings.data_dir)) if settings.data_dir else published_facts()
        )

    @property
    def users(self) -> int:
        """Return the number of users in the data set."""
        return self.dataset_info.sizes["users"]

    @property
    def items(self) -> int:
        """Return the number of items in the data set."""
        return self.dataset_info.sizes["items"]

    @property
    def epoch_samples(self) -> EpochSamples:
        """Return the number of samples in an epoch: every positive with four negatives.

        An epoch of ML-20M has 99,308,850 samples.
        """
        return EpochSamples(SAMPLES_PER_POSITIVE * self.dataset_info.train_samples)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate, which is constant as in the reference.

        All published submissions also use a constant learning rate.
        """
        return self.options.learning_rate

    def optimizer(self) -> OptimizerSettings:
        values = self.options
        return OptimizerSettings(
            "adam", beta1=values.beta1, beta2=values.beta2, epsilon=values.epsilon
        )

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the array shapes of a replica's full batch.

        If the last batch of an epoch is smaller, the sequence also contains the shapes of this
        batch.
        """
        replicas = self.settings.devices
        full = math.ceil(self.settings.global_batch_size / replicas)
        samples = self.epoch_samples.trained
        last = math.ceil((samples % self.settings.global_batch_size) / replicas)
        sizes = sorted({min(full, math.ceil(samples / replicas)), last} - {0}, reverse=True)
        kinds = {"user": "int32", "item": "int32", "label": "float32", "weight": "float32"}
        return [
            {name: ArraySpec((size,), dtype) for name, dtype in kinds.items()} for size in sizes
        ]

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the array shapes of a full batch of users with all their candidates."""
        users = evaluation_users_per_batch(self.settings, self.users, self.settings.devices)
        candidates = (users, sampling.EVALUATION_NEGATIVES + 1)
        return [{"user": ArraySpec((users,), "int32"), "item": ArraySpec(candidates, "int32")}]

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return weights.initial_weights(self.users, self.items, self.settings.model, seed)

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Open the prepared arrays.

        The first evaluation draws the evaluation negatives. Evaluation negatives are never stored
        with the data.
        """
        if self.settings.profile == "synthetic":
            return SyntheticNCFData(self.settings, self.dataset_info, worker, seed)
        self.data = NCFData(self.settings, self.dataset_info, worker, seed)
        return self.data

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return whether the test item of each user is among the ten best candidates.

        Padding users are excluded.
        """
        hit = hits(outputs["logits"], batch.arrays["item"])
        return {"hit": hit[batch.arrays["valid"]]}

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return HR@10 over all users.

        The method raises ValueError if the number of evaluated users differs from the number of
        users in the data set.
        """
        hit = np.asarray(results["hit"], dtype=bool)
        if hit.size != self.users:
            raise ValueError(f"evaluation covered {hit.size} of {self.users} users")
        return {"hr_at_10": hit_rate(hit)}

    def log_keys(self) -> Mapping[str, Json]:
        """Return the log keys that the v0.5 rules require, with their names in later rounds."""
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
