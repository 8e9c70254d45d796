"""Measure the cost of a COCO evaluation, excluding the network.

    python -m benchmarks.detections [--images 4952] [--cores 2]
        [--kinds trained,undecided,scattered]
    python -m benchmarks.detections --workload maskrcnn [--images 5000] [--cores 2]

For SSD, the benchmark measures box decoding and non-maximum suppression for 4,952 images, and AP of
the resulting detections. An image has 8,732 priors and 81 classes. `Workload.eval_batch_metrics`
processes batches of 32 images, as in an evaluation. The method runs in a single thread of a single
process, which is pinned to `--cores` cores. The synthetic network outputs are generated batch by
batch, and their generation is not timed. All images are measured, without extrapolation. The option
--kinds selects synthetic network outputs:
* trained: objects as in COCO (7 per image), detected by the priors that match them, with misses,
  confused classes, and false alarms.
* undecided: outputs of a network early in training. The background scores slightly higher than the
  classes. On every prior, 10 % of the classes have a score above 0.05.
* scattered: outputs of an untrained network with large logits. Every class has more than 200
  candidates, of which the best 200 are kept.

AP is computed for `trained`, with 48 additional images without objects. Two evaluators compute AP,
and both evaluators must return equal values.

For Mask R-CNN, each of 5,000 images of 640 x 480 has 30 synthetic detections near the objects, some
with a wrong class. `results.eval_batch_metrics` pastes and encodes the masks in the workload's
threads, as in an evaluation. Two evaluators compute AP of boxes and of masks, and both evaluators
must return equal values. The output is JSON.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from pycocotools import mask as tool

from benchmarks.image_suite import full_size
from benchmarks.measuring import parser_with, show
from workloads.api import Array, Arrays, Batch
from workloads.common.coco import average_precision
from workloads.common.coco.masks import split_bytes
from workloads.maskrcnn import results as maskrcnn_results
from workloads.maskrcnn.workload import MaskRCNN
from workloads.ssd import boxes
from workloads.ssd.detections import SCORE_MINIMUM
from workloads.ssd.workload import SSD

BATCH, CLASSES = 32, 80
WITHOUT_OBJECTS = 48
WIDTH, HEIGHT = 640, 480
TARGET_SECONDS, MASKS_TARGET_SECONDS = 60.0, 240.0
OBJECTS_MEAN = 7.3
"""Mean number of objects in a validation image: 36,781 boxes in 5,000 images."""
FALSE_ALARMS = 3
"""Number of false alarms per prior with an object. The false alarms have random positions in the
image.
"""
MASKS_BATCH, SLOTS, DETECTIONS, SIDE, SCALE = 8, 100, 30, 28, 800 / 480
"""Mask R-CNN: images per batch, object slots and detections per image, height and width of a
predicted mask in pixels, and image scale.
"""
KINDS = ("trained", "undecided", "scattered")
Outputs = dict[str, Array]
Truth = tuple[Array, Array, Array]
"""Boxes (M, 4) as corners in fractions of the image, labels (M,) starting at 1, and `ends`
(images,).

