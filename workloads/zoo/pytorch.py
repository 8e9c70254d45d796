"""The zoo networks in PyTorch, from the suite's layer lists or from torchvision.

The shapes use these symbols: B images of a replica, S pixels per side, K classes. Images are uint8
(B, S, S, 3).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from workloads.common.networks import layer_lists
from workloads.frameworks.pytorch.dropout import multipliers
from workloads.frameworks.pytorch.images import ImageTrainer
from workloads.frameworks.pytorch.layer_lists import LayerNetwork
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """Trainer of a zoo network for one device."""

    workload: Zoo

    def build(self) -> nn.Module:
        if self.workload.settings.model["implementation"] == "stock":
            from workloads.zoo.stock.pytorch import stock_network

            return stock_network(self.workload)
        return LayerNetwork(self.workload.network)

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names of the batch arrays that `loss` reads."""
        return ("image", "label", "dropout_key") if self.dropouts else ("image", "label")

    @property
    def dropouts(self) -> list[layer_lists.Dropout]:
        """Return the dropout layers that have the same masks in every framework.

        The list is empty for networks from torchvision, which generate their dropout masks.
        """
        is_stock = self.settings.model["implementation"] == "stock"
        return [] if is_stock else list(self.workload.network.dropouts)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the cross-entropy, summed over the images."""
        masks = self.masks(batch)
        with self.autocast():
            logits = model(batch["image"], masks) if masks else model(batch["image"])
        return F.cross_entropy(logits.float(), batch["label"].long(), reduction="sum")

    def masks(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return dropout masks by label, (B, C, h, w) or (B, C)."""
        masks: dict[str, Tensor] = {}
        for layer in self.dropouts:
            keys = batch["dropout_key"]
            mask = multipliers(keys, layer.label, 1, layer.width, layer.rate)[0]
            mask = mask.view(len(keys), *layer.map)
            masks[layer.label] = mask.permute(0, 3, 1, 2) if mask.ndim == 4 else mask
        return masks
