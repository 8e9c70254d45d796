"""What an evaluation on COCO costs beside the network.

    python benchmarks/detections.py [--images 4952] [--cores 2] [--kinds trained,undecided,scattered]
    python benchmarks/detections.py --workload maskrcnn [--images 5000] [--cores 2]

Mask R-CNN: pasting and encoding of masks, AP of boxes and of masks (mask_detections.py). SSD: decoding and suppression of 4,952
images, and AP of what they leave:

8,732 priors, 81 classes, in batches of 32 through `Workload.measure`, as an evaluation does it: one thread of one process,
pinned to `--cores` cores. Synthetic outputs are made batch by batch, outside the clock. Every image is measured, nothing is
extrapolated:

trained     objects as in COCO (7 in an image), found by the priors that match them; misses, confused classes, false alarms
undecided   an early network: background leads by little, a tenth of the classes passes 0.05 on every prior
scattered   nothing learned, large logits: every class has more candidates than its best 200

AP is of `trained`, with 48 more images without objects, by both evaluators, whose numbers must be equal. Prints JSON.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import mask_detections
import numpy as np
import numpy.typing as npt
from image_suite import full_size
from measuring import show

from workloads.api import Array, Batch
from workloads.common.coco import average_precision
from workloads.ssd import boxes
from workloads.ssd.detections import SCORE_MINIMUM
from workloads.ssd.workload import SSD

BATCH, CLASSES = 32, 80
WITHOUT_OBJECTS = 48
WIDTH, HEIGHT = 640, 480
TARGET_SECONDS = 60.0
OBJECTS_MEAN = 7.3
"""Of a validation image: 36,781 boxes, 5,000 images."""
FALSE_ALARMS = 3
"""For every prior that has an object, anywhere in the image."""
KINDS = ("trained", "undecided", "scattered")
Outputs = dict[str, Array]


def objects(random: np.random.Generator, images: int) -> tuple[Array, Array, Array]:
    """Boxes (M, 4) by corners in shares of the image, labels (M,) from 1, and where those of each image end (images,)."""
    ends = np.cumsum(1 + random.poisson(OBJECTS_MEAN - 1, images))
    size = np.exp(random.uniform(np.log(0.03), np.log(0.8), (ends[-1], 2)))
    corner = random.uniform(0, 1 - size)
    # A few classes are frequent, as persons are.
    label = 1 + np.minimum(random.exponential(CLASSES / 4, ends[-1]).astype(np.int32), CLASSES - 1)
    return np.concatenate([corner, corner + size], axis=1).astype(np.float32), label, ends


def outputs(kind: str, random: np.random.Generator, workload: SSD, found: tuple[Array, Array, Array]) -> Outputs:
    """Logits (B, 81, P) and offsets (B, 4, P) of the images whose objects are given."""
    count, of_priors = len(found[2]), len(workload.priors)
    logits = random.standard_normal((count, CLASSES + 1, of_priors), np.float32)
    offsets = random.standard_normal((count, 4, of_priors), np.float32)
    if kind == "scattered":
        return {"logits": logits * np.float32(3), "offsets": offsets}
    if kind == "undecided":
        logits *= np.float32(0.3)
        logits[:, 0] += 4
        logits[:, 1 : 1 + CLASSES // 10] += np.linspace(1.5, 2.5, CLASSES // 10, dtype=np.float32)[:, None]
        return {"logits": logits, "offsets": offsets * np.float32(0.5)}
    wanted, label = boxes.targets(*found, workload.priors)
    logits[:, 0] += 9
    image, prior = np.nonzero(label)
    certainty = random.normal(8, 3, len(image)).astype(np.float32)
    logits[image, label[image, prior], prior] += certainty
    logits[image, random.integers(1, CLASSES + 1, len(image)), prior] += certainty - 2
    for _ in range(FALSE_ALARMS):
        logits[image, random.integers(1, CLASSES + 1, len(image)), random.integers(0, of_priors, len(image))] += (
            certainty
        )
    return {"logits": logits, "offsets": wanted + offsets * np.float32(0.5)}


def batches(
    workload: SSD, kind: str, images: int, truth: tuple[Array, Array, Array]
) -> Iterator[tuple[Batch, Outputs]]:
    """Evaluation batches with their outputs; the last one is padded."""
    random = np.random.default_rng(1)
    box, label, ends = truth
    for first in range(0, images, BATCH):
        number = np.minimum(np.arange(first, first + BATCH), images - 1)
        start = ends[first - 1] if first else 0
        some = slice(start, ends[number[-1]])
        of_batch = box[some], label[some], ends[number] - start
        arrays: dict[str, Array] = {
            "number": number,
            "width": np.full(BATCH, WIDTH),
            "height": np.full(BATCH, HEIGHT),
            "valid": np.arange(first, first + BATCH) < images,
        }
        yield Batch(arrays, BATCH, BATCH, BATCH), outputs(kind, random, workload, of_batch)


def measure(workload: SSD, kind: str, images: int, truth: tuple[Array, Array, Array]) -> tuple[dict[str, Any], Outputs]:
    """Seconds of decoding and suppression of all images, what went in and came out; and the detections."""
    seconds = cpu_seconds = 0.0
    candidates, parts = [], []
    for batch, made in batches(workload, kind, images, truth):
        candidates.append(passing(made["logits"][batch.arrays["valid"]][:2]))
        begin, cpu = time.perf_counter(), time.process_time()
        parts.append(workload.measure(batch, made))
        seconds += time.perf_counter() - begin
        cpu_seconds += time.process_time() - cpu
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    assert len(found["seen"]) == images
    return {
        "images": images,
        "scores_above_minimum_per_image": round(float(np.mean(candidates))),
        "detections_per_image": round(len(found["score"]) / images, 1),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "met": seconds <= TARGET_SECONDS,
    }, found


def passing(logits: Array) -> float:
    """Mean number of scores above the minimum, of some images (b, 81, P): by a plain softmax."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return float(np.count_nonzero((powers / powers.sum(axis=1, keepdims=True))[:, 1:] > SCORE_MINIMUM) / len(logits))


