"""Generate photographs for benchmarks of image input.

The photographs are written as individual JPEGs, or in the layout of ImageNet or COCO.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg

from workloads.common.coco.dataset import SPLITS

HEIGHT, WIDTH = 375, 500
"""Approximate mean image size in ImageNet, in pixels."""
COCO_HEIGHT, COCO_WIDTH, COCO_CLASSES = 480, 640, 80
OBJECTS_MEAN, POINTS_MEAN = 7.3, 25
"""Mean number of objects per image and of points per polygon. COCO has 860,001 boxes in 117,266
images with objects. The number of points is approximate.
"""


def photo(seed: int, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Generate an image (height, width, 3) with the spectrum of a photograph.

    The image consists of noise at several scales, edges, and grain.
    """
    random = np.random.default_rng(seed)
    image = np.full((height, width, 3), 128, np.float32)
    for cells, strength in ((4, 60), (16, 35), (64, 22), (250, 10)):
        noise = random.normal(0, strength, (cells * height // width, cells, 3)).astype(np.float32)
        image += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(14):
        colour = [float(value) for value in random.integers(0, 255, 3)]
        place, end = ([int(value) for value in random.integers(0, width, 2)] for _ in range(2))
        if random.random() < 0.5:
            cv2.circle(image, place, int(random.integers(8, 90)), colour, -1)
        else:
            cv2.line(image, place, end, colour, int(random.integers(1, 9)))
    image += random.normal(0, 7, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


def jpeg(seed: int, height: int, width: int, quality: int) -> bytes:
    """Generate a photograph as a JPEG with chroma subsampling (half resolution)."""
    encoded: bytes = simplejpeg.encode_jpeg(photo(seed, height, width), quality, "RGB", "420")
    return encoded


def write_imagenet(root: Path, train: int, val: int, classes: int, quality: int) -> int:
    """Write photographs of HEIGHT x WIDTH pixels in ImageNet's layout below `root`.

    Returns the mean file size in bytes.
    """
    total = 0
    for number in range(train + val):
        path = (
            root
            / ("train" if number < train else "val")
            / f"n{number % classes:08d}"
            / f"{number}.JPEG"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        total += path.write_bytes(jpeg(number, HEIGHT, WIDTH, quality))
    return total // (train + val)


def write_coco(root: Path, count: int, quality: int) -> int:
    """Write photographs and annotations in COCO's layout below `root`.

    Returns the mean file size in bytes.
    """
    (root / "annotations").mkdir(parents=True)
    total, numbers = 0, itertools.count(1)
    categories = [{"id": kind, "name": f"class {kind}"} for kind in range(1, COCO_CLASSES + 1)]
    for split, size in (("train", count), ("val", 1)):
        folder, images, objects = root / SPLITS[split], [], []
        folder.mkdir()
        for number in itertools.islice(numbers, size):
            total += (folder / f"{number}.jpg").write_bytes(
                jpeg(number, COCO_HEIGHT, COCO_WIDTH, quality)
            )
            images.append(
                {
                    "id": number,
                    "file_name": f"{number}.jpg",
                    "width": COCO_WIDTH,
                    "height": COCO_HEIGHT,
                }
            )
            objects += coco_objects(number)
        content = {"images": images, "annotations": objects, "categories": categories}
        (root / "annotations" / f"instances_{SPLITS[split]}.json").write_text(json.dumps(content))
    return total // (count + 1)


def coco_objects(image: int) -> list[dict[str, Any]]:
    """Generate the objects of an image.

    The number of objects has a geometric distribution. Boxes have a height and width of around 55
    pixels, and 10 % of the objects have two polygons.
    """
    random = np.random.default_rng(image)
    found: list[dict[str, Any]] = []
    for number in range(min(int(random.geometric(1 / OBJECTS_MEAN)), 60)):
        size = np.clip(np.exp(random.normal(4.0, 1.1, 2)), 4, (COCO_WIDTH - 20, COCO_HEIGHT - 20))
        corner = random.random(2) * (np.array([COCO_WIDTH, COCO_HEIGHT]) - size)
        polygons = [_outline(random, corner, size) for _ in range(1 + (random.random() < 0.1))]
        points = np.concatenate([np.reshape(polygon, (-1, 2)) for polygon in polygons])
        low, extent = points.min(0), np.ptp(points, axis=0)
        found.append({
            "id": 100 * image + number, "image_id": image,
            "category_id": int(random.integers(1, COCO_CLASSES + 1)),
            "bbox": [*low.round(2).tolist(), *extent.round(2).tolist()],
            "area": float(extent.prod()), "iscrowd": 0,
            "segmentation": polygons,
        })  # fmt: skip
    return found


def _outline(random: np.random.Generator, corner: np.ndarray, size: np.ndarray) -> list[float]:
    """Return x, y, x, y, … of a star-shaped polygon that nearly fills a bounding box."""
    turn = np.sort(random.uniform(0, 2 * np.pi, 3 + int(random.geometric(1 / POINTS_MEAN))))
    radius = random.uniform(0.7, 1, len(turn))[:, None] / 2
    points = corner + size * (0.5 + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1))
    flat: list[float] = points.round(2).reshape(-1).tolist()
    return flat
