"""COCO's AP, and detections at original image sizes from the outputs of a trainer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workloads.api import Arrays, Batch, check_evaluation_coverage
from workloads.common import manifest as manifests
from workloads.common.coco import average_precision
from workloads.common.coco.masks import read_run_lengths, split_bytes
from workloads.common.coco.workload import judged
from workloads.maskrcnn import masks
from workloads.maskrcnn.input.dataset_info import evaluation_index


def eval_batch_metrics(batch: Batch, outputs: Arrays) -> Arrays:
    """Return the detections of an evaluation batch, and the evaluated images.

    Padding images are left out.

    Args:
        batch: Arrays of the batch: `number` (B,) of each image, `size` (B, 2) of the resized image,
            `width` and `height` (B,) of the original image, and `valid` (B,).
        outputs: Outputs of the trainer: `box` (B, D, 4) in pixels of the resized image, `score` and
            `label` (B, D) with label 0 for an empty slot, and `mask` (B, D, s, s), the
            probabilities for the label's class.

    Returns:
        `seen` (b,) contains the indices of the evaluated images. All other arrays contain the n
        detections of all images: `number`, `label`, and `score` (n,); `box` (n, 4), left, top,
        width, and height in pixels of the original image; `mask_counts`, the concatenated
        compressed run lengths; and `mask_bytes` (n,), the number of bytes of each mask in
        `mask_counts`.
    """
    arrays = batch.arrays
    boxes, counts, chosen = [np.zeros((0, 4), np.float32)], [], []
    for slot in np.flatnonzero(arrays["valid"]).tolist():
        height, width = int(arrays["height"][slot]), int(arrays["width"][slot])
        rows = np.flatnonzero(outputs["label"][slot] > 0)
        scale = np.array([width, height] * 2, np.float64) / arrays["size"][slot, [1, 0, 1, 0]]
        box = outputs["box"][slot, rows].astype(np.float32) * scale.astype(np.float32)
        mask = outputs["mask"][slot, rows].astype(np.float32)
        counts += masks.encode(mask, box, height, width)
        boxes.append(box)
        chosen.append((slot, rows))
    slots = np.repeat([slot for slot, _ in chosen], [len(rows) for _, rows in chosen]).astype(
        np.int64
    )
    rows = np.concatenate([rows for _, rows in chosen]) if chosen else slots
    box = np.concatenate(boxes)
    return {
        "seen": arrays["number"][arrays["valid"]],
        "number": arrays["number"][slots],
        "box": np.concatenate([box[:, :2], box[:, 2:] - box[:, :2] + 1], axis=1),
        "label": outputs["label"][slots, rows].astype(np.int32),
        "score": outputs["score"][slots, rows].astype(np.float32),
        "mask_counts": np.frombuffer(b"".join(counts), np.uint8),
        "mask_bytes": np.array([len(encoded) for encoded in counts], np.int64),
    }


def compute_metrics(
    detected: Arrays, folder: Path, images: int, evaluator: str
) -> dict[str, float]:
    """Return the COCO AP of boxes and of masks.

    Raises:
        ValueError: A validation image was not evaluated exactly once.
    """
    check_evaluation_coverage(detected["seen"], images, "images")
    index = evaluation_index(folder, manifests.read(folder), folder)
    truth, rows = judged(folder, index.label, detected)
    sizes = np.stack([index.height[detected["number"]], index.width[detected["number"]]], axis=1)
    encoded = split_bytes(detected["mask_counts"], np.cumsum(detected["mask_bytes"]))
    of_truth = read_run_lengths(folder, "val", len(truth["annotations"]))
    return {
        "BBOX": average_precision.average_precision(truth, rows, evaluator),
        "SEGM": average_precision.mask_average_precision(
            truth, of_truth, rows, sizes, encoded, evaluator
        ),
    }
