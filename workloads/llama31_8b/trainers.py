"""Trainers of Llama 3.1 8B, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import TrainerInfo

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.llama31_8b.pytorch:LlamaTrainer", precisions=("fp32", "bf16", "tf32")
    ),
    "jax": TrainerInfo(
        "workloads.llama31_8b.jax:LlamaTrainer", precisions=("fp32", "bf16", "tf32")
    ),
}
