"""An SSD-ResNet34-300 training step in plain PyTorch.

    python -m benchmarks.bare.ssd_pytorch CORES bare fp32|bf16 BATCH STEPS

The model consists of torchvision's resnet34 up to layer3 (with stride 1), extra layers, heads, and
the loss. The model uses the channels-last layout. The optimizer is SGD. The images (300 x 300
pixels) and the targets are synthetic floats in memory. The output is JSON with images_per_second
over a block of steps. This program does not import the suite.
"""

import sys

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from benchmarks.bare.block import print_rate, pytorch_gigaflops

EXTRAS = (
    (256, 256, 512, 2),
    (512, 256, 512, 2),
    (512, 128, 256, 2),
    (256, 128, 256, 1),
    (256, 128, 256, 1),
)
HEADS = ((256, 4), (512, 6), (512, 6), (256, 6), (256, 4), (256, 4))


class SSD(nn.Module):
    def __init__(self):
        super().__init__()
        resnet = torchvision.models.resnet34()
        resnet.layer3[0].conv1.stride = resnet.layer3[0].downsample[0].stride = (1, 1)
        self.trunk, relu = nn.Sequential(*list(resnet.children())[:-3]), nn.ReLU(inplace=True)
        pairs = [
            (nn.Conv2d(a, b, 1), relu, nn.Conv2d(b, c, 3, s, s - 1), relu) for a, b, c, s in EXTRAS
        ]
        self.extras = nn.ModuleList(nn.Sequential(*pair) for pair in pairs)
        self.boxes = nn.ModuleList(
            nn.Conv2d(inputs, 4 * shapes, 3, padding=1) for inputs, shapes in HEADS
        )
        self.classes = nn.ModuleList(
            nn.Conv2d(inputs, 81 * shapes, 3, padding=1) for inputs, shapes in HEADS
        )

    def forward(self, x):
        maps = [self.trunk(x)]
        for extra in self.extras:
            maps.append(extra(maps[-1]))
        boxes = [head(x).reshape(len(x), 4, -1) for head, x in zip(self.boxes, maps)]
        scores = [head(x).reshape(len(x), 81, -1) for head, x in zip(self.classes, maps)]
        return torch.cat(boxes, 2).float(), torch.cat(scores, 2).float()


(cores, _, precision), (batch, steps) = sys.argv[1:4], map(int, sys.argv[4:])
torch.set_num_threads(int(cores))
model = SSD().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(
    model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True
)
images = torch.randn(batch, 3, 300, 300).contiguous(memory_format=torch.channels_last)
labels = torch.randint(1, 81, (batch, 8732)) * (torch.rand(batch, 8732) < 40 / 8732)
wanted = torch.randn(batch, 4, 8732)


def step():
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        boxes, scores = model(images)
    positive, entropy = labels > 0, F.cross_entropy(scores, labels, reduction="none")
    ranks = entropy.detach().masked_fill(positive, -1).argsort(1, descending=True).argsort(1)
    counted, count = (
        positive | (ranks < 3 * positive.sum(1, keepdim=True)),
        positive.sum(1).clamp(min=1),
    )
    of_boxes = F.smooth_l1_loss(boxes, wanted, reduction="none").sum(1)
    loss = ((of_boxes * positive + entropy * counted).sum(1) / count).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


print_rate(step, torch.Tensor.item, batch, steps, pytorch_gigaflops(model, images[:1]))
