"""Run in PyTorch's environment: names and shapes of the weights of torchvision's ResNets, in their order; prints JSON.

python residual_torchvision.py DEPTH…
"""

import json
import sys

import torch
import torchvision


def main():
    found = {}
    with torch.device("meta"):
        for depth in sys.argv[1:]:
            model = getattr(torchvision.models, f"resnet{depth}")()
            strides = [name for name, part in model.named_modules() if getattr(part, "stride", None) == (2, 2)]
            found[depth] = {
                "parameters": [[name, list(value.shape)] for name, value in model.named_parameters()],
                "buffers": [[name, list(value.shape)] for name, value in model.named_buffers() if value.ndim],
                "strides": strides,
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
