"""The zoo networks in MXNet, from the suite's layer lists or from Gluon.

The shapes use these symbols: B images of a replica, S pixels per side, K classes. Images are uint8
(B, S, S, 3).
"""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import Arrays, Batch
from workloads.common.networks import layer_lists
from workloads.frameworks.mxnet.graphs import Inputs, Tensor
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layer_lists import LayerNetwork
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """Trainer of a zoo network for all devices of this process."""

    workload: Zoo

    def build_model(self, half: bool, on_cpu: bool) -> LayerNetwork:
        if self.settings.model["implementation"] == "stock":
            from workloads.zoo.stock.mxnet import StockNetwork

            return StockNetwork(self.workload.network, self.compiles, on_cpu)
        return LayerNetwork(self.workload.network, half, on_cpu)

    @property
    def dropouts(self) -> list[layer_lists.Dropout]:
        """Return the dropout layers that have the same masks in every framework.

        The list is empty for networks from Gluon, which generate their dropout masks.
        """
        is_stock = self.settings.model["implementation"] == "stock"
        return [] if is_stock else list(self.workload.network.dropouts)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        masks = self.workload.dropout_masks(batch) if training and self.dropouts else {}
        return {**super().host_arrays(batch, training), **masks}

    def loss(self, model: LayerNetwork, batch: Inputs) -> Tensor:
        """Return the cross-entropy, summed over the images."""
        F, masks = model.F, {layer.label: batch[layer.label] for layer in self.dropouts}
        logarithms = F.log_softmax(model(batch["image"], masks), axis=1)
        return -F.sum(F.pick(logarithms, batch["label"], axis=1))

    def outputs(self, model: LayerNetwork, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the `logits` (B, K) of the images."""
        return {"logits": model(batch["image"])}

    def largest_shapes(self) -> dict[str, tuple[int, ...]]:
        specs = self.workload.shapes()[0]
        shape_of = {name: specs[name].shape for name in ("image", "label")}
        count = shape_of["label"][0]
        return {**shape_of, **{layer.label: (count, *layer.map) for layer in self.dropouts}}
