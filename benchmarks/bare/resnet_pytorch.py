"""A ResNet-50 training step in plain PyTorch.

    python -m benchmarks.bare.resnet_pytorch CORES bare|stock fp32|bf16 BATCH STEPS [PIXELS]

* bare: ResNet-50 v1.5 built from plain modules, channels-last.
* stock: torchvision's resnet50, channels-last.

The optimizer is SGD. The synthetic images are floats in memory, with 224 x 224 pixels unless PIXELS
is given. The output is JSON with images_per_second over a block of steps. This program does not
import the suite.
"""

import sys

import torch
from torch import nn

from benchmarks.bare.block import print_rate, pytorch_gigaflops


def unit(inputs, outputs, kernel, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Block(nn.Module):
    def __init__(self, inputs, width, stride, project):
        super().__init__()
        self.first, self.second, self.third = (
            unit(inputs, width, 1),
            unit(width, width, 3, stride),
            unit(width, 4 * width, 1),
        )
        self.shortcut = unit(inputs, 4 * width, 1, stride) if project else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(
            self.third(self.relu(self.second(self.relu(self.first(x))))) + self.shortcut(x)
        )


def resnet():
    layers, inputs = [unit(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (count, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
        for number in range(count):
            layers.append(Block(inputs, width, 2 if stage and not number else 1, not number))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


(cores, kind, precision), (batch, steps, pixels) = sys.argv[1:4], map(int, [*sys.argv[4:], 224][:3])
torch.set_num_threads(int(cores))
if kind == "stock":
    import torchvision

model = (resnet() if kind == "bare" else torchvision.models.resnet50()).to(
    memory_format=torch.channels_last
)
optimizer = torch.optim.SGD(
    model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True
)
images = torch.randn(batch, 3, pixels, pixels).contiguous(memory_format=torch.channels_last)
labels = torch.zeros(batch, dtype=torch.long)


def step():
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss = nn.functional.cross_entropy(model(images).float(), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


print_rate(step, torch.Tensor.item, batch, steps, pytorch_gigaflops(model, images[:1]))
