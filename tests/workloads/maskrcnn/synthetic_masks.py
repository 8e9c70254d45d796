"""A small data set in COCO's layout with polygons, crowds as run lengths, and tiny boxes."""

from pathlib import Path

import numpy as np

from tests.workloads.common.coco import synthetic_coco as synthetic


def write(root: Path, train: int = 12, val: int = 9) -> Path:
    """Write the images of `synthetic_coco` with masks.

    Every fifth object has two polygons, and crowds have run lengths.
    """
    synthetic.write(root, train, val)
    for folder in ("train2017", "val2017"):
        synthetic.change(root, _give_masks, folder)
    return root


def _give_masks(content: dict) -> None:
    sizes = {image["id"]: (image["height"], image["width"]) for image in content["images"]}
    for number, entry in enumerate(content["annotations"]):
        k = entry["id"] % 100
        left, top = 1.5 + 7 * k, 2.25 + 3 * k
        first = [left, top, left + 18, top + 1, left + 21, top + 17, left + 2, top + 15.5]
        second = [left + 30, top, left + 38, top, left + 34, top + 9]
        entry["segmentation"] = [first, second] if number % 5 == 0 else [first]
        entry["bbox"] = [left, top, 38 if number % 5 == 0 else 21, 17]
        if entry["iscrowd"]:
            entry["segmentation"], entry["bbox"] = crowd(*sizes[entry["image_id"]]), [3, 5, 37, 25]
        entry["area"] = entry["bbox"][2] * entry["bbox"][3]


def crowd(height: int, width: int) -> dict:
    """Return the run lengths of a rectangle of 37 x 25 pixels."""
    pixels = np.zeros((height, width), np.uint8)
    pixels[5:30, 3:40] = 1
    flat = pixels.T.reshape(-1)
    changes = np.flatnonzero(np.diff(flat)) + 1
    return {"counts": np.diff([0, *changes, flat.size]).tolist(), "size": [height, width]}
