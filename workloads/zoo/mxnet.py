"""The zoo in MXNet: the suite's lists of layers, or Gluon's networks.

Shapes: B images of a replica, S pixels of a side, K classes. Images come as uint8 (B, S, S, 3).
"""

from __future__ import annotations

from workloads.api import Arrays, Batch
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layer_lists import LayerNetwork
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """A network of the zoo on every device of this process."""

    workload: Zoo

    def build_model(self, half: bool, on_cpu: bool) -> LayerNetwork:
        if self.settings.model["implementation"] == "stock":
            from workloads.zoo.stock.mxnet import StockNetwork

            return StockNetwork(self.workload.network, self.compiles, on_cpu)
        return LayerNetwork(self.workload.network, half, on_cpu)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """A batch's arrays with the masks of dropout, the same in every framework."""
        if not training or len(self.model.targets) == 1:
            return super().host_arrays(batch, training)
        arrays = {name: batch.arrays[name] for name in ("image", "label")}
        return {**arrays, **self.workload.dropout_masks(batch)}

    def largest_shapes(self) -> dict[str, tuple[int, ...]]:
        specs = self.workload.shapes()[0]
        shape_of = {name: specs[name].shape for name in ("image", "label")}
        if len(self.model.targets) > 1:
            count = shape_of["label"][0]
            shape_of |= {layer.label: (count, *layer.map) for layer in self.workload.network.dropouts}
        return shape_of
