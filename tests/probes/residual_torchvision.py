"""Run in PyTorch's environment: names and shapes of the weights of torchvision's ResNets, in their order."""

import json

import torch
import torchvision


def trunks(*depths):
    """For each depth, as JSON: `parameters` and `buffers`, name and shape of each; `strides`, what halves its map."""
    found = {}
    with torch.device("meta"):
        for depth in depths:
            model = getattr(torchvision.models, f"resnet{depth}")()
            parts = {
                "parameters": [[name, list(value.shape)] for name, value in model.named_parameters()],
                "buffers": [[name, list(value.shape)] for name, value in model.named_buffers() if value.ndim],
                "strides": [name for name, part in model.named_modules() if getattr(part, "stride", None) == (2, 2)],
            }
            found[str(depth)] = json.dumps(parts)
    return found
