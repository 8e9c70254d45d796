"""NCF's settings: what a user may type, the named hyperparameter sets, the model's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Hyperparameter, HyperparameterSet, option
from workloads.common.options import DataThreadsOptions

TARGET_HR_AT_10 = 0.635
"""MLPerf Training v0.5 rules: HR@10 with 999 negatives."""

_LIMIT = Hyperparameter(20, "published: the reference stops after 20 epochs (run_and_time.sh)")
_NO_SCALING = Hyperparameter("none", "published: the sets name one global batch for every device count")


def _adam(
    source: str, batch_size: int, rate: float, beta1: float, beta2: float, epsilon: float
) -> dict[str, Hyperparameter]:
    """Adam without decay, constant learning rate."""
    values = {
        "batch_size_global": batch_size,
        "learning_rate": rate,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": epsilon,
    }
    return {name: Hyperparameter(value, source) for name, value in values.items()}


SETS: Mapping[str, HyperparameterSet] = {
    "reference": {
        **_adam("published: MLPerf v0.5 reference, recommendation/pytorch", 2_048, 5e-4, 0.9, 0.999, 1e-8),
        "lr_scaling": _NO_SCALING,
        "max_epochs": _LIMIT,
    },
    "nvidia_v0.5": {
        **_adam("published: NVIDIA v0.5, every system, run_and_time.sh", 1_048_576, 0.0045, 0.25, 0.5, 1e-8),
        "lr_scaling": _NO_SCALING,
        "max_epochs": _LIMIT,
    },
    "intel_v0.5": {
        **_adam("published: Intel SKX v0.5, run_and_time.sh", 98_304, 0.003821, 0.783529, 0.909003, 1.45439e-7),
        "lr_scaling": _NO_SCALING,
        "max_epochs": Hyperparameter(20, "presumed: the reference's limit; the script names none"),
    },
    "demo": {
        **_adam("presumed: trials on the generated data (docs/demos.md)", 8_192, 0.006, 0.9, 0.999, 1e-8),
        "lr_scaling": Hyperparameter("linear", "presumed: trials at batch 4,096 and 8,192"),
        "max_epochs": Hyperparameter(12, "presumed: about twice what the target takes"),
    },
}

REFERENCE_MODEL = {"mf_dim": 64, "mlp_layer_sizes": [256, 256, 128, 64]}
"""Reference neumf.py; the first size is the concatenated input, so the MLP embeddings have 128 each."""
DEMO_MODEL = {"mf_dim": 16, "mlp_layer_sizes": [64, 64, 32, 16]}

_TARGETS = {"hr_at_10": TARGET_HR_AT_10}
PROFILES: Mapping[str, Defaults] = {
    "reference": Defaults("ml-20m", "reference", REFERENCE_MODEL, _TARGETS),
    "demo": Defaults("ml-demo", "demo", DEMO_MODEL, _TARGETS),
    "synthetic": Defaults("ml-20m", "nvidia_v0.5", REFERENCE_MODEL, _TARGETS),
}


@dataclass(frozen=True)
class NCFHyperparameters:
    """What a set holds beside the batch size: Adam's, without decay, at a constant rate."""

    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    max_epochs: int


@dataclass(frozen=True)
class NCFOptions(DataThreadsOptions):
    """`workload.*` on the command line. Fields named like a hyperparameter override the set's value."""

    name: str = "ncf"
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    learning_rate: float | None = option(None, "Adam's step size", minimum=0.0)
    beta1: float | None = option(None, "Adam's first decay", minimum=0.0)
    beta2: float | None = option(None, "Adam's second decay", minimum=0.0)
    epsilon: float | None = option(None, "Adam's epsilon", minimum=0.0)
    max_epochs: int | None = option(None, "give up after so many epochs", minimum=1)
    evaluation_users_per_batch: int | None = option(
        None,
        "users per device and evaluation step, each with 1,000 candidates; null: 64 on a CPU, 1,048 on a GPU",
        minimum=1,
    )
    target: float | None = option(None, "HR@10 to reach", minimum=0.0)
