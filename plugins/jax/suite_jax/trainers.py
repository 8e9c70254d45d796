"""Trainers in JAX, by workload."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import TrainerInfo

_PRECISIONS = ("fp32", "bf16", "tf32")
TRAINERS: Mapping[str, TrainerInfo] = {
    "allreduce": TrainerInfo("suite_jax.allreduce:AllReduceTrainer", precisions=("fp32", "bf16")),
    "gnmt": TrainerInfo("suite_jax.gnmt:GNMTTrainer", precisions=_PRECISIONS),
    "maskrcnn": TrainerInfo("suite_jax.maskrcnn:MaskRCNNTrainer", precisions=_PRECISIONS),
    "ncf": TrainerInfo("suite_jax.ncf:NCFTrainer", precisions=_PRECISIONS),
    "resnet50": TrainerInfo("suite_jax.resnet50:ResNetTrainer", precisions=_PRECISIONS),
    "ssd": TrainerInfo("suite_jax.ssd:SSDTrainer", precisions=_PRECISIONS),
    "transformer": TrainerInfo("suite_jax.transformer:TransformerTrainer", precisions=_PRECISIONS),
    "zoo": TrainerInfo("suite_jax.zoo:ZooTrainer", precisions=_PRECISIONS),
}
