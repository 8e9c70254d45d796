"""Speed of SSD's training input on JPEGs of 640 x 480 pixels with boxes, as COCO has them; prints JSON.

    python benchmarks/ssd_input.py --python PYTHON_WITH_TORCH [--images 256] [--rounds 9] [--quality 94]

Images per second of one core, read, decoded, cropped as SSD does, flipped, resized to 300, jittered in colour and matched to
8,732 priors: this pipeline (`exact`, `scaled`) and torch's DataLoader with torchvision v2 and either of its decoders (`pillow`,
`torchvision`; without workers, its fastest on one core), in alternating rounds; medians, and ratios of them to the loader's
faster decoder. Everything of a process is pinned to the core; rates are also given per second of processor time, which other
work on the machine disturbs less. This pipeline ends a round with as much ready as it began. Both make one attempt at a crop
before another mode is drawn; torchvision's condition is on any box, not on every one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import photos
import PIL
from contenders import Rates, alternate, answer_rounds, head, medians, rounded

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workloads.api import Place
from workloads.common.coco.dataset import SPLITS, CocoFolders
from workloads.common.coco.facts import COCO2017
from workloads.common.images import turbo
from workloads.ssd import priors
from workloads.ssd.data import DetectionData
from workloads.ssd.settings import REFERENCE_MODEL

PROJECT = Path(__file__).resolve().parent.parent
HEIGHT, WIDTH = 480, 640
CLASSES, BATCH = 80, 32
OBJECTS_MEAN = 7.3
"""COCO: 860,001 boxes in 117,266 images with objects."""
DECODE, LOADERS = ("exact", "scaled"), ("pillow", "torchvision")
TARGET = 2.0
"""Times the images per second of the loader, per core."""


def entries(image: int) -> list[dict[str, Any]]:
    """Made-up objects of an image: geometric numbers, sides around 55 pixels that spread by a factor of three."""
    random = np.random.default_rng(image)
    found = []
    for number in range(min(int(random.geometric(1 / OBJECTS_MEAN)), 60)):
        width, height = np.clip(np.exp(random.normal(4.0, 1.1, 2)), 4, (WIDTH - 20, HEIGHT - 20)).round(2).tolist()
        left, top = (random.random(2) * (WIDTH - width, HEIGHT - height)).round(2).tolist()
        kind, box = int(random.integers(1, CLASSES + 1)), [left, top, width, height]
        found.append({"id": 100 * image + number, "image_id": image, "category_id": kind, "bbox": box, "iscrowd": 0})
        found[-1]["area"] = width * height
    return found


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
    settings = SimpleNamespace(
        model=REFERENCE_MODEL,
        hyperparameters={"max_samples": 1},
        options={"decode": decode},
        batch_size_global=BATCH,
        data_dir=folder,
    )
    data = DetectionData(settings, COCO2017.read(folder), Place(0, 1, range(1), 1, ("cpu",)), 0)  # type: ignore[arg-type]
    batches = data.train(0, 1 << 40)
    for _ in range(4):
        next(batches)
    answer_rounds(lambda: len(next(batches)[0].arrays["label"]), data.finish, seconds)


def measure(core: int, folder: Path, args: argparse.Namespace) -> Rates:
    """Rates of all contenders."""
    me, bare = str(Path(__file__).resolve()), str(PROJECT / "benchmarks/bare/ssd_input.py")
    seconds, prepared = str(args.seconds), str(folder / "prepared")
    files = [str(folder / SPLITS["train"]), str(folder / f"annotations/instances_{SPLITS['train']}.json")]
    commands = {decode: [sys.executable, me, "--pipeline", decode, prepared, seconds] for decode in DECODE}
    for kind in LOADERS:
        commands[kind] = [args.python, bare, kind, *files, str(folder / "priors.npy"), seconds]
    return alternate(commands, {core}, args.rounds)


def ratios_of(rates: dict[str, float]) -> dict[str, float]:
    """This pipeline to the faster of the loaders."""
    fastest = max(rates[kind] for kind in LOADERS)
    return {f"{decode}_to_loader": round(rates[decode] / fastest, 2) for decode in DECODE}


def report(rates: Rates, bytes_mean: int) -> dict[str, object]:
    """All figures."""
    found, cpu = medians(rates, 0), medians(rates, 1)
    ratios = ratios_of(found)
    return {
        "file_bytes_mean": bytes_mean,
        "pixels": [HEIGHT, WIDTH],
        "opencv": cv2.__version__,
        "pillow": PIL.__version__,
        "crops_while_decoding": turbo.library() is not None,
        "images_per_second": rounded(found),
        "images_per_second_of_cpu_time": rounded(cpu),
        "rounds": {name: [round(rate[0]) for rate in rounds] for name, rounds in rates.items()},
        "ratios": ratios,
        "ratios_of_cpu_time": ratios_of(cpu),
        "target": TARGET,
        "met": ratios["exact_to_loader"] >= TARGET,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Write the images, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch and torchvision")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round")
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
        np.save(folder / "priors.npy", np.ascontiguousarray(priors.build(REFERENCE_MODEL).centres.T))
        rates = measure(min(os.sched_getaffinity(0)), folder, args)
    print(json.dumps({**head("ssd_input"), **report(rates, bytes_mean)}, indent=1))


if __name__ == "__main__":
    main()
