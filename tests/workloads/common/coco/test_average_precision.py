"""Average precision by COCO's code, by the faster evaluator, and of a workload's results."""

import numpy as np
import pytest

from tests.workloads.common.coco import synthetic_coco as synthetic
from tests.workloads.ssd.test_ssd_workload import build_workload as ssd_workload
from workloads.common.coco import average_precision
from workloads.common.coco.average_precision import rows
from workloads.common.images.counts import COCO2017
from workloads.ssd.settings import DEMO_MODEL


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ap")
    synthetic.prepare(synthetic.write(folder / "images", 12, 40), folder / "prepared")
    return folder / "prepared"


@pytest.fixture(scope="module")
def truth(prepared):
    return average_precision.read_ground_truth(prepared / "val_ground_truth.json")


def perfect(truth):
    """Return every annotation as a detection."""
    found = truth["annotations"]
    return rows(
        [entry["image_id"] for entry in found], [entry["bbox"] for entry in found],
        np.linspace(0.9, 0.5, len(found)), [entry["category_id"] for entry in found],
    )  # fmt: skip


@pytest.mark.parametrize("evaluator", average_precision.EVALUATORS)
def test_perfect_detections_have_ap_1_and_no_detections_have_ap_0(truth, evaluator, capsys):
    pytest.importorskip(evaluator.replace("-", "_"))
    assert average_precision.average_precision(truth, perfect(truth), evaluator) == pytest.approx(
        1.0
    )
    assert average_precision.average_precision(truth, perfect(truth)[:0], evaluator) == 0.0
    assert capsys.readouterr().out == ""


def test_ap_of_partly_correct_detections(truth):
    """Check AP of 0.7 / 3: one of three classes is detected, at seven of ten IoU thresholds.

    Its boxes are shifted by a tenth of their width, which gives an IoU of 0.81.
    """
    found = perfect(truth)
    found = found[found[:, 6] == 13]
    found[:, 1] += found[:, 3] * 0.1
    assert average_precision.average_precision(truth, found) == pytest.approx(0.7 / 3, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 4, 5])
def test_the_faster_evaluator_gives_identical_values(seed):
    """Check detections for which the sums of both evaluators would differ by a rounding."""
    pytest.importorskip("faster_coco_eval")
    rng = np.random.default_rng(0)
    boxes = np.concatenate([rng.uniform(0, 300, (150, 2)), rng.uniform(10, 150, (150, 2))], axis=1)
    annotations = [
        {
            "id": number,
            "image_id": number % 20,
            "category_id": 1 + number * 7 % 80,
            "iscrowd": 0,
            "bbox": box,
        }
        | {"area": box[2] * box[3]}
        for number, box in enumerate(boxes.tolist(), 1)
    ]
    images = [{"id": number, "width": 640, "height": 480} for number in range(20)]
    categories = [{"id": number, "name": str(number)} for number in range(1, 81)]
    truth = {"images": images, "annotations": annotations, "categories": categories}
    rng = np.random.default_rng(seed)
    found = np.repeat(perfect(truth), 4, axis=0)
    found[:, 1:5] *= rng.uniform(0.8, 1.25, found[:, 1:5].shape)
    found[:, 5] = rng.uniform(0.05, 1, len(found))
    slow, fast = (
        average_precision.average_precision(truth, found, name)
        for name in average_precision.EVALUATORS
    )
    assert 0.05 < slow < 0.95
    assert slow == fast


def test_a_workload_computes_ap_of_its_results(prepared, truth):
    dataset_info = COCO2017.read(prepared)
    workload = ssd_workload(
        "demo", dataset_info, profile="demo", model={**DEMO_MODEL, "classes": 3}, devices=1,
        global_batch_size=6, data_dir=str(prepared),
    )  # fmt: skip
    ids = [
        number for number in range(1010, 1410, 10) if (number - 1010) // 10 not in synthetic.EMPTY
    ]
    found = perfect(truth)
    results = {
        "seen": np.arange(38)[::-1],
        "number": np.array([ids.index(int(image)) for image in found[:, 0]]),
        "box": found[:, 1:5].astype(np.float32),
        "label": np.array(
            [{1: 1, 13: 2, 90: 3}[int(category)] for category in found[:, 6]], np.int32
        ),
        "score": found[:, 5].astype(np.float32),
    }
    assert workload.compute_metrics(results) == {"map": pytest.approx(1.0)}
    mixed = {**results, "label": results["label"] % 3 + 1}
    assert workload.compute_metrics(mixed)["map"] < 0.4
    with pytest.raises(ValueError, match="evaluation saw 37 images, 37 different ones, of 38"):
        workload.compute_metrics({**results, "seen": np.arange(37)})


def test_an_invalid_ground_truth_is_rejected(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json: cannot be read .*\. Prepare the data again"):
        average_precision.read_ground_truth(tmp_path / "x.json")
