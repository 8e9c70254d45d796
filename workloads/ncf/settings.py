"""Settings of NCF: options and model sizes."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.api import WorkloadOptions, hyperparameter, option
from workloads.common.cores import DataThreadsOptions

REFERENCE_MODEL = {"mf_dim": 64, "mlp_layer_sizes": [256, 256, 128, 64]}
"""Model settings of the reference (neumf.py).

The first MLP size is the number of columns of the concatenated input, so each MLP embedding has 128
columns.
"""
DEMO_MODEL = {"mf_dim": 16, "mlp_layer_sizes": [64, 64, 32, 16]}


@dataclass(frozen=True, kw_only=True)
class NCFOptions(DataThreadsOptions, WorkloadOptions):
    """Options `workload.*` of NCF.

    NCF uses Adam with a constant learning rate and without weight decay.
    """

    name: str = "ncf"
    learning_rate: float = hyperparameter("Adam's step size", minimum=0.0)
    beta1: float = hyperparameter("Adam's first decay", minimum=0.0)
    beta2: float = hyperparameter("Adam's second decay", minimum=0.0)
    epsilon: float = hyperparameter("Adam's epsilon", minimum=0.0)
    evaluation_users_per_batch: int | None = option(
        None,
        "users per device and evaluation step, each with 1,000 candidates; null: 64 on a CPU, 1,048"
        " on a GPU",
        minimum=1,
    )
    sample_on_device: str = option(
        "auto",
        "draw training samples on the device, bit for bit those of the host; auto: PyTorch on GPUs",
        choices=("auto", "on", "off"),
    )
    target: float | None = option(None, "HR@10 to reach; null: the profile's", minimum=0.0)
