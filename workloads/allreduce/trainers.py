"""Trainers of the all-reduce benchmark, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import TrainerInfo

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.allreduce.pytorch:AllReduceTrainer", precisions=("fp32", "bf16", "fp16")
    ),
    "tensorflow": TrainerInfo(
        "workloads.allreduce.tensorflow:AllReduceTrainer", precisions=("fp32", "bf16", "fp16")
    ),
    "mxnet": TrainerInfo("workloads.allreduce.mxnet:AllReduceTrainer", precisions=("fp32", "fp16")),
    "jax": TrainerInfo("workloads.allreduce.jax:AllReduceTrainer", precisions=("fp32", "bf16")),
}