`ends[i]` is the index after the last object of image `i`.
"""


def objects(random: np.random.Generator, images: int) -> Truth:
    """Generate the objects of synthetic images."""
    ends = np.cumsum(1 + random.poisson(OBJECTS_MEAN - 1, images))
    size = np.exp(random.uniform(np.log(0.03), np.log(0.8), (ends[-1], 2)))
    corner = random.uniform(0, 1 - size)
    # A few classes are much more frequent than others, like persons in COCO.
    label = 1 + np.minimum(random.exponential(CLASSES / 4, ends[-1]).astype(np.int32), CLASSES - 1)
    return np.concatenate([corner, corner + size], axis=1).astype(np.float32), label, ends


def outputs(kind: str, random: np.random.Generator, workload: SSD, found: Truth) -> Outputs:
    """Generate logits (B, 81, P) and offsets (B, 4, P) for images with the given objects."""
    count, of_priors = len(found[2]), len(workload.priors)
    logits = random.standard_normal((count, CLASSES + 1, of_priors), np.float32)
    offsets = random.standard_normal((count, 4, of_priors), np.float32)
    if kind == "scattered":
        return {"logits": logits * np.float32(3), "offsets": offsets}
    if kind == "undecided":
        logits *= np.float32(0.3)
        logits[:, 0] += 4
        logits[:, 1 : 1 + CLASSES // 10] += np.linspace(1.5, 2.5, CLASSES // 10, dtype=np.float32)[
            :, None
        ]
        return {"logits": logits, "offsets": offsets * np.float32(0.5)}
    wanted, label = boxes.targets(*found, workload.priors)
    logits[:, 0] += 9
    image, prior = np.nonzero(label)
    certainty = random.normal(8, 3, len(image)).astype(np.float32)
    logits[image, label[image, prior], prior] += certainty
    logits[image, random.integers(1, CLASSES + 1, len(image)), prior] += certainty - 2
    for _ in range(FALSE_ALARMS):
        logits[
            image,
            random.integers(1, CLASSES + 1, len(image)),
            random.integers(0, of_priors, len(image)),
        ] += certainty
    return {"logits": logits, "offsets": wanted + offsets * np.float32(0.5)}


def of_images(truth: Truth, number: Array) -> Truth:
    """Return the objects of consecutive images.

    If the last image is repeated to fill a batch, the repetitions have no objects.
    """
    box, label, ends = truth
    start = ends[number[0] - 1] if number[0] else 0
    some = slice(start, ends[number[-1]])
    return box[some], label[some], ends[number] - start


def batches(
    size: int, images: int, make: Callable[[Array], Outputs]
) -> Iterator[tuple[Batch, Outputs]]:
    """Yield evaluation batches of `size` images, with the arrays that `make` returns.

    The last batch is padded.
    """
    for first in range(0, images, size):
        number = np.minimum(np.arange(first, first + size), images - 1)
        arrays: dict[str, Array] = {
            "number": number,
            "size": np.tile(np.array([HEIGHT * SCALE, WIDTH * SCALE], np.int32), (size, 1)),
            "width": np.full(size, WIDTH),
            "height": np.full(size, HEIGHT),
            "valid": np.arange(first, first + size) < images,
        }
        yield Batch(arrays, size, size, size), make(number)


def measure(workload: SSD, kind: str, images: int, truth: Truth) -> tuple[dict[str, Any], Outputs]:
    """Measure box decoding and non-maximum suppression for all images.

    Returns the measurements and the detections.
    """
    seconds = cpu_seconds = 0.0
    candidates, parts, random = [], [], np.random.default_rng(1)
    for batch, detections in batches(
        BATCH, images, lambda n: outputs(kind, random, workload, of_images(truth, n))
    ):
        candidates.append(passing(detections["logits"][batch.arrays["valid"]][:2]))
        begin, cpu = time.perf_counter(), time.process_time()
        parts.append(workload.eval_batch_metrics(batch, detections))
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
    """Return the mean number of scores per image that are above the minimum score.

    The scores are the softmax of logits (b, 81, P).
    """
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return float(
        np.count_nonzero((powers / powers.sum(axis=1, keepdims=True))[:, 1:] > SCORE_MINIMUM)
        / len(logits)
    )


def ground_truth(truth: Truth, images: int) -> dict[str, Any]:
    """Return the objects in the format of COCO's annotation files.

    Image ids start at 0.
    """
    box, label, ends = truth
    pixels = box * np.array([WIDTH, HEIGHT] * 2, np.float32)
    owner = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    rows = zip(owner.tolist(), label.tolist(), pixels.astype(np.float64).tolist(), strict=True)
    annotations = [
        {
            "id": number, "image_id": image, "category_id": category, "iscrowd": 0,
            "bbox": [left, top, right - left, bottom - top],
            "area": (right - left) * (bottom - top),
        }
        for number, (image, category, (left, top, right, bottom)) in enumerate(rows, 1)
    ]  # fmt: skip
    sizes = {"width": WIDTH, "height": HEIGHT}
    return {
        "images": [{"id": number, **sizes} for number in range(images)],
        "annotations": annotations,
        "categories": [{"id": number, "name": str(number)} for number in range(1, CLASSES + 1)],
    }


def by_evaluator(figures: Callable[[str], dict[str, Any]], *values: str) -> dict[str, Any]:
    """Return the results of every installed evaluator, and check that they are equal.

    Raises an error if the results of the evaluators differ.
    """
    found: dict[str, Any] = dict.fromkeys(average_precision.EVALUATORS, "not installed")
    for evaluator in found:
        if importlib.util.find_spec(evaluator.replace("-", "_")) is not None:
            found[evaluator] = figures(evaluator)
    different = {
        tuple(row[name] for name in values) for row in found.values() if isinstance(row, dict)
    }
    assert len(different) == 1, f"the evaluators differ: {found}"
    return found


def scored(truth: dict[str, Any], found: Outputs) -> dict[str, Any]:
    """Compute AP, and return AP with the seconds of its computation."""
    rows: npt.NDArray[np.float64] = average_precision.rows(
        found["number"], found["box"], found["score"], found["label"]
    )

    def figures(evaluator: str) -> dict[str, Any]:
        begin, cpu = time.perf_counter(), time.process_time()
        value = average_precision.average_precision(truth, rows, evaluator)
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
        return {"ap": value, "seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}

    sizes = {"ground_truths": len(truth["annotations"]), "detections": len(rows)}
    return {**sizes, **by_evaluator(figures, "ap")}


def blobs(random: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """Generate probability masks (count, 28, 28), which are ellipses with noisy edges."""
    y, x = (
        (np.arange(SIDE) + 0.5 - SIDE / 2)[:, None] / (SIDE / 2),
        (np.arange(SIDE) + 0.5 - SIDE / 2) / (SIDE / 2),
    )
    radius = random.uniform(0.7, 1.1, (count, 2, 1, 1))
    distance = (y / radius[:, 0]) ** 2 + (x / radius[:, 1]) ** 2
    return (1 / (1 + np.exp(6 * (distance - 1) + random.normal(0, 0.7, distance.shape)))).astype(
        np.float32
    )


def masks(random: np.random.Generator, truth: Truth, number: Array) -> Outputs:
    """Generate a trained network's detections for the given images.

    The coordinates of the detections are pixels of the resized image, which is the network's input.
    """
    box, label, ends = truth
    pixels = box * np.array([WIDTH, HEIGHT] * 2) * SCALE
    found = {
        "box": np.zeros((MASKS_BATCH, SLOTS, 4), np.float32),
        "score": np.zeros((MASKS_BATCH, SLOTS), np.float32),
        "label": np.zeros((MASKS_BATCH, SLOTS), np.int32),
        "mask": np.zeros((MASKS_BATCH, SLOTS, SIDE, SIDE), np.float32),
    }
    for slot, image in enumerate(number):
        start = ends[image - 1] if image else 0
        chosen = random.integers(start, ends[image], DETECTIONS)
        shift = random.normal(0, 0.1, (DETECTIONS, 4)) * np.tile(
            pixels[chosen, 2:] - pixels[chosen, :2], 2
        )
        found["box"][slot, :DETECTIONS] = np.sort(
            (pixels[chosen] + shift).reshape(-1, 2, 2), axis=1
        ).reshape(-1, 4)
        wrong = random.random(DETECTIONS) < 0.3
        found["label"][slot, :DETECTIONS] = np.where(
            wrong, random.integers(1, CLASSES + 1, DETECTIONS), label[chosen]
        )
        found["score"][slot, :DETECTIONS] = np.sort(random.uniform(0.05, 1, DETECTIONS))[::-1]
        found["mask"][slot, :DETECTIONS] = blobs(random, DETECTIONS)
    return found


def pasted(truth: Truth, images: int) -> tuple[dict[str, Any], Outputs]:
    """Paste and encode the masks in the workload's threads.

    Returns the seconds and the encoded results. The time to generate the masks is not included.
    """
    parts: list[Arrays] = []
    seconds, cpu_seconds, random = 0.0, 0.0, np.random.default_rng(2)
    generated = batches(MASKS_BATCH, images, lambda number: masks(random, truth, number))
    with ThreadPoolExecutor(MaskRCNN.measure_threads) as pool:
        while some := list(itertools.islice(generated, 16)):
            begin, cpu = time.perf_counter(), time.process_time()
            parts += pool.map(lambda batch: maskrcnn_results.eval_batch_metrics(*batch), some)
            seconds += time.perf_counter() - begin
            cpu_seconds += time.process_time() - cpu
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    assert len(found["seen"]) == images
    spent = {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "threads": MaskRCNN.measure_threads,
    }
    return {**spent, "detections": len(found["score"])}, found


def true_masks(truth: Truth) -> list[bytes]:
    """Return ellipses that fill the objects' boxes, as compressed run-length encodings."""
    turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    pixels = truth[0].astype(np.float64) * np.array([WIDTH, HEIGHT] * 2)
    found = []
    for left, top, right, bottom in pixels.tolist():
        points = (
            np.array([left + right, top + bottom]) / 2
            + circle * np.array([right - left, bottom - top]) / 2
        )
        found.append(
            bytes(
                tool.merge(tool.frPyObjects([points.reshape(-1).tolist()], HEIGHT, WIDTH))["counts"]
            )
        )
    return found


