"""Base of the PyTorch trainers of image models.

The base class adds channels-last layout and running statistics to ModelTrainer.

Batches contain `image`, uint8 (B, H, W, 3), and the arrays of the model's loss.
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
    """Trainer of an image model with batch norm.

    Running statistics have the same names in all frameworks.
    """

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
        """Return the running means and variances by name.

        The initial means are 0, and the initial variances are 1.
        """
        return {name: value for name, value in self.model.named_buffers() if "running" in name}

    def outputs(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the `logits` (B, K) of a classifier."""
        return {"logits": model(batch["image"]).float()}

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run one optimizer step per list of batches, then average the running statistics.

        The running statistics are averaged over the replicas. The average does not influence
        training.
        """
        stats = super().train(steps, first_step)
        if self.worker.world_size > 1:
            for statistic in self.statistics().values():
                dist.all_reduce(statistic)
                statistic /= self.worker.world_size
        return stats
