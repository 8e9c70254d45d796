"""COCO's AP of boxes and of masks over IoU 0.50 … 0.95, by pycocotools or by faster-coco-eval."""

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
"""What the metric compares with, in the prepared folder."""
GROUND_TRUTH_BYTES = 1 << 30


def read_ground_truth(path: Path) -> dict[str, Any]:
    """A prepared `val_ground_truth.json`. Raises ValueError naming the file."""
    try:
        content = read_json(path, GROUND_TRUTH_BYTES)
        return {name: list(content[name]) for name in ("images", "annotations", "categories")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); prepare the data again") from None


def rows(image_id: npt.ArrayLike, box: npt.ArrayLike, score: npt.ArrayLike, category_id: npt.ArrayLike) -> Float64s:
    """Detections (n, 7) as COCO's tools take them: image id, left, top, width, height in pixels, score, category id."""
    boxes = np.asarray(box, np.float64).reshape(-1, 4)
    return np.column_stack([np.asarray(image_id), boxes, np.asarray(score), np.asarray(category_id)]).astype(np.float64)


def average_precision(truth: Mapping[str, Any], detections: Float64s, evaluator: str = "pycocotools") -> float:
    """AP as a fraction: all areas, the best 100 of an image, mean over classes and ten IoUs. 0 without detections.

    To twelve digits: the evaluators add up in different orders, and a log must not show which one it was.

    `truth` as in COCO's annotation files; `detections` as `rows` makes them. Raises ValueError if the evaluator is not there.
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
    """AP of masks in the same manner.

    `of_truth`: the mask of each annotation of `truth`; `masks`: of each of the `detections` (n, 7), whose boxes do not
    matter, in images of `sizes` (n, 2) height, width; all as COCO's compressed run lengths. Raises ValueError if the
    evaluator is not there.
    """
    if not len(detections):
        return 0.0
    shape = {int(image["id"]): [int(image["height"]), int(image["width"])] for image in truth["images"]}
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
            detections[:, 0], detections[:, 6], detections[:, 5].tolist(), sizes.tolist(), masks, strict=True
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
    """The classes that hold annotations and that compare them."""
    try:
        if evaluator == "faster-coco-eval":
            from faster_coco_eval import COCO, COCOeval_faster

            return COCO, COCOeval_faster
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        return COCO, COCOeval
    except ImportError as error:
        raise ValueError(
            f"workload.evaluator={evaluator}: the package {evaluator} cannot be imported ({error}); install it, or type "
            f"workload.evaluator={EVALUATORS[evaluator == EVALUATORS[0]]}"
        ) from None
