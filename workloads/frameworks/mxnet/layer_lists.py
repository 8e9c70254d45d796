"""Networks of `workloads.common.networks.layer_lists` in MXNet, in NCHW layout.

The shapes use these symbols: B images, S pixels per side, C channels, h × w cells of a feature map,
K classes.
"""

from __future__ import annotations

from collections.abc import Sequence

from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Layer
from workloads.frameworks.mxnet.graphs import Inputs, Tensor
from workloads.frameworks.mxnet.layers import ImageModel, rectified


class LayerNetwork(ImageModel):
    """Network that consists of a layer list."""

    def __init__(self, network: layer_lists.Network, half: bool, on_cpu: bool) -> None:
        super().__init__(layer_lists.shapes(network), layer_lists.statistics(network), half, on_cpu)
        self.network, self.epsilon, self.momentum = network, network.epsilon, 1 - network.momentum
        self.scale = tuple(1 / (255 * deviation) for deviation in network.deviation)
        self.shift = tuple(
            -mean / deviation
            for mean, deviation in zip(network.mean, network.deviation, strict=True)
        )

    def __call__(self, images: Tensor, masks: Inputs | None = None) -> Tensor:
        """Return fp32 logits (B, K).

        `masks` contains dropout masks by label, (B, h, w, C) or (B, C). Without masks, dropout is
        disabled.
        """
        x = self.sequence(self.normalised(images), self.network.layers, masks or {})
        return self.F.cast(x, "float32")

    def sequence(self, x: Tensor, layers: Sequence[Layer], masks: Inputs) -> Tensor:
        """Apply the layers in sequence."""
        for layer in layers:
            x = self.step(x, layer, masks)
        return x

    def step(self, x: Tensor, layer: Layer, masks: Inputs) -> Tensor:
        """Apply a layer to a feature map (B, C, h, w) or to a feature vector (B, C)."""
        F, inputs = self.F, self.arrays
        match layer:
            case layer_lists.Convolution():
                return self.unit(x, layer, relu=True)
            case layer_lists.Residual(block):
                return self.residual(x, block)
            case layer_lists.Linear(name, _, outputs, relu):
                weight, bias = (
                    F.cast(inputs[f"{name}.{kind}"], self.dtype) for kind in ("weight", "bias")
                )
                # FullyConnected also flattens a feature map.
                x = F.FullyConnected(x, weight, bias, num_hidden=outputs)
                return rectified(F, x) if relu else x
            case layer_lists.Concatenation(branches):
                return F.concat(*(self.sequence(x, branch, masks) for branch in branches), dim=1)
            case layer_lists.Dropout(label=label, map=size_of_mask):
                if label not in masks:
                    return x
                mask = F.cast(masks[label], self.dtype)
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
