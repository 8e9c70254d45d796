"""Gluon's networks as graphs with the suite's parameter names.

MXNet's operator computes the dropout.
"""

from __future__ import annotations

from collections.abc import Iterator

import mxnet as mx
from mxnet.gluon.model_zoo import vision

from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Network
from workloads.frameworks.mxnet.graphs import Inputs, Tensor
from workloads.frameworks.mxnet.layer_lists import LayerNetwork

VERSIONS = {"resnet18": "resnet18_v1", "resnet34": "resnet34_v1"}


class StockNetwork(LayerNetwork):
    """Network from Gluon's model zoo.

    The constructor raises ValueError if operators are called individually instead of in a graph.
    """

    def __init__(self, network: Network, compiled: bool, on_cpu: bool) -> None:
        super().__init__(network, False, on_cpu)
        if not compiled:
            raise ValueError(
                "workload.implementation=stock: MXNet's networks need graphs. Set"
                " workload.compile=auto"
            )
        self.net = getattr(vision, VERSIONS.get(network.name, network.name))(
            classes=network.classes
        )
        parameters = list(self.net.collect_params().values())
        self.parameters_by_name: dict[str, mx.gluon.Parameter] = dict(
            zip(_canonical(network), parameters, strict=True)
        )

    def __call__(self, images: Tensor, masks: Inputs | None = None) -> Tensor:
        """Return the fp32 logits (B, K) of the images."""
        F, inputs = self.F, self.arrays
        for name, parameter in self.parameters_by_name.items():
            # Gluon uses `_var` when the network is called with symbols. The cast copies the
            # weights. The copy is necessary, because oneDNN reorders convolution weights in place,
            # while the original weights are views of a flat vector.
            parameter._var = (
                inputs[name] if "running_" in name else F.cast(inputs[name], self.dtype)
            )
        return self.net(self.normalised(images))

    def norm_output(self, name: str) -> str:
        """Return Gluon's name of a batch norm's output."""
        return f"{self.parameters_by_name[f'{name}.weight'].name.removesuffix('_gamma')}_fwd_output"


def _canonical(network: Network) -> Iterator[str]:
    """Yield the names of parameters and running statistics in Gluon's creation order."""
    for layer, _ in layer_lists.convolutions(network.layers):
        yield from (
            f"{layer.name}.{kind}"
            for kind in (("weight", "bias") if layer.has_bias else ("weight",))
        )
        if layer.norm is not None:
            yield from (
                f"{layer.norm}.{kind}" for kind in ("weight", "bias", "running_mean", "running_var")
            )
    for linear in layer_lists.linears(network):
        yield from (f"{linear.name}.weight", f"{linear.name}.bias")
