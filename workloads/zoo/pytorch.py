"""The zoo in PyTorch: the suite's lists of layers, or torchvision's networks.

Shapes: B images of a replica, S pixels of a side, K classes. Images come as uint8 (B, S, S, 3).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from workloads.api import Batch
from workloads.frameworks.pytorch.dropout import multipliers
from workloads.frameworks.pytorch.images import ImageTrainer
from workloads.frameworks.pytorch.layer_lists import LayerNetwork
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """A network of the zoo on one device."""

    workload: Zoo

    def build(self) -> nn.Module:
        if self.workload.settings.model["implementation"] == "stock":
            from workloads.zoo.stock.pytorch import stock_network

            return stock_network(self.workload)
        return LayerNetwork(self.workload.network)

    def loss(self, batch: Batch) -> Tensor:
        images, labels = self.to_device(batch.arrays["image"]), self.to_device(batch.arrays["label"]).long()
        masks = self.masks(batch)
        with self.autocast():
            logits = self.called(images, masks) if masks else self.called(images)
        return F.cross_entropy(logits.float(), labels, reduction="sum") / batch.global_weight_sum

    def masks(self, batch: Batch) -> dict[str, Tensor]:
        """Of dropout by label, (B, C, h, w) or (B, C): the same in every framework; stock networks draw their own."""
        masks: dict[str, Tensor] = {}
        layers = self.workload.network.dropouts if isinstance(self.model, LayerNetwork) else []
        if layers:
            keys = self.to_device(batch.arrays["dropout_key"])
            for layer in layers:
                mask = multipliers(keys, layer.label, 1, layer.width, layer.rate)[0]
                mask = mask.view(len(keys), *layer.map)
                masks[layer.label] = mask.permute(0, 3, 1, 2) if mask.ndim == 4 else mask
        return masks
