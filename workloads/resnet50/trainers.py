"""Trainers of ResNet-50, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import TrainerInfo

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.resnet50.pytorch:ResNetTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        max_cuda_graph_devices=1,
    ),
    "tensorflow": TrainerInfo(
        "workloads.resnet50.tensorflow:ResNetTrainer", precisions=("fp32", "tf32", "bf16", "fp16")
    ),
    "mxnet": TrainerInfo("workloads.resnet50.mxnet:ResNetTrainer", precisions=("fp32", "fp16")),
    "jax": TrainerInfo("workloads.resnet50.jax:ResNetTrainer", precisions=("fp32", "bf16", "tf32")),
}