def masks_scored(truth: dict[str, Any], of_truth: list[bytes], found: Outputs) -> dict[str, Any]:
    """Compute AP of boxes and of masks, and return both with the seconds of the computation."""
    rows = average_precision.rows(found["number"], found["box"], found["score"], found["label"])
    sizes = np.tile([HEIGHT, WIDTH], (len(rows), 1))
    encoded = split_bytes(found["mask_counts"], np.cumsum(found["mask_bytes"]))

    def figures(evaluator: str) -> dict[str, Any]:
        times = [time.perf_counter()]
        boxes = average_precision.average_precision(truth, rows, evaluator)
        times.append(time.perf_counter())
        segments = average_precision.mask_average_precision(
            truth, of_truth, rows, sizes, encoded, evaluator
        )
        times.append(time.perf_counter())
        seconds = {
            name: round(value, 2)
            for name, value in zip(("BBOX", "SEGM"), np.diff(times).tolist(), strict=True)
        }
        return {"BBOX": boxes, "SEGM": segments, "seconds": seconds}

    return by_evaluator(figures, "BBOX", "SEGM")


def maskrcnn(images: int) -> dict[str, Any]:
    """Return all measurements of Mask R-CNN.

    An evaluator's `total_seconds` includes pasting and encoding the masks.
    """
    truth = objects(np.random.default_rng(0), images)
    encoding, found = pasted(truth, images)
    precision = masks_scored(ground_truth(truth, images), true_masks(truth), found)
    totals = {
        name: round(encoding["seconds"] + sum(row["seconds"].values()), 2)
        for name, row in precision.items()
        if isinstance(row, dict)
    }
    return {
        "images": images,
        "detections_per_image": DETECTIONS,
        "target_seconds": MASKS_TARGET_SECONDS,
        "paste_and_encode": encoding,
        "average_precision": precision,
        "total_seconds": totals,
        "met": {name: total <= MASKS_TARGET_SECONDS for name, total in totals.items()},
    }


