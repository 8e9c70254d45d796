"""ResNet v1.5 in MXNet.

Shapes: B images of a replica, S pixels of a side, K classes. Parameters and batch-norm statistics carry torchvision's names.
"""

from __future__ import annotations

from types import ModuleType

from workloads.frameworks.mxnet.graphs import Inputs, Tensor
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layers import ImageModel
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50


class ResNet(ImageModel):
    """Its target is `label`, int32 (B,)."""

    targets, results = ("label",), ("logits",)
    scale, shift = (1.0, 1.0, 1.0), tuple(-value for value in network.MEAN)
    epsilon, momentum = network.BATCH_NORM_EPSILON, 1 - network.BATCH_NORM_MOMENTUM

    def __init__(self, layers: network.Network, smoothing: float, half: bool, on_cpu: bool) -> None:
        super().__init__(network.shapes(layers), network.statistics(layers), half, on_cpu)
        self.layers, self.smoothing = layers, smoothing

    def loss(self, F: ModuleType, inputs: Inputs) -> Tensor:
        """Cross-entropy with smoothed labels, summed over the images, (1,)."""
        logarithms = F.log_softmax(self.logits(F, inputs), axis=1)
        of_label = F.sum(F.pick(logarithms, inputs["label"], axis=1))
        of_all = F.sum(logarithms)
        return of_label * (self.smoothing - 1) - of_all * (self.smoothing / self.layers.classes)

    def outputs(self, F: ModuleType, inputs: Inputs) -> list[Tensor]:
        return [self.logits(F, inputs)]

    def logits(self, F: ModuleType, inputs: Inputs) -> Tensor:
        """fp32 (B, K)."""
        x = self.trunk(F, inputs, self.layers.stem, self.layers.blocks)
        x = F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")
        weight, bias = (F.cast(inputs[f"fc.{kind}"], self.dtype) for kind in ("weight", "bias"))
        return F.cast(F.FullyConnected(x, weight, bias, num_hidden=self.layers.classes), "float32")


class ResNetTrainer(ImageTrainer):
    """ResNet on every device of this process."""

    workload: ResNet50

    def build_model(self, half: bool, on_cpu: bool) -> ResNet:
        smoothing = self.workload.options.label_smoothing
        return ResNet(self.workload.network, smoothing, half, on_cpu)
