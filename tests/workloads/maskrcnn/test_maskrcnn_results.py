"""Results of evaluation batches, and AP of boxes and masks with both evaluators."""

import contextlib
import io

import numpy as np
import pytest
from pycocotools import mask as tool
from pycocotools.coco import COCO

from suite.worker.evaluation import merge
from tests.workloads.common.coco import synthetic_coco as synthetic
from tests.workloads.maskrcnn import synthetic_masks
from workloads.api import Batch
from workloads.common import manifest as manifests
from workloads.common.coco import average_precision
from workloads.maskrcnn import masks, results
from workloads.maskrcnn.input.dataset_info import evaluation_index


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Write a data set with 40 validation images, of which two have no objects."""
    return synthetic_masks.write(tmp_path_factory.mktemp("results") / "images", 12, 40)


@pytest.fixture(scope="module")
def prepared(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "p"
    synthetic.prepare(source, folder)
    return folder


@pytest.fixture(scope="module")
def index(prepared):
    return evaluation_index(prepared, manifests.read(prepared), prepared)


def perfect(prepared, index):
    """Return every object that is not a crowd, in the form of `eval_batch_metrics`."""
    truth = average_precision.read_ground_truth(prepared / "val_ground_truth.json")
    encoded = masks_of(prepared, truth)
    row = {int(image): number for number, image in enumerate(index.label)}
    label = {
        category: number
        for number, category in enumerate(sorted(c["id"] for c in truth["categories"]), 1)
    }
    kept = [number for number, entry in enumerate(truth["annotations"]) if not entry["iscrowd"]]
    entries = [truth["annotations"][number] for number in kept]
    return {
        "seen": np.arange(40)[::-1],
        "number": np.array([row[entry["image_id"]] for entry in entries]),
        "box": np.array([entry["bbox"] for entry in entries], np.float32),
        "label": np.array([label[entry["category_id"]] for entry in entries], np.int32),
        "score": np.linspace(0.9, 0.5, len(kept)).astype(np.float32),
        "mask_counts": np.frombuffer(b"".join(encoded[number] for number in kept), np.uint8),
        "mask_bytes": np.array([len(encoded[number]) for number in kept]),
    }


def masks_of(prepared, truth):
    return results.read_run_lengths(prepared, "val", len(truth["annotations"]))


def test_the_ground_truths_masks_are_those_of_cocos_tool(source, prepared):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(synthetic.path(source, "val2017")))
    truth = average_precision.read_ground_truth(prepared / "val_ground_truth.json")
    encoded = masks_of(prepared, truth)
    assert len(encoded) == len(truth["annotations"]) > 90
    assert sum(entry["iscrowd"] for entry in truth["annotations"]) > 5
    for entry, counts in zip(truth["annotations"], encoded, strict=True):
        expected = coco.annToRLE(coco.anns[entry["id"]])
        assert counts == expected["counts"]
        assert tool.area(expected) > 100


@pytest.mark.parametrize("evaluator", average_precision.EVALUATORS)
def test_perfect_detections(prepared, index, evaluator):
    pytest.importorskip(evaluator.replace("-", "_"))
    found = perfect(prepared, index)
    assert results.compute_metrics(found, prepared, 40, evaluator) == {
        "BBOX": pytest.approx(1.0),
        "SEGM": pytest.approx(1.0),
    }
    empty = {name: value[:0] if name != "seen" else value for name, value in found.items()}
    assert results.compute_metrics(empty, prepared, 40, evaluator) == {"BBOX": 0.0, "SEGM": 0.0}


def test_wrong_boxes_and_wrong_masks_lower_only_their_metric(prepared, index):
    found = perfect(prepared, index)
    moved = {**found, "box": found["box"] + np.float32([9, 0, 0, 0])}
    scored = results.compute_metrics(moved, prepared, 40, "pycocotools")
    assert scored["BBOX"] < 0.2
    assert scored["SEGM"] == pytest.approx(1.0)
    corner = np.array([[0, 0, 6, 6]], np.float32)
    everywhere = [
        masks.encode(
            np.ones((1, 28, 28), np.float32), corner, int(index.height[row]), int(index.width[row])
        )[0]
        for row in found["number"]
    ]
    counts, lengths = (
        np.frombuffer(b"".join(everywhere), np.uint8),
        np.array([len(encoded) for encoded in everywhere]),
    )
    wrong = {**found, "mask_counts": counts, "mask_bytes": lengths}
    scored = results.compute_metrics(wrong, prepared, 40, "pycocotools")
    assert scored["BBOX"] == pytest.approx(1.0)
    assert scored["SEGM"] < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_the_faster_evaluator_is_identical(prepared, index, seed):
    pytest.importorskip("faster_coco_eval")
    rng = np.random.default_rng(seed)
    predicted = outputs(rng, index, 12)
    found = merge(results.eval_batch_metrics(*batch_and_outputs) for batch_and_outputs in predicted)
    slow, fast = (
        results.compute_metrics(found, prepared, 40, evaluator)
        for evaluator in average_precision.EVALUATORS
    )
    assert slow == fast
    assert 0.01 < slow["SEGM"] != slow["BBOX"] > 0.01


def test_an_image_seen_twice_or_never_is_refused(prepared, index):
    found = perfect(prepared, index)
    with pytest.raises(ValueError, match="evaluation saw 39 images, 39 different ones, of 40"):
        results.compute_metrics({**found, "seen": np.arange(39)}, prepared, 40, "pycocotools")
    with pytest.raises(ValueError, match="evaluation saw 40 images, 39 different ones, of 40"):
        results.compute_metrics(
            {**found, "seen": np.minimum(np.arange(40), 38)}, prepared, 40, "pycocotools"
        )


def outputs(rng, index, slots, scale=2.0):
    """Yield batches of four images resized by about `scale`, with detections near the objects.

    The last image of each batch is padding.
    """
    for first in range(0, 40, 3):
        number = np.array(
            [*range(first, min(first + 3, 40)), *[0] * (4 - len(range(first, min(first + 3, 40))))]
        )
        valid = np.arange(4) < min(3, 40 - first)
        width, height = index.width[number], index.height[number]
        size = np.stack([np.floor(height * scale), np.floor(width * scale)], 1).astype(np.int32)
        k = rng.integers(0, 4, (4, slots, 1))
        box = np.concatenate([1.5 + 7 * k, 2.25 + 3 * k, 21.5 + 7 * k, 18.25 + 3 * k], 2) * scale
        arrays = {"number": number, "valid": valid, "width": width, "height": height, "size": size}
        found = {
            "box": (box + rng.normal(0, 2, box.shape)).astype(np.float32),
            "score": rng.random((4, slots), np.float32),
            "label": rng.integers(0, 4, (4, slots)).astype(np.int32),
            "mask": rng.uniform(0.3, 1, (4, slots, 28, 28)).astype(np.float32),
        }
        yield Batch(arrays, float(valid.sum()), 4.0, 4), found


def test_eval_batch_metrics_returns_original_pixels_and_drops_padding(index):
    batch, found = next(outputs(np.random.default_rng(1), index, 6))
    got = results.eval_batch_metrics(batch, found)
    assert got["seen"].tolist() == [0, 1, 2]
    slots, rows = np.nonzero((found["label"] > 0) & batch.arrays["valid"][:, None])
    assert got["number"].tolist() == batch.arrays["number"][slots].tolist()
    np.testing.assert_array_equal(got["label"], found["label"][slots, rows])
    np.testing.assert_array_equal(got["score"], found["score"][slots, rows])
    ends = np.cumsum(got["mask_bytes"])
    assert ends[-1] == len(got["mask_counts"])
    for place, (slot, row) in enumerate(zip(slots, rows, strict=True)):
        height, width = int(batch.arrays["height"][slot]), int(batch.arrays["width"][slot])
        down, across = batch.arrays["size"][slot]
        box = found["box"][slot, row] * np.array([width / across, height / down] * 2)
        left, top, right, bottom = box
        assert got["box"][place] == pytest.approx(
            [left, top, right - left + 1, bottom - top + 1], rel=1e-5
        )
        (expected,) = masks.encode(
            found["mask"][slot, row][None], box[None].astype(np.float32), height, width
        )
        assert (
            got["mask_counts"][ends[place] - got["mask_bytes"][place] : ends[place]].tobytes()
            == expected
        )


def test_a_batch_without_detections(index):
    batch, found = next(outputs(np.random.default_rng(1), index, 6))
    got = results.eval_batch_metrics(batch, {**found, "label": np.zeros_like(found["label"])})
    assert got["seen"].tolist() == [0, 1, 2]
    assert {name: len(value) for name, value in got.items() if name != "seen"} == dict.fromkeys(
        list(got)[1:], 0
    )
    assert got["box"].shape == (0, 4)


def test_data_prepared_by_an_earlier_version(prepared, tmp_path):
    with pytest.raises(
        ValueError, match=r"prepared without masks .*\. Remove it and prepare the data again"
    ):
        evaluation_index(tmp_path, manifests.Manifest("dummy", {}, {}, {}), tmp_path)
