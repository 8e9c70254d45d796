"""What PyTorch trainers of image models have beyond ModelTrainer: channels-last, running statistics.

Batches hold `image`: uint8 (B, H, W, 3), and what the model's loss needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workloads.api import Batch, TrainStats, WorkerContext, Workload
from workloads.frameworks.pytorch.model import ModelTrainer
from workloads.frameworks.pytorch.norms import BatchNorm


class ImageTrainer(ModelTrainer):
    """A model of images with batch norm; running statistics carry canonical names."""

    inputs: tuple[str, ...] = ("image", "label")
    evaluation_inputs: tuple[str, ...] = ("image",)
    memory_format = torch.channels_last

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True
        BatchNorm.fused = self.settings.options.get("fused_norms") == "on"

    def tensors(self) -> dict[str, Tensor]:
        return {**self.parameters, **self.statistics()}

    def statistics(self) -> dict[str, Tensor]:
        """Running means and variances by name; a model starts with 0 and 1."""
        return {name: value for name, value in self.model.named_buffers() if "running" in name}

    def outputs(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return a classifier's `logits` (B, K)."""
        return {"logits": model(batch["image"]).float()}

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; at the end the replicas' statistics are averaged, which training does not notice."""
        stats = super().train(steps, first_step)
        if self.worker.world_size > 1:
            for statistic in self.statistics().values():
                dist.all_reduce(statistic)
                statistic /= self.worker.world_size
        return stats
