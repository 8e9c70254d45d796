"""Trainers of GNMT, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import LossScaling, TrainerInfo

_FP16_SCALING = LossScaling("dynamic", start=8_192.0, growth_interval=128, maximum=8_192.0)
"""Loss scaling of the GNMT reference (fp_optimizers.py, train.py)."""

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.gnmt.pytorch:GNMTTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        linear_backend=True,
        fp16_loss_scaling=_FP16_SCALING,
    ),
    "tensorflow": TrainerInfo("workloads.gnmt.tensorflow:GNMTTrainer", precisions=("fp32", "tf32")),
    "mxnet": TrainerInfo("workloads.gnmt.mxnet:GNMTTrainer"),
    "jax": TrainerInfo("workloads.gnmt.jax:GNMTTrainer", precisions=("fp32", "bf16", "tf32")),
}
