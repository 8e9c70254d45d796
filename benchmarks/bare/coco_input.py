"""Measure a DataLoader that provides the training input of a detection workload.

    python -m benchmarks.bare.coco_input ssd|maskrcnn pillow|torchvision FOLDER SECONDS

FOLDER has COCO's layout and contains `priors.npy`: float32 (P, 4), center x, center y, width, and
height in fractions of the image.

The library on the command line (Pillow or torchvision) decodes the images, and torchvision's v2
transforms augment them. For ssd, a few whole-array operations match the priors with the boxes. For
maskrcnn, pycocotools draws the mask of every object, and images are padded to the largest image in
their batch. The program does not match anchors, because torchvision's model matches anchors in the
training step.

The DataLoader has no worker processes, because the program runs on a single core. For each line on
stdin, the program measures a round and prints the rates as JSON. This program does not import the
suite.
"""

import json
import os
import sys
import warnings

import numpy as np
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.ops import box_convert, box_iou
from torchvision.transforms import v2

from benchmarks.bare.rounds import answer

workload, kind, folder, seconds = sys.argv[1:5]
torch.set_num_threads(1)
# suppress Pillow's warning that it antialiases regardless of the argument `antialias`
warnings.simplefilter("ignore")

priors = torch.from_numpy(np.load(f"{folder}/priors.npy"))
corners = box_convert(priors, "cxcywh", "xyxy")
steps = {
    "ssd": [
        v2.RandomIoUCrop(trials=1),
        v2.RandomHorizontalFlip(),
        v2.Resize((300, 300), antialias=True),
        v2.ColorJitter(0.125, 0.5, 0.5, 0.05),
    ],
    "maskrcnn": [v2.RandomHorizontalFlip(), v2.Resize(800, max_size=1333, antialias=True)],
}[workload]
steps = [*steps, v2.SanitizeBoundingBoxes()]
transform = v2.Compose([*steps, v2.PILToTensor()] if kind == "pillow" else steps)


def match(boxes, labels):
    """Match boxes (n, 4) in fractions of the image to the priors.

    Returns the offsets (P, 4) and labels (P,) of the priors.
    """
    overlap = box_iou(boxes, corners)
    best, found = overlap.max(0)
    positive = best > 0.5
    claimed = overlap.argmax(1)
    found[claimed], positive[claimed] = torch.arange(len(boxes)), True
    mine, prior = box_convert(boxes[found[positive]], "xyxy", "cxcywh"), priors[positive]
    offsets = torch.zeros_like(priors)
    offsets[positive, :2] = (mine[:, :2] - prior[:, :2]) / prior[:, 2:] / 0.1
    offsets[positive, 2:] = (mine[:, 2:] / prior[:, 2:]).log() / 0.2
    return offsets, torch.where(positive, labels[found], 0)


def drawn(objects, height, width):
    from pycocotools import mask as tool

    masks = tool.decode(
        [tool.merge(tool.frPyObjects(row["segmentation"], height, width)) for row in objects]
    )
    return tv_tensors.Mask(torch.from_numpy(masks).permute(2, 0, 1))


class Detection(torch.utils.data.Dataset):
    def __init__(self):
        with open(f"{folder}/annotations/instances_train2017.json") as file:
            content = json.load(file)
        self.paths = [
            os.path.join(folder, "train2017", image["file_name"]) for image in content["images"]
        ]
        rows = {image["id"]: [] for image in content["images"]}
        for row in content["annotations"]:
            rows[row["image_id"]].append(row)
        self.objects = list(rows.values())

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        path, objects = self.paths[index % len(self.paths)], self.objects[index % len(self.paths)]
        if kind == "pillow":
            image = Image.open(path).convert("RGB")
            size = image.size[::-1]
        else:
            image = tv_tensors.Image(decode_image(read_file(path), ImageReadMode.RGB))
            size = image.shape[1:]
        boxes = box_convert(torch.tensor([row["bbox"] for row in objects]), "xywh", "xyxy")
        sample = {
            "image": image,
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
            "labels": torch.tensor([row["category_id"] for row in objects]),
        }
        if workload == "maskrcnn":
            return transform({**sample, "masks": drawn(objects, *size)})
        result = transform(sample)
        boxes = result["boxes"].as_subclass(torch.Tensor) / 300
        return result["image"].as_subclass(torch.Tensor), *match(boxes, result["labels"])


def padded(samples):
    images = [sample["image"].as_subclass(torch.Tensor) for sample in samples]
    height, width = (-(-max(image.shape[axis] for image in images) // 32) * 32 for axis in (1, 2))
    batch = torch.zeros((len(images), 3, height, width), dtype=torch.uint8)
    for place, image in zip(batch, images):
        place[:, : image.shape[1], : image.shape[2]] = image
    return batch, [
        {name: value for name, value in sample.items() if name != "image"} for sample in samples
    ]


of_loader = {"batch_size": 32} if workload == "ssd" else {"batch_size": 2, "collate_fn": padded}
batches = iter(torch.utils.data.DataLoader(Detection(), **of_loader))
answer((len(batch[0]) for batch in batches), 4, float(seconds))
