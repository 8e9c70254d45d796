"""Trainers of Mask R-CNN, by framework."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import LossScaling, TrainerInfo

_FP16_SCALING = LossScaling("dynamic", start=2.0**16, growth_interval=2_000)
"""Loss scaling of the reference, which uses apex AMP and skips steps whose gradients overflow."""

TRAINERS: Mapping[str, TrainerInfo] = {
    "pytorch": TrainerInfo(
        "workloads.maskrcnn.pytorch:MaskRCNNTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        linear_backend=True,
        fp16_loss_scaling=_FP16_SCALING,
    ),
    "tensorflow": TrainerInfo(
        "workloads.maskrcnn.tensorflow:MaskRCNNTrainer",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        fp16_loss_scaling=_FP16_SCALING,
    ),
    "mxnet": TrainerInfo("workloads.maskrcnn.mxnet:MaskRCNNTrainer"),
    "jax": TrainerInfo(
        "workloads.maskrcnn.jax:MaskRCNNTrainer", precisions=("fp32", "bf16", "tf32")
    ),
}
