"""Average precision (AP) of boxes and masks over IoU 0.50 … 0.95, as COCO defines AP.

pycocotools or faster-coco-eval computes the AP.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Float64s, Integers
from workloads.files import read_json

EVALUATORS = ("pycocotools", "faster-coco-eval")
DIGITS = 12
GROUND_TRUTH = "val_ground_truth.json"
"""File in the prepared folder that contains the ground truth of COCO's box metric."""
GROUND_TRUTH_BYTES = 1 << 30


def read_ground_truth(path: Path) -> dict[str, Any]:
    """Read a prepared `val_ground_truth.json`.

    The function raises ValueError with the file's name if the file is invalid.
    """
    try:
        content = read_json(path, GROUND_TRUTH_BYTES)
        return {name: list(content[name]) for name in ("images", "annotations", "categories")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: cannot be read ({error}). Prepare the data again") from None


def rows(
    image_id: npt.ArrayLike, box: npt.ArrayLike, score: npt.ArrayLike, category_id: npt.ArrayLike
) -> Float64s:
    """Return detections (n, 7) in the format of COCO's tools.

    The columns are image id, left, top, width, and height in pixels, score, and category id.
    """
    boxes = np.asarray(box, np.float64).reshape(-1, 4)
    return np.column_stack(
        [np.asarray(image_id), boxes, np.asarray(score), np.asarray(category_id)]
    ).astype(np.float64)


def average_precision(
    truth: Mapping[str, Any], detections: Float64s, evaluator: str = "pycocotools"
) -> float:
    """Return the AP of boxes as a fraction.

    AP is the mean over classes and ten IoU thresholds, for objects of all areas and the best 100
    detections per image. Without detections, the AP is 0. The AP is rounded to twelve digits,
    because the evaluators sum in different orders and the logged AP must not depend on the
    evaluator.

    Args:
        truth: Ground truth in the structure of COCO's annotation files.
        detections: Detections as returned by `rows`.
        evaluator: Name of an evaluator in `EVALUATORS`.

    Raises:
        ValueError: The evaluator's package cannot be imported.
    """
    return _evaluated(truth, detections, "bbox", evaluator) if len(detections) else 0.0


def mask_average_precision(
    truth: Mapping[str, Any],
    of_truth: Sequence[bytes],
    detections: Float64s,
    sizes: Integers,
    masks: Sequence[bytes],
    evaluator: str = "pycocotools",
) -> float:
    """Return the AP of masks as a fraction, computed like `average_precision`.

    All masks are COCO's compressed run lengths.

    Args:
        truth: Ground truth in the structure of COCO's annotation files.
        of_truth: Mask of each annotation in `truth`.
        detections: Detections (n, 7) as returned by `rows`. The boxes of the detections are
            ignored.
        sizes: Height and width (n, 2) of each detection's image.
        masks: Mask of each detection.
        evaluator: Name of an evaluator in `EVALUATORS`.

    Raises:
        ValueError: The evaluator's package cannot be imported.
    """
    if not len(detections):
        return 0.0
    shape = {
        int(image["id"]): [int(image["height"]), int(image["width"])] for image in truth["images"]
    }
    annotations = [
        {**entry, "segmentation": {"size": shape[int(entry["image_id"])], "counts": counts}}
        for entry, counts in zip(truth["annotations"], of_truth, strict=True)
    ]
    judged = [
        {
            "image_id": int(image),
            "category_id": int(category),
            "segmentation": {"size": size, "counts": counts},
            "score": score,
        }
        for image, category, score, size, counts in zip(
            detections[:, 0],
            detections[:, 6],
            detections[:, 5].tolist(),
            sizes.tolist(),
            masks,
            strict=True,
        )
    ]
    return _evaluated({**truth, "annotations": annotations}, judged, "segm", evaluator)


def _evaluated(truth: Mapping[str, Any], detections: Any, kind: str, evaluator: str) -> float:
    coco, evaluation = _tools(evaluator)
    with contextlib.redirect_stdout(io.StringIO()):
        expected = coco()
        expected.dataset = truth
        expected.createIndex()
        run = evaluation(expected, expected.loadRes(detections), kind)
        run.evaluate()
        run.accumulate()
        run.summarize()
    return round(float(run.stats[0]), DIGITS)


def _tools(evaluator: str) -> tuple[Any, Any]:
    """Return the evaluator package's classes for annotations and for the evaluation."""
    try:
        if evaluator == "faster-coco-eval":
            from faster_coco_eval import COCO, COCOeval_faster

            return COCO, COCOeval_faster
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        return COCO, COCOeval
    except ImportError as error:
        raise ValueError(
            f"workload.evaluator={evaluator}: the package {evaluator} cannot be imported ({error})."
            f" Install it, or set workload.evaluator={EVALUATORS[evaluator == EVALUATORS[0]]}"
        ) from None
