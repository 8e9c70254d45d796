"""Trainers of the zoo's networks, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import TrainerInfo

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.zoo.pytorch:ZooTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        async_updates=True,
    ),
    "tensorflow": TrainerInfo(
        "workloads.zoo.tensorflow:ZooTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        async_updates=True,
    ),
    "mxnet": TrainerInfo(
        "workloads.zoo.mxnet:ZooTrainer", precisions=("fp32", "fp16"), async_updates=True
    ),
    "jax": TrainerInfo("workloads.zoo.jax:ZooTrainer", precisions=("fp32", "bf16", "tf32")),
}
