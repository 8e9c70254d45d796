"""What Mask R-CNN's evaluation costs beside the network: see detections.py, `--workload maskrcnn`.

30 synthetic detections in each of 5,000 images of 640 x 480: near the objects, some of another class. Pasted and encoded
through `results.measure` in the workload's threads, as an evaluation does it; AP of boxes and of masks by both evaluators,
whose numbers must be equal.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from pycocotools import mask as tool

from workloads.api import Array, Arrays, Batch
from workloads.common.coco import average_precision
from workloads.common.coco.masks import split_bytes
from workloads.maskrcnn import results
from workloads.maskrcnn.workload import MaskRCNN

BATCH, SLOTS, DETECTIONS, SIDE = 8, 100, 30, 28
HEIGHT, WIDTH, SCALE = 480, 640, 800 / 480
TARGET_SECONDS = 240.0
Truth = tuple[Array, Array, Array]
"""Boxes (M, 4) by corners in shares of the image, labels (M,), where those of each image end (images,)."""


def blobs(random: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """(count, 28, 28) probabilities: ellipses with noisy edges."""
    y, x = (np.arange(SIDE) + 0.5 - SIDE / 2)[:, None] / (SIDE / 2), (np.arange(SIDE) + 0.5 - SIDE / 2) / (SIDE / 2)
    radius = random.uniform(0.7, 1.1, (count, 2, 1, 1))
    distance = (y / radius[:, 0]) ** 2 + (x / radius[:, 1]) ** 2
    return (1 / (1 + np.exp(6 * (distance - 1) + random.normal(0, 0.7, distance.shape)))).astype(np.float32)


def batches(truth: Truth, images: int, classes: int) -> Iterator[tuple[Batch, dict[str, Array]]]:
    """Evaluation batches of resized images with the outputs of a network that has learned something."""
    random = np.random.default_rng(2)
    box, label, ends = truth
    pixels = box * np.array([WIDTH, HEIGHT] * 2) * SCALE
    for first in range(0, images, BATCH):
        number = np.minimum(np.arange(first, first + BATCH), images - 1)
        found = {
            "box": np.zeros((BATCH, SLOTS, 4), np.float32),
            "score": np.zeros((BATCH, SLOTS), np.float32),
            "label": np.zeros((BATCH, SLOTS), np.int32),
            "mask": np.zeros((BATCH, SLOTS, SIDE, SIDE), np.float32),
        }
        for slot, image in enumerate(number):
            start = ends[image - 1] if image else 0
            chosen = random.integers(start, ends[image], DETECTIONS)
            shift = random.normal(0, 0.1, (DETECTIONS, 4)) * np.tile(pixels[chosen, 2:] - pixels[chosen, :2], 2)
            found["box"][slot, :DETECTIONS] = np.sort((pixels[chosen] + shift).reshape(-1, 2, 2), axis=1).reshape(-1, 4)
            wrong = random.random(DETECTIONS) < 0.3
            kinds = np.where(wrong, random.integers(1, classes + 1, DETECTIONS), label[chosen])
            found["label"][slot, :DETECTIONS] = kinds
            found["score"][slot, :DETECTIONS] = np.sort(random.uniform(0.05, 1, DETECTIONS))[::-1]
            found["mask"][slot, :DETECTIONS] = blobs(random, DETECTIONS)
        arrays: dict[str, Array] = {
            "number": number,
            "size": np.tile(np.array([HEIGHT * SCALE, WIDTH * SCALE], np.int32), (BATCH, 1)),
            "width": np.full(BATCH, WIDTH),
            "height": np.full(BATCH, HEIGHT),
            "valid": np.arange(first, first + BATCH) < images,
        }
        yield Batch(arrays, BATCH, BATCH, BATCH), found


def pasted(truth: Truth, images: int, classes: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """Seconds of pasting and encoding all detections in the workload's threads, and the results; making them is not timed."""
    parts: list[Arrays] = []
    seconds, cpu_seconds = 0.0, 0.0
    made = batches(truth, images, classes)
    with ThreadPoolExecutor(MaskRCNN.measure_threads) as pool:
        while some := [one for _, one in zip(range(16), made, strict=False)]:
            begin, cpu = time.perf_counter(), time.process_time()
            parts += pool.map(lambda one: results.measure(*one), some)
            seconds += time.perf_counter() - begin
            cpu_seconds += time.process_time() - cpu
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    assert len(found["seen"]) == images
    spent = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2), "threads": MaskRCNN.measure_threads}
    return {**spent, "detections": len(found["score"])}, found


def true_masks(truth: Truth) -> list[bytes]:
    """Ellipses that fill the objects' boxes, as compressed run lengths."""
    turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    pixels = truth[0].astype(np.float64) * np.array([WIDTH, HEIGHT] * 2)
    found = []
    for left, top, right, bottom in pixels.tolist():
        points = np.array([left + right, top + bottom]) / 2 + circle * np.array([right - left, bottom - top]) / 2
        found.append(bytes(tool.merge(tool.frPyObjects([points.reshape(-1).tolist()], HEIGHT, WIDTH))["counts"]))
    return found


def scored(ground_truth: dict[str, Any], of_truth: list[bytes], found: dict[str, Array]) -> dict[str, Any]:
    """AP of boxes and of masks, and seconds, of every evaluator that can be imported."""
    rows = average_precision.rows(found["number"], found["box"], found["score"], found["label"])
    sizes = np.tile([HEIGHT, WIDTH], (len(rows), 1))
    masks = split_bytes(found["mask_counts"], np.cumsum(found["mask_bytes"]))
    measured: dict[str, Any] = {}
    for evaluator in average_precision.EVALUATORS:
        if importlib.util.find_spec(evaluator.replace("-", "_")) is None:
            measured[evaluator] = "not installed"
            continue
        times = [time.perf_counter()]
        boxes = average_precision.average_precision(ground_truth, rows, evaluator)
        times.append(time.perf_counter())
        of_masks = average_precision.mask_average_precision(ground_truth, of_truth, rows, sizes, masks, evaluator)
        times.append(time.perf_counter())
        seconds = {name: round(value, 2) for name, value in zip(("BBOX", "SEGM"), np.diff(times).tolist(), strict=True)}
        measured[evaluator] = {"BBOX": boxes, "SEGM": of_masks, "seconds": seconds}
    values = {(one["BBOX"], one["SEGM"]) for one in measured.values() if isinstance(one, dict)}
    assert len(values) == 1, f"the evaluators differ: {measured}"
    return measured


def measure(truth: Truth, ground_truth: dict[str, Any], images: int, classes: int) -> dict[str, Any]:
    """All figures; `total_seconds` of each evaluator with pasting and encoding."""
    encoding, found = pasted(truth, images, classes)
    precision = scored(ground_truth, true_masks(truth), found)
    totals = {
        name: round(encoding["seconds"] + sum(one["seconds"].values()), 2)
        for name, one in precision.items()
        if isinstance(one, dict)
    }
    sizes = {"images": images, "detections_per_image": DETECTIONS, "target_seconds": TARGET_SECONDS}
    met = {name: total <= TARGET_SECONDS for name, total in totals.items()}
    return {
        **sizes,
        "paste_and_encode": encoding,
        "average_precision": precision,
        "total_seconds": totals,
        "met": met,
    }
