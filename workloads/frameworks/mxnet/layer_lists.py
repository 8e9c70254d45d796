"""Lists of layers (`workloads.common.networks.layer_lists`) in MXNet, NCHW.

Shapes: B images, S pixels of a side, C channels, h × w cells of a map, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Layer
from workloads.frameworks.mxnet.graphs import Inputs, Tensor
from workloads.frameworks.mxnet.layers import ImageModel, rectified


class LayerNetwork(ImageModel):
    """The network of a list. Its targets are `label`, int32 (B,), and masks of dropout, by label (B, h, w, C) or (B, C)."""

    results = ("logits",)

    def __init__(self, network: layer_lists.Network, half: bool, on_cpu: bool) -> None:
        super().__init__(layer_lists.shapes(network), layer_lists.statistics(network), half, on_cpu)
        self.network, self.epsilon, self.momentum = network, network.epsilon, 1 - network.momentum
        self.scale = tuple(1 / (255 * deviation) for deviation in network.deviation)
        self.shift = tuple(-mean / deviation for mean, deviation in zip(network.mean, network.deviation, strict=True))
        self.targets = ("label", *(layer.label for layer in network.dropouts))

    def loss(self, F: ModuleType, inputs: Inputs) -> Tensor:
        """Cross-entropy, summed over the images, (1,)."""
        logarithms = F.log_softmax(self.logits(F, inputs, training=True), axis=1)
        return -F.sum(F.pick(logarithms, inputs["label"], axis=1))

    def outputs(self, F: ModuleType, inputs: Inputs) -> list[Tensor]:
        return [self.logits(F, inputs, training=False)]

    def logits(self, F: ModuleType, inputs: Inputs, training: bool) -> Tensor:
        """fp32 (B, K)."""
        x = self.normalised(F, inputs)
        return F.cast(self.sequence(F, inputs, x, self.network.layers, training), "float32")

    def sequence(self, F: ModuleType, inputs: Inputs, x: Tensor, layers: Sequence[Layer], training: bool) -> Tensor:
        """One layer after the other."""
        for layer in layers:
            x = self.step(F, inputs, x, layer, training)
        return x

    def step(self, F: ModuleType, inputs: Inputs, x: Tensor, layer: Layer, training: bool) -> Tensor:
        """One layer: from a map (B, C, h, w) or features (B, C) to the next ones."""
        match layer:
            case layer_lists.Convolution():
                return self.unit(F, inputs, x, layer, relu=True)
            case layer_lists.Residual(block):
                return self.residual(F, inputs, x, block)
            case layer_lists.Linear(name, _, outputs, relu):
                weight, bias = (F.cast(inputs[f"{name}.{kind}"], self.dtype) for kind in ("weight", "bias"))
                x = F.FullyConnected(x, weight, bias, num_hidden=outputs)  # flattens a map
                return rectified(F, x) if relu else x
            case layer_lists.Concatenation(branches):
                return F.concat(*(self.sequence(F, inputs, x, branch, training) for branch in branches), dim=1)
            case layer_lists.Dropout(label=label, map=size_of_mask):
                if not training:
                    return x
                mask = F.cast(inputs[label], self.dtype)
                return x * (F.transpose(mask, (0, 3, 1, 2)) if len(size_of_mask) == 3 else mask)
            case layer_lists.ResponseNorm(size, alpha, beta, k):
                return F.LRN(x, nsize=size, alpha=alpha, beta=beta, knorm=k)
            case layer_lists.GlobalPool():
                return F.flatten(F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg"))
            case layer_lists.Pool():
                sizes = {"kernel": layer.kernel, "stride": layer.stride, "pad": layer.padding}
                pairs = {name: (value, value) for name, value in sizes.items()}
                convention = "full" if layer.ceil else "valid"
                return F.Pooling(x, pool_type=layer.kind, pooling_convention=convention, **pairs)