def ground_truth(truth: tuple[Array, Array, Array], images: int) -> dict[str, Any]:
    """The objects as COCO's annotation files have them; `images` ids from 0."""
    box, label, ends = truth
    pixels = box * np.array([WIDTH, HEIGHT] * 2, np.float32)
    owner = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    rows = zip(owner.tolist(), label.tolist(), pixels.astype(np.float64).tolist(), strict=True)
    annotations = [
        {
            "id": number, "image_id": image, "category_id": category, "iscrowd": 0,
            "bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top),
        }
        for number, (image, category, (left, top, right, bottom)) in enumerate(rows, 1)
    ]  # fmt: skip
    sizes = {"width": WIDTH, "height": HEIGHT}
    return {
        "images": [{"id": number, **sizes} for number in range(images)],
        "annotations": annotations,
        "categories": [{"id": number, "name": str(number)} for number in range(1, CLASSES + 1)],
    }


def scored(truth: dict[str, Any], found: Outputs) -> dict[str, Any]:
    """AP and seconds of every evaluator that can be imported."""
    rows: npt.NDArray[np.float64] = average_precision.rows(
        found["number"], found["box"], found["score"], found["label"]
    )
    results: dict[str, Any] = {"ground_truths": len(truth["annotations"]), "detections": len(rows)}
    for evaluator in average_precision.EVALUATORS:
        if importlib.util.find_spec(evaluator.replace("-", "_")) is None:
            results[evaluator] = "not installed"
            continue
        begin, cpu = time.perf_counter(), time.process_time()
        value = average_precision.average_precision(truth, rows, evaluator)
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
        results[evaluator] = {"ap": value, "seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}
    values = {one["ap"] for one in results.values() if isinstance(one, dict)}
    assert len(values) == 1, f"the evaluators differ: {results}"
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workload", choices=("ssd", "maskrcnn"), default="ssd")
    parser.add_argument("--images", type=int, help="4952, of Mask R-CNN 5000")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    known = {"outputs": "synthetic", "numpy": np.__version__}
    if args.workload == "maskrcnn":
        images = args.images or 5_000
        truth = objects(np.random.default_rng(0), images)
        figures = mask_detections.measure(truth, ground_truth(truth, images), images, CLASSES)
        return show("detections maskrcnn", args.cores, **known, **figures)
    args.images = args.images or 4_952
    workload = full_size("ssd", "pytorch", "fp32", BATCH, args.cores)
    assert isinstance(workload, SSD)
    truth = objects(np.random.default_rng(0), args.images)
    results, precision = {}, None
    for kind in args.kinds.split(","):
        results[kind], found = measure(workload, kind, args.images, truth)
        print(f"{kind}: {results[kind]}", file=sys.stderr)
        if kind == "trained":
            precision = scored(ground_truth(truth, args.images + WITHOUT_OBJECTS), found)
            print(f"AP: {precision}", file=sys.stderr)
    sizes = {"threads": 1, "priors": len(workload.priors), "classes": CLASSES + 1, "target_seconds": TARGET_SECONDS}
    show("detections", args.cores, **known, **sizes, results=results, average_precision=precision)


if __name__ == "__main__":
    main()
