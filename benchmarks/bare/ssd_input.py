"""Bare rates of SSD's training input in a DataLoader, one JSON line per round. Imports nothing of the suite.

    python ssd_input.py pillow|torchvision FOLDER ANNOTATIONS PRIORS SECONDS

FOLDER: the images; ANNOTATIONS: COCO's JSON; PRIORS: .npy float32 (P, 4) centre x, centre y, width, height in shares.
torchvision's v2 transforms on images decoded by Pillow or torchvision; a matcher of a few whole-array operations.
No workers: for one core. A round is one word on stdin.
"""

import json
import os
import sys
import time
import warnings

import numpy as np
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.ops import box_convert, box_iou
from torchvision.transforms import v2

kind, folder, annotations, priors_file = sys.argv[1:5]
seconds = float(sys.argv[5])
torch.set_num_threads(1)
warnings.simplefilter("ignore")  # Pillow smooths whatever `antialias` says

priors = torch.from_numpy(np.load(priors_file))
corners = box_convert(priors, "cxcywh", "xyxy")
steps = [
    v2.RandomIoUCrop(trials=1),
    v2.RandomHorizontalFlip(),
    v2.Resize((300, 300), antialias=True),
    v2.ColorJitter(0.125, 0.5, 0.5, 0.05),
    v2.SanitizeBoundingBoxes(),
]
transform = v2.Compose([*steps, v2.PILToTensor()] if kind == "pillow" else steps)


def match(boxes, labels):
    """Offsets (P, 4) and labels (P,) of boxes (n, 4) in shares."""
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


class Detection(torch.utils.data.Dataset):
    def __init__(self):
        with open(annotations) as file:
            content = json.load(file)
        self.paths = [os.path.join(folder, image["file_name"]) for image in content["images"]]
        rows = {image["id"]: ([], []) for image in content["images"]}
        for one in content["annotations"]:
            left, top, width, height = one["bbox"]
            rows[one["image_id"]][0].append([left, top, left + width, top + height])
            rows[one["image_id"]][1].append(one["category_id"])
        self.targets = [(torch.tensor(boxes), torch.tensor(labels)) for boxes, labels in rows.values()]

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        index %= len(self.paths)
        path, (boxes, labels) = self.paths[index], self.targets[index]
        if kind == "pillow":
            image = Image.open(path).convert("RGB")
            size = image.size[::-1]
        else:
            image = tv_tensors.Image(decode_image(read_file(path), ImageReadMode.RGB))
            size = image.shape[1:]
        boxes = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size)
        found = transform({"image": image, "boxes": boxes, "labels": labels})
        boxes = found["boxes"].as_subclass(torch.Tensor) / 300
        return found["image"].as_subclass(torch.Tensor), *match(boxes, found["labels"])


batches = iter(torch.utils.data.DataLoader(Detection(), 32))
for _ in range(4):
    next(batches)
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    while time.perf_counter() - start < 0.4:  # caches, and memory that the kernel took back meanwhile
        next(batches)
    done, start, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        done += len(next(batches)[0])
    print(json.dumps([done / (time.perf_counter() - start), done / (time.process_time() - cpu)]), flush=True)