def ssd(images: int, kinds: list[str], cores: int) -> dict[str, Any]:
    """Return all measurements of SSD."""
    workload = full_size("ssd", "pytorch", "fp32", BATCH, cores)
    assert isinstance(workload, SSD)
    truth = objects(np.random.default_rng(0), images)
    results, precision = {}, None
    for kind in kinds:
        results[kind], found = measure(workload, kind, images, truth)
        print(f"{kind}: {results[kind]}", file=sys.stderr)
        if kind == "trained":
            precision = scored(ground_truth(truth, images + WITHOUT_OBJECTS), found)
            print(f"AP: {precision}", file=sys.stderr)
    sizes = {
        "threads": 1,
        "priors": len(workload.priors),
        "classes": CLASSES + 1,
        "target_seconds": TARGET_SECONDS,
    }
    return {**sizes, "results": results, "average_precision": precision}


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, cores=2, kinds=",".join(KINDS))
    parser.add_argument("--workload", choices=("ssd", "maskrcnn"), default="ssd")
    parser.add_argument("--images", type=int, help="4952, of Mask R-CNN 5000")
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    context = {"outputs": "synthetic", "numpy": np.__version__}
    if args.workload == "maskrcnn":
        return show("detections maskrcnn", args.cores, **context, **maskrcnn(args.images or 5_000))
    show(
        "detections",
        args.cores,
        **context,
        **ssd(args.images or 4_952, args.kinds.split(","), args.cores),
    )


if __name__ == "__main__":
    main()
