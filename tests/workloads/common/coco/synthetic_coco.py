"""A small data set in COCO's layout, and functions that damage it."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from testing.synthetic import place
from tests.workloads.common.images import preparing
from tests.workloads.resnet50.synthetic_images import picture, size
from workloads.api import DataPipeline, Dataset, WorkerContext
from workloads.common.coco.dataset import CocoFolders

CATEGORIES = [
    {"id": 90, "name": "toothbrush"},
    {"id": 1, "name": "person"},
    {"id": 13, "name": "stop sign"},
]
EMPTY = (3, 7)
"""Indexes of the images of each split without objects."""


class Folders(CocoFolders):
    """Data set of any size."""

    name = "dummy"


def prepare(
    source: Path, destination: Path, recipe: type[Dataset] = Folders, **options: object
) -> list[str]:
    """Prepare a data set and return the printed lines."""
    return preparing.prepare(recipe(), source, destination, **options)


def copies(data: DataPipeline, first: int, stop: int) -> list[list[dict[str, np.ndarray]]]:
    """Return copies of the arrays of training batches: a list per step with an item per replica."""
    return [
        [{name: value.copy() for name, value in batch.arrays.items()} for batch in step]
        for step in data.train(first, stop)
    ]


def validation(
    opened: Callable[[WorkerContext], DataPipeline],
) -> Iterator[tuple[dict[str, np.ndarray], int, np.ndarray]]:
    """Yield the arrays, the slot, and the expected pixels of each validation image.

    Two processes with three replicas read the validation images. The padding of the batches is
    checked too.
    """
    for process, replicas in ((0, range(2)), (1, range(2, 3))):
        data = opened(place(process, replicas, 3))
        for batch in itertools.chain.from_iterable(data.evaluation()):
            arrays = batch.arrays
            assert batch.weight_sum == arrays["valid"].sum()
            assert not arrays["image"][~arrays["valid"]].any()
            for slot in np.flatnonzero(arrays["valid"]).tolist():
                pixels = cv2.cvtColor(
                    cv2.imread(data.evaluation_images.path(int(arrays["number"][slot]))),
                    cv2.COLOR_BGR2RGB,
                )
                assert pixels.shape[:2] == (arrays["height"][slot], arrays["width"][slot])
                yield arrays, slot, pixels
        data.close()


def blank(image: Path | str) -> None:
    """Overwrite an image with as many zero bytes."""
    Path(image).write_bytes(bytes(Path(image).stat().st_size))


def write(root: Path, train: int = 12, val: int = 9) -> Path:
    """Write the images 10, 20, … of train and 1010, 1020, … of val, and return `root`.

    Image i of a split has i % 4 + 1 objects, except the images in EMPTY, which have no object.
    """
    (root / "annotations").mkdir(parents=True)
    for folder, count, first in (("train2017", train, 0), ("val2017", val, 1000)):
        (root / folder).mkdir()
        images, annotations = [], []
        for i in range(count):
            number = first + 10 * (i + 1)
            height, width = size(number)
            name = f"{number:012d}.jpg"
            (root / folder / name).write_bytes(
                simplejpeg.encode_jpeg(picture(3, number, height, width), 80)
            )
            images.append(
                {"id": number, "file_name": name, "width": width, "height": height, "license": 1}
            )
            for k in range(0 if i in EMPTY else i % 4 + 1):
                annotations.append(
                    {
                        "id": 100 * number + k, "image_id": number,
                        "category_id": CATEGORIES[(i + k) % 3]["id"],
                        "bbox": [2.5 * k, 3.25, 20.5, 10.0 + k], "area": 77.5 + k,
                        "iscrowd": int(k == 3), "segmentation": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]],
                    }
                )  # fmt: skip
        content = {
            "info": {},
            "images": images[::-1],
            "annotations": annotations[::-1],
            "categories": CATEGORIES,
        }
        path(root, folder).write_text(json.dumps(content), encoding="utf-8")
    return root


def path(root: Path, folder: str = "train2017") -> Path:
    """Return the path of the annotation file of a split."""
    return root / "annotations" / f"instances_{folder}.json"


def change(root: Path, change, folder: str = "train2017") -> None:
    """Rewrite an annotation file after `change(content)`. Values may be NaN."""
    content = json.loads(path(root, folder).read_text(encoding="utf-8"))
    change(content)
    path(root, folder).write_text(json.dumps(content), encoding="utf-8")


def annotation(content, number):
    """Return the annotation with an id."""
    return next(entry for entry in content["annotations"] if entry["id"] == number)


def image(content, number):
    """Return the image with an id."""
    return next(entry for entry in content["images"] if entry["id"] == number)
