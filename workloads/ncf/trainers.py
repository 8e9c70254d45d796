"""Trainers of NCF, by framework."""

from __future__ import annotations

import math
from collections.abc import Mapping

from workloads.api import TrainerInfo

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.ncf.pytorch:NCFTrainer",
        precisions=("fp32", "bf16", "tf32"),
        linear_backend=True,
        max_cuda_graph_devices=math.inf,
    ),
    "tensorflow": TrainerInfo("workloads.ncf.tensorflow:NCFTrainer", precisions=("fp32", "bf16")),
    "mxnet": TrainerInfo("workloads.ncf.mxnet:NCFTrainer"),
    "jax": TrainerInfo("workloads.ncf.jax:NCFTrainer", precisions=("fp32", "bf16", "tf32")),
}
