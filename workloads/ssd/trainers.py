"""Trainers of SSD, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import TrainerInfo

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.ssd.pytorch:SSDTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        max_cuda_graph_devices=1,
    ),
    "tensorflow": TrainerInfo(
        "workloads.ssd.tensorflow:SSDTrainer", precisions=("fp32", "tf32", "bf16", "fp16")
    ),
    "mxnet": TrainerInfo("workloads.ssd.mxnet:SSDTrainer", precisions=("fp32", "fp16")),
    "jax": TrainerInfo("workloads.ssd.jax:SSDTrainer", precisions=("fp32", "bf16", "tf32")),
}
