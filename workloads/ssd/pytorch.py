"""SSD on a ResNet-34 trunk in PyTorch, in channels-last layout.

The shapes use these symbols: B images of a replica, S pixels per side, C classes without
background, P priors. Images are uint8 (B, S, S, 3) and are normalized on the device. network.py
lists the names of parameters and running statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.frameworks.pytorch.images import ImageTrainer
from workloads.frameworks.pytorch.norms import BatchNorm
from workloads.frameworks.pytorch.residual import Trunk, convolution
from workloads.ssd import network
from workloads.ssd.settings import SSDOptions
from workloads.ssd.workload import SSD

_norm = partial(BatchNorm, eps=network.BATCH_NORM_EPSILON, momentum=network.BATCH_NORM_MOMENTUM)


class Extra(nn.Module):
    """A 1×1 and a 3×3 convolution with ReLU, which compute the next coarser feature map."""

    def __init__(self, pair: tuple[network.Convolution, network.Convolution]) -> None:
        super().__init__()
        self.conv1, self.conv2 = (convolution(layer) for layer in pair)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next coarser feature map."""
        return F.relu(self.conv2(F.relu(self.conv1(x), inplace=True)), inplace=True)


class Detector(Trunk):
    """SSD network.

    The network maps uint8 images (B, S, S, 3) to fp32 offsets (B, 4, P) and logits (B, C + 1, P).
    """

    def __init__(self, layers: network.Network) -> None:
        super().__init__(layers.stem, layers.blocks, _norm)
        mean, deviation = (
            torch.tensor(values).view(1, 3, 1, 1)
            for values in (network.MEAN, network.STANDARD_DEVIATION)
        )
        self.register_buffer("scale", 1 / (255 * deviation), persistent=False)
        self.register_buffer("shift", mean / deviation, persistent=False)
        self.classes = layers.classes
        for number, pair in enumerate(layers.extras, start=1):
            self.add_module(f"extra{number}", Extra(pair))
        for head in (*layers.box_heads, *layers.class_heads):
            self.add_module(head.name, convolution(head))
        self.maps = len(layers.box_heads)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return offsets (B, 4, P) and logits (B, C + 1, P) for images (B, S, S, 3)."""
        x = self.trunk(images.permute(0, 3, 1, 2).to(self.scale.dtype) * self.scale - self.shift)
        offsets, logits = [], []
        for number in range(1, self.maps + 1):
            if number > 1:
                x = getattr(self, f"extra{number - 1}")(x)
            # In the channels, the outer index is the coordinate (or class), and the inner index is
            # the box shape. The outputs are therefore in the order of the priors.
            offsets.append(getattr(self, f"box{number}")(x).reshape(len(x), 4, -1))
            logits.append(getattr(self, f"class{number}")(x).reshape(len(x), self.classes + 1, -1))
        return torch.cat(offsets, 2).float(), torch.cat(logits, 2).float()


def detection_loss(
    offsets: Tensor, logits: Tensor, wanted: Tensor, labels: Tensor, options: SSDOptions
) -> Tensor:
    """Return the sum of the images' losses.

    The loss of an image is the smooth L1 loss of the positives' offsets plus the cross-entropy of
    the positives and the mined negatives, divided by the number of positives. The loss of an image
    without positives is 0. The mined negatives are the negatives with the largest cross-entropy.
    Each positive has `options.negatives_per_positive` mined negatives.

    `offsets` and `logits` are the outputs of `Detector`, `wanted` (B, 4, P) contains the target
    offsets, and `labels` (B, P) is 0 for background.
    """
    positive = labels > 0
    count = positive.sum(1)
    entropy = F.cross_entropy(logits, labels, reduction="none")
    with torch.no_grad():
        # The positives come last. Priors with equal cross-entropy are ordered by index.
        ranked = entropy.masked_fill(positive, -1.0).argsort(dim=1, descending=True, stable=True)
        mined = (options.negatives_per_positive * count).minimum((~positive).sum(1))
        place = torch.arange(labels.shape[1], device=labels.device)
        counted = torch.zeros_like(positive).scatter_(1, ranked, place < mined[:, None]) | positive
    of_boxes = F.smooth_l1_loss(offsets, wanted, reduction="none").sum(1)
    total = (of_boxes * positive + entropy * counted).sum(1)
    return (total / count.clamp(min=1)).sum()


class SSDTrainer(ImageTrainer):
    """SSD trainer for one device."""

    workload: SSD
    inputs = ("image", "offset", "label")

    def build(self) -> nn.Module:
        return Detector(self.workload.network)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the `detection_loss` of a batch.

        The loss is computed in fp32, even if the network uses a lower precision.
        """
        with self.autocast():
            offsets, logits = model(batch["image"])
        return detection_loss(
            offsets, logits, batch["offset"], batch["label"].long(), self.workload.options
        )

    def outputs(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the outputs `offsets` (B, 4, P) and `logits` (B, C + 1, P)."""
        offsets, logits = model(batch["image"])
        return {"offsets": offsets, "logits": logits}
