"""SSD on a ResNet-34 trunk in MXNet.

The shapes use these symbols: B images of a replica, S pixels per side, C classes without
background, P priors. network.py lists the names of parameters and running statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from workloads.frameworks.mxnet.graphs import Inputs, Tensor
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layers import BLOCK, ImageModel
from workloads.ssd import network
from workloads.ssd.settings import SSDOptions
from workloads.ssd.workload import SSD


class Detector(ImageModel):
    """SSD network.

    The network maps uint8 images (B, S, S, 3) to fp32 offsets (B, 4, P) and logits (B, C + 1, P).
    """

    scale = tuple(1 / (255 * deviation) for deviation in network.STANDARD_DEVIATION)
    shift = tuple(
        -mean / deviation
        for mean, deviation in zip(network.MEAN, network.STANDARD_DEVIATION, strict=True)
    )
    epsilon, momentum = network.BATCH_NORM_EPSILON, 1 - network.BATCH_NORM_MOMENTUM

    def __init__(self, layers: network.Network, half: bool, on_cpu: bool) -> None:
        super().__init__(network.shapes(layers), network.statistics(layers), half, on_cpu)
        self.layers = layers

    def __call__(self, images: Tensor) -> list[Tensor]:
        """Return the box offsets and class logits of the images."""
        F, layers = self.F, self.layers
        maps = [self.trunk(self.normalised(images), layers.stem, layers.blocks)]
        for first, second in layers.extras:
            x = self.unit(maps[-1], first, relu=True)
            maps.append(self.unit(x, second, relu=True))
        offsets, logits = [], []
        for x, box, classes in zip(maps, layers.box_heads, layers.class_heads, strict=True):
            heads = self._heads(x, box, classes)
            # In the channels, the outer index is the coordinate (or class), and the inner index is
            # the box shape. The outputs are therefore in the order of the priors.
            offsets.append(F.reshape(heads[0], (0, 4, -1)))
            logits.append(F.reshape(heads[1], (0, layers.classes + 1, -1)))
        return [F.cast(F.concat(*planes, dim=2), "float32") for planes in (offsets, logits)]

    def _heads(
        self, x: Tensor, box: network.Convolution, classes: network.Convolution
    ) -> list[Tensor]:
        """Return the outputs of both heads, computed by a single convolution.

        The output channels are padded to full oneDNN blocks, which makes the convolution three
        times as fast.
        """
        F = self.F
        empty = -(box.outputs + classes.outputs) % BLOCK
        joint = []
        for kind in ("weight", "bias"):
            parts = [
                F.cast(self.arrays[f"{head.name}.{kind}"], self.dtype) for head in (box, classes)
            ]
            if empty:
                parts.append(F.zeros_like(F.slice_axis(parts[0], axis=0, begin=0, end=empty)))
            joint.append(F.concat(*parts, dim=0))
        x = F.Convolution(
            x, *joint, num_filter=box.outputs + classes.outputs + empty, kernel=(3, 3), pad=(1, 1)
        )
        stops = (box.outputs, box.outputs + classes.outputs)
        return [
            F.slice_axis(x, axis=1, begin=begin, end=end)
            for begin, end in zip((0, stops[0]), stops, strict=True)
        ]


def detection_loss(
    F: ModuleType,
    offsets: Tensor,
    logits: Tensor,
    wanted: Tensor,
    labels: Tensor,
    options: SSDOptions,
    priors: int,
) -> Tensor:
    """Return the sum of the images' losses, (1,).

    The loss of an image is the smooth L1 loss of the positives' offsets plus the cross-entropy of
    the positives and the mined negatives, divided by the number of positives. The loss of an image
    without positives is 0. The mined negatives are the negatives with the largest cross-entropy.
    Each positive has `options.negatives_per_positive` mined negatives.

    `offsets` and `logits` are the outputs of `Detector`, `wanted` (B, 4, P) contains the target
    offsets, and `labels` (B, P) is 0 for background.
    """
    positive = F.cast(labels > 0, "float32")
    count = F.sum(positive, axis=1, keepdims=True)
    mined = F.minimum(options.negatives_per_positive * count, priors - count)
    entropy = -F.pick(F.log_softmax(logits, axis=1), labels, axis=1)
    counted = positive + hardest(F, F.BlockGrad(entropy), positive, mined)
    of_boxes = F.sum(F.smooth_l1(offsets - wanted, scalar=1.0), axis=1)
    total = of_boxes * positive + entropy * counted
    return F.sum(F.broadcast_div(total, F.maximum(count, 1)))


def hardest(F: ModuleType, entropy: Tensor, positive: Tensor, mined: Tensor) -> Tensor:
    """Return 1 for the hardest negatives, otherwise 0, as (B, P).

    `mined` (B, 1) is the number of hardest negatives per image. The hardest negatives have the
    largest cross-entropy. Priors with equal cross-entropy are ordered by index.
    """
    entropy = F.where(positive, -F.ones_like(entropy), entropy)
    last = F.pick(
        F.sort(entropy, axis=1, is_ascend=False),
        F.squeeze(mined, axis=1) - 1,
        axis=1,
        keepdims=True,
    )
    above = F.broadcast_greater(entropy, last)
    equal = F.broadcast_equal(entropy, last)
    left = mined - F.sum(above, axis=1, keepdims=True)
    return above + equal * F.broadcast_lesser_equal(F.cumsum(equal, axis=1), left)


class SSDTrainer(ImageTrainer):
    """SSD trainer for all devices of this process."""

    workload: SSD
    inputs = ("image", "offset", "label")

    def build_model(self, half: bool, on_cpu: bool) -> Detector:
        return Detector(self.workload.network, half, on_cpu)

    def loss(self, model: Detector, batch: Inputs) -> Tensor:
        """Return the `detection_loss` of a batch.

        The loss is computed in fp32, even if the network uses a lower precision.
        """
        offsets, logits = model(batch["image"])
        options, priors = self.workload.options, len(self.workload.priors)
        return detection_loss(
            model.F, offsets, logits, batch["offset"], batch["label"], options, priors
        )

    def outputs(self, model: Detector, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the outputs `offsets` (B, 4, P) and `logits` (B, C + 1, P)."""
        offsets, logits = model(batch["image"])
        return {"offsets": offsets, "logits": logits}
