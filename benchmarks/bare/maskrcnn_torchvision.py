"""A training step of torchvision's Mask R-CNN R50-FPN in a plain loop.

    python -m benchmarks.bare.maskrcnn_torchvision CORES fp32|bf16 STEPS INPUTS.npz

The model has frozen batch norm, `trainable_layers=3`, 81 classes, and otherwise torchvision's
defaults. The optimizer is SGD. This program does not import the suite.

The file INPUTS has the arrays `image` uint8 (H, W, 3) RGB, `box` (G, 4), `label` (G,), `mask` (G,
H, W), and the weights as `weight/NAME` with torchvision's names.

The output is JSON with the seconds and CPU seconds per step, the maximum resident set size, and the
losses of the last step.
"""

import sys

import numpy as np
import torch
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.mask_rcnn import MaskRCNN

from benchmarks.bare.block import print_mean

cores, precision, steps, path = sys.argv[1:]
torch.set_num_threads(int(cores))
inputs = np.load(path)
backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=3)
model = (
    MaskRCNN(backbone, 81, min_size=800, max_size=1333)
    .to(memory_format=torch.channels_last)
    .train()
)
weights = {
    name[7:]: torch.from_numpy(inputs[name]) for name in inputs.files if name.startswith("weight/")
}
missing, unexpected = model.load_state_dict(weights, strict=False)
assert not unexpected
assert all("running" in name for name in missing)
optimizer = torch.optim.SGD(
    [value for value in model.parameters() if value.requires_grad],
    lr=1e-4,
    momentum=0.9,
    weight_decay=1e-4,
    fused=True,
)
images = [torch.from_numpy(inputs["image"]).permute(2, 0, 1).float() / 255]
targets = [
    {
        "boxes": torch.from_numpy(inputs["box"]),
        "labels": torch.from_numpy(inputs["label"]).long(),
        "masks": torch.from_numpy(inputs["mask"]),
    }
]


def step():
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        losses = model(images, targets)
    loss = sum(losses.values())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return {"losses": {name: value.item() for name, value in losses.items()}}


print_mean(step, int(steps))
