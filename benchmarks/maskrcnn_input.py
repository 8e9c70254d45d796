"""Speed of Mask R-CNN's training input on JPEGs of 640 x 480 pixels with boxes and polygons, as COCO has them; prints JSON.

    python benchmarks/maskrcnn_input.py --python PYTHON_WITH_TORCH [--images 128] [--rounds 9] [--quality 94]

Images per second of one core, read, decoded, flipped, resized to 800 x 1066, padded, with boxes and polygons, and with labels
and a sample of 217,413 anchors: this pipeline (`exact`, `scaled`), and torch's DataLoader with torchvision v2 and either of its
decoders (`pillow`, `torchvision`; without workers, its fastest on one core), which makes boxes and drawn masks and looks at no
anchors, in alternating rounds; medians and their ratios. `exact` and `pillow` make the reference's pixels, the others nearly.
Everything of a process is pinned to the core; rates are also given per second of processor time, which other work on the
machine disturbs less. `anchors`: CPU milliseconds of labels, sample and offsets of an image alone, by its number of objects.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import photos
import PIL
from contenders import Rates, alternate, answer_rounds, head, medians, rounded

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workloads.api import Place, Settings
from workloads.common.coco.dataset import SPLITS, CocoFolders
from workloads.maskrcnn import anchors
from workloads.maskrcnn.input import rpn_targets
from workloads.maskrcnn.input.data import SampleData
from workloads.maskrcnn.input.facts import read_facts
from workloads.maskrcnn.settings import REFERENCE_MODEL

PROJECT = Path(__file__).resolve().parent.parent
HEIGHT, WIDTH = 480, 640
CLASSES, BATCH = 80, 2
OBJECTS_MEAN, POINTS_MEAN = 7.3, 25
"""COCO: 860,001 boxes in 117,266 images with objects; points of a polygon, about."""
DECODE, LOADERS = ("exact", "scaled"), ("pillow", "torchvision")
TARGET = 2.0
"""Times the images per second of the loader, per core."""
ANCHORS_MILLISECONDS = 25.0
OBJECTS = (1, 7, 20, 60)


def entries(image: int) -> list[dict[str, Any]]:
    """Synthetic objects of an image: geometric numbers, sides around 55 pixels; a tenth has two polygons."""
    random = np.random.default_rng(image)
    found: list[dict[str, Any]] = []
    for number in range(min(int(random.geometric(1 / OBJECTS_MEAN)), 60)):
        size = np.clip(np.exp(random.normal(4.0, 1.1, 2)), 4, (WIDTH - 20, HEIGHT - 20))
        corner = random.random(2) * (np.array([WIDTH, HEIGHT]) - size)
        polygons = [outline(random, corner, size) for _ in range(1 + (random.random() < 0.1))]
        points = np.concatenate([np.reshape(polygon, (-1, 2)) for polygon in polygons])
        low, extent = points.min(0), np.ptp(points, axis=0)
        found.append(
            {
                "id": 100 * image + number,
                "image_id": image,
                "category_id": int(random.integers(1, CLASSES + 1)),
                "bbox": [*low.round(2).tolist(), *extent.round(2).tolist()],
                "area": float(extent.prod()),
                "iscrowd": 0,
                "segmentation": polygons,
            }
        )
    return found


def outline(random: np.random.Generator, corner: np.ndarray, size: np.ndarray) -> list[float]:
    """x, y in turn of a star-shaped polygon that nearly fills a box."""
    turn = np.sort(random.uniform(0, 2 * np.pi, 3 + int(random.geometric(1 / POINTS_MEAN))))
    radius = random.uniform(0.7, 1, len(turn))[:, None] / 2
    points = corner + size * (0.5 + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1))
    flat: list[float] = points.round(2).reshape(-1).tolist()
    return flat


def write_coco(root: Path, count: int, quality: int) -> int:
    """Images and annotations in COCO's layout below `root`; returns the mean size of a file in bytes."""
    (root / "annotations").mkdir(parents=True)
    total, number = 0, 0
    categories = [{"id": kind, "name": f"class {kind}"} for kind in range(1, CLASSES + 1)]
    for split, size in (("train", count), ("val", 1)):
        folder, images, objects = root / SPLITS[split], [], []
        folder.mkdir()
        for _ in range(size):
            number += 1
            data = photos.jpeg(number, HEIGHT, WIDTH, quality)
            (folder / f"{number}.jpg").write_bytes(data)
            total += len(data)
            images.append({"id": number, "file_name": f"{number}.jpg", "width": WIDTH, "height": HEIGHT})
            objects += entries(number)
        content = {"images": images, "annotations": objects, "categories": categories}
        (root / "annotations" / f"instances_{SPLITS[split]}.json").write_text(json.dumps(content))
    return total // number


