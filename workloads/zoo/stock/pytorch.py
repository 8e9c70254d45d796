"""torchvision's networks, whose parameters already have the suite's names."""

from __future__ import annotations

from typing import Any

import torchvision
from torch import Tensor, nn

from workloads.frameworks.pytorch.layer_lists import Normalised
from workloads.zoo.workload import Zoo


def stock_network(workload: Zoo) -> nn.Module:
    """Return the network with random weights, for uint8 images (B, S, S, 3).

    PyTorch's module computes the dropout.
    """
    name = workload.network.name
    further: dict[str, Any] = (
        {"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}
    )
    make = getattr(torchvision.models, name)
    model: nn.Module = make(weights=None, num_classes=workload.network.classes, **further)
    normalised = Normalised(workload.network)

    def normalise(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        return (normalised.to(inputs[0].device)(inputs[0]),)

    model.register_forward_pre_hook(normalise)
    return model
