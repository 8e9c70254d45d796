"""ResNet v1.5 in PyTorch, in channels-last layout.

The shapes use these symbols: B images of a replica, S pixels per side, K classes. Images are uint8
(B, S, S, 3) and are normalized on the device. Parameters and running statistics have torchvision's
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.frameworks.pytorch.images import ImageTrainer
from workloads.frameworks.pytorch.norms import BatchNorm
from workloads.frameworks.pytorch.residual import Trunk
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50

_norm = partial(BatchNorm, eps=network.BATCH_NORM_EPSILON, momentum=network.BATCH_NORM_MOMENTUM)


class ResNet(Trunk):
    """ResNet network from uint8 images (B, S, S, 3) to fp32 logits (B, K)."""

    def __init__(self, layers: network.Network) -> None:
        super().__init__(layers.stem, layers.blocks, _norm)
        self.register_buffer("mean", torch.tensor(network.MEAN).view(1, 3, 1, 1), persistent=False)
        self.fc = nn.Linear(layers.features, layers.classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, K) for images (B, S, S, 3)."""
        x = self.trunk(images.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean)
        return self.fc(x.mean((2, 3))).float()


class ResNetTrainer(ImageTrainer):
    """ResNet trainer for one device."""

    workload: ResNet50

    def build(self) -> nn.Module:
        return ResNet(self.workload.network)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the cross-entropy with smoothed labels, summed over the images."""
        with self.autocast():
            logits = model(batch["image"])
        smoothing = self.workload.options.label_smoothing
        return F.cross_entropy(
            logits, batch["label"].long(), reduction="sum", label_smoothing=smoothing
        )