def pipeline(decode: str, folder: str, seconds: float) -> None:
    """Rounds of this pipeline, one per word on stdin: a process of its own."""
    settings = Settings(
        workload="maskrcnn", batch_size_global=BATCH, devices=1, nodes=1, cores_per_device=1, data_dir=folder,
        model=REFERENCE_MODEL, options={"decode": decode},
    )  # fmt: skip
    data = SampleData(settings, read_facts(settings), Place(0, 1, range(1), 1, ("cpu",)), 0)
    batches = data.train(0, 1 << 40)
    for _ in range(4):
        next(batches)
    answer_rounds(lambda: len(next(batches)[0].arrays["label"]), data.finish, seconds)


def anchor_milliseconds() -> dict[str, float]:
    """CPU time of what an image's anchors learn, 800 x 1333, by number of objects; the best of five."""
    levels, found = anchors.levels(REFERENCE_MODEL, 800, 1344), {}
    for count in OBJECTS:
        random = np.random.default_rng(count)
        size = np.exp(random.uniform(np.log(16), np.log(600), (count, 2)))
        corner = random.random((count, 2)) * (np.array([1332, 799]) - size)
        box = np.concatenate([corner, corner + size], axis=1).astype(np.float32)
        seconds = []
        for key in range(6):
            begin = time.thread_time()
            labels = rpn_targets.label(levels, box, 800, 1333)
            rpn_targets.sample(labels, levels, box, 256, np.uint64(key))
            seconds.append(time.thread_time() - begin)
        found[str(count)] = round(1000 * min(seconds), 2)
    return found


def measure(core: int, folder: Path, args: argparse.Namespace) -> Rates:
    """Rates of all contenders."""
    me, bare = str(Path(__file__).resolve()), str(PROJECT / "benchmarks/bare/maskrcnn_input.py")
    seconds, prepared = str(args.seconds), str(folder / "prepared")
    files = [str(folder / SPLITS["train"]), str(folder / f"annotations/instances_{SPLITS['train']}.json")]
    commands = {decode: [sys.executable, me, "--pipeline", decode, prepared, seconds] for decode in DECODE}
    for kind in LOADERS:
        commands[kind] = [args.python, bare, kind, *files, seconds]
    return alternate(commands, {core}, args.rounds)


def ratios_of(rates: dict[str, float]) -> dict[str, float]:
    """This pipeline to each of the loaders."""
    return {f"{decode}_to_{kind}": round(rates[decode] / rates[kind], 2) for decode in DECODE for kind in LOADERS}


def report(rates: Rates, bytes_mean: int) -> dict[str, object]:
    """All figures."""
    found, cpu, milliseconds = medians(rates, 0), medians(rates, 1), anchor_milliseconds()
    ratios = ratios_of(found)
    return {
        "file_bytes_mean": bytes_mean,
        "pixels": [HEIGHT, WIDTH],
        "opencv": cv2.__version__,
        "pillow": PIL.__version__,
        "images_per_second": rounded(found),
        "images_per_second_of_cpu_time": rounded(cpu),
        "rounds": {name: [round(rate[0], 1) for rate in rounds] for name, rounds in rates.items()},
        "ratios": ratios,
        "ratios_of_cpu_time": ratios_of(cpu),
        "target": TARGET,
        "anchors_ms_by_objects": milliseconds,
        "anchors_ms_target": ANCHORS_MILLISECONDS,
        "met": {
            "exact": min(ratios[f"exact_to_{kind}"] for kind in LOADERS) >= TARGET,
            "scaled": min(ratios[f"scaled_to_{kind}"] for kind in LOADERS) >= TARGET,
            "anchors": milliseconds["20"] <= ANCHORS_MILLISECONDS,
        },
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Write the images, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch, torchvision and pycocotools")
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one round")
    parser.add_argument("--quality", type=int, default=94, help="of the JPEGs; 94 gives files as large as COCO's")
    parser.add_argument("--pipeline", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pipeline:
        return pipeline(args.pipeline[0], args.pipeline[1], float(args.pipeline[2]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bytes_mean = write_coco(folder, args.images, args.quality)
        CocoFolders.name = "benchmark"
        CocoFolders().prepare(folder, folder / "prepared")
        rates = measure(min(os.sched_getaffinity(0)), folder, args)
    print(json.dumps({**head("maskrcnn_input"), **report(rates, bytes_mean)}, indent=1))


if __name__ == "__main__":
    main()
