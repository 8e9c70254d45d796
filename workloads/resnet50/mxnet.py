"""ResNet v1.5 in MXNet.

The shapes use these symbols: B images of a replica, S pixels per side, K classes. Parameters and
running statistics have torchvision's names.
"""

from __future__ import annotations

from collections.abc import Mapping

from workloads.frameworks.mxnet.graphs import Inputs, Tensor
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layers import ImageModel
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50


class ResNet(ImageModel):
    """ResNet network from uint8 images (B, S, S, 3) to fp32 logits (B, K)."""

    scale, shift = (1.0, 1.0, 1.0), tuple(-value for value in network.MEAN)
    epsilon, momentum = network.BATCH_NORM_EPSILON, 1 - network.BATCH_NORM_MOMENTUM

    def __init__(self, layers: network.Network, half: bool, on_cpu: bool) -> None:
        super().__init__(network.shapes(layers), network.statistics(layers), half, on_cpu)
        self.layers = layers

    def __call__(self, images: Tensor) -> Tensor:
        """Return the logits of the images."""
        F = self.F
        x = self.trunk(self.normalised(images), self.layers.stem, self.layers.blocks)
        x = F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")
        weight, bias = (
            F.cast(self.arrays[f"fc.{kind}"], self.dtype) for kind in ("weight", "bias")
        )
        return F.cast(F.FullyConnected(x, weight, bias, num_hidden=self.layers.classes), "float32")


class ResNetTrainer(ImageTrainer):
    """ResNet trainer for all devices of this process."""

    workload: ResNet50

    def build_model(self, half: bool, on_cpu: bool) -> ResNet:
        return ResNet(self.workload.network, half, on_cpu)

    def loss(self, model: ResNet, batch: Inputs) -> Tensor:
        """Return the cross-entropy with smoothed labels, summed over the images."""
        F, smoothing = model.F, self.workload.options.label_smoothing
        logarithms = F.log_softmax(model(batch["image"]), axis=1)
        of_label = F.sum(F.pick(logarithms, batch["label"], axis=1))
        of_all = F.sum(logarithms)
        return of_label * (smoothing - 1) - of_all * (smoothing / model.layers.classes)

    def outputs(self, model: ResNet, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the `logits` (B, K) of the images."""
        return {"logits": model(batch["image"])}
