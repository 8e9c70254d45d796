"""Bare rates of Mask R-CNN's training input in a DataLoader, one JSON line per round. Imports nothing of the suite.

    python maskrcnn_input.py pillow|torchvision FOLDER ANNOTATIONS SECONDS

FOLDER: the images; ANNOTATIONS: COCO's JSON. torchvision's v2 transforms on images decoded by Pillow or torchvision, with
boxes and with masks of every object that pycocotools draws; batches of two images padded to the larger one. No matching of
anchors: torchvision's model does that in the step. No workers: for one core. A round is one word on stdin.
"""

import json
import os
import sys
import time
import warnings

import torch
from PIL import Image
from pycocotools import mask as tool
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import v2

kind, folder, annotations = sys.argv[1:4]
seconds = float(sys.argv[4])
torch.set_num_threads(1)
warnings.simplefilter("ignore")  # Pillow smooths whatever `antialias` says

steps = [v2.RandomHorizontalFlip(), v2.Resize(800, max_size=1333, antialias=True), v2.SanitizeBoundingBoxes()]
transform = v2.Compose([*steps, v2.PILToTensor()] if kind == "pillow" else steps)


class Segmentation(torch.utils.data.Dataset):
    def __init__(self):
        with open(annotations) as file:
            content = json.load(file)
        self.images = content["images"]
        rows = {image["id"]: [] for image in content["images"]}
        for one in content["annotations"]:
            rows[one["image_id"]].append(one)
        self.objects = list(rows.values())

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        index %= len(self.images)
        path, objects = os.path.join(folder, self.images[index]["file_name"]), self.objects[index]
        if kind == "pillow":
            image = Image.open(path).convert("RGB")
            height, width = image.size[::-1]
        else:
            image = tv_tensors.Image(decode_image(read_file(path), ImageReadMode.RGB))
            height, width = image.shape[1:]
        drawn = [tool.merge(tool.frPyObjects(one["segmentation"], height, width)) for one in objects]
        boxes = torch.tensor([one["bbox"] for one in objects])
        boxes[:, 2:] += boxes[:, :2]
        found = {
            "image": image,
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width)),
            "masks": tv_tensors.Mask(torch.from_numpy(tool.decode(drawn)).permute(2, 0, 1)),
            "labels": torch.tensor([one["category_id"] for one in objects]),
        }
        return transform(found)


def padded(samples):
    images = [sample["image"].as_subclass(torch.Tensor) for sample in samples]
    height, width = (-(-max(image.shape[axis] for image in images) // 32) * 32 for axis in (1, 2))
    batch = torch.zeros((len(images), 3, height, width), dtype=torch.uint8)
    for place, image in zip(batch, images):
        place[:, : image.shape[1], : image.shape[2]] = image
    return batch, [{name: value for name, value in sample.items() if name != "image"} for sample in samples]


batches = iter(torch.utils.data.DataLoader(Segmentation(), 2, collate_fn=padded))
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
