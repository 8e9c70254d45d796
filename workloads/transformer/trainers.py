"""Trainers of the Transformer, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import LossScaling, TrainerInfo

_FP16_SCALING = LossScaling("dynamic", start=128.0, growth_interval=2_000)
"""Loss scaling of NVIDIA's submissions (fairseq/fp16_trainer.py)."""

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.transformer.pytorch:TransformerTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        linear_backend=True,
        fp16_loss_scaling=_FP16_SCALING,
    ),
    "tensorflow": TrainerInfo(
        "workloads.transformer.tensorflow:TransformerTrainer", precisions=("fp32", "tf32")
    ),
    "mxnet": TrainerInfo("workloads.transformer.mxnet:TransformerTrainer"),
    "jax": TrainerInfo(
        "workloads.transformer.jax:TransformerTrainer", precisions=("fp32", "bf16", "tf32")
    ),
}
