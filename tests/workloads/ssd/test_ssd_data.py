"""Batches of SSD: images and targets, padding, and damaged files.

Every image and target equals that of a single image, whichever process computes it.
"""

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.workloads.common.coco import synthetic_coco as synthetic
from tests.workloads.common.coco.synthetic_coco import blank, copies, validation
from tests.workloads.resnet50.synthetic_images import place
from tests.workloads.ssd.test_ssd_workload import build_workload
from workloads.api import DatasetInfo
from workloads.common.images.counts import COCO2017
from workloads.common.images.jpeg import BadImage, Reader
from workloads.ssd import boxes, crops
from workloads.ssd.data import DetectionData
from workloads.ssd.settings import DEMO_MODEL
from workloads.ssd.synthetic import SyntheticDetectionData

MODEL = {
    **DEMO_MODEL,
    "classes": 3,
    "jitter": [0.125, 0.5, 0.5, 0.05],
    "crop_overlap": True,
    "crop_chance": 1.0,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("data"))


def prepare(folder):
    synthetic.prepare(synthetic.write(folder / "images", 25, 13), folder / "prepared")
    return folder / "prepared"


def settings(folder, batch=6, devices=1, **options):
    dataset_info = COCO2017.read(folder)
    values = {
        **build_workload(
            "demo", DatasetInfo(2000, 9, {"classes": 10}, ""), model=DEMO_MODEL
        ).settings.hyperparameters
    }
    workload = build_workload(
        "demo", dataset_info, profile="demo", model=MODEL, devices=devices, dataset="dummy",
        data_dir=str(folder), global_batch_size=batch, hyperparameters=values,
        options={"data_threads": 2, **options},
    )  # fmt: skip
    return workload.settings, dataset_info


def opened(folder, where=None, batch=6, **options):
    chosen = where or place(0, range(1), 1)
    return DetectionData(*settings(folder, batch, chosen.num_replicas, **options), chosen, seed=4)


def test_images_and_targets_are_those_of_each_image_alone(prepared):
    data = opened(prepared)
    (step,) = copies(data, 2, 3)
    chosen = []
    data.draw, inner = (
        (lambda images, epoch: chosen.append(images) or inner(images, epoch)),
        data.draw,
    )
    copies(data, 2, 3)
    for slot, image in enumerate(chosen[0].tolist()):
        drawn = inner(np.array([image]), 0)
        offset, label = boxes.targets(drawn.box, drawn.label, drawn.ends, data.priors)
        np.testing.assert_array_equal(step[0]["offset"][slot], offset[0])
        np.testing.assert_array_equal(step[0]["label"][slot], label[0])
        assert (label > 0).any()
        out = np.empty((128, 128, 3), np.uint8)
        data._make_image(out, drawn, 0, Reader())
        np.testing.assert_array_equal(step[0]["image"][slot], out)
    data.close()


def test_pixels_follow_the_boxes(prepared):
    """Check the crop of the decoded image, resized and mirrored, without jitter."""
    data = opened(prepared)
    data.strengths = [0.0] * 4
    drawn = data.draw(np.arange(23), 0)
    assert drawn.mirrored.any()
    for image in range(23):
        out = np.empty((128, 128, 3), np.uint8)
        data._make_image(out, drawn, image, Reader())
        whole = cv2.cvtColor(cv2.imread(data.images.path(image)), cv2.COLOR_BGR2RGB)
        left, top, width, height = drawn.pixels[image]
        part = Image.fromarray(whole[top : top + height, left : left + width])
        expected = np.asarray(part.resize((128, 128), Image.Resampling.BILINEAR)).astype(int)
        expected = expected[:, ::-1] if drawn.mirrored[image] else expected
        assert np.abs(out.astype(int) - expected).max() <= 2  # the decoders differ
    data.close()


def test_replicas_share_the_batches_of_one(prepared):
    alone = opened(prepared)
    expected = copies(alone, 1, 6)
    alone.close()
    parts = [
        opened(prepared, place(0, range(2), 3), data_threads=3),
        opened(prepared, place(1, range(2, 3), 3)),
    ]
    steps = [copies(data, 1, 6) for data in parts]
    for step in range(5):
        shares = steps[0][step] + steps[1][step]
        assert [len(share["image"]) for share in shares] == [2, 2, 2]
        for name in ("image", "offset", "label"):
            np.testing.assert_array_equal(
                np.concatenate([s[name] for s in shares]), expected[step][0][name]
            )
    for data in parts:
        data.close()


def test_every_validation_image_once_and_padding_marked(prepared):
    seen = []
    for arrays, slot, pixels in validation(
        lambda where: opened(prepared, where, evaluation_batch_size=3)
    ):
        seen.append(int(arrays["number"][slot]))
        resized = Image.fromarray(pixels).resize((128, 128), Image.Resampling.BILINEAR)
        assert np.abs(arrays["image"][slot].astype(int) - np.asarray(resized)).max() <= 2
    assert sorted(seen) == list(range(11))


def test_a_damaged_image_ends_the_run_or_is_replaced_with_its_targets(tmp_path):
    folder = prepare(tmp_path)
    data = opened(folder, skip_bad=True)
    images = []
    data.draw, inner = (
        (lambda numbers, epoch: images.append(numbers) or inner(numbers, epoch)),
        data.draw,
    )
    ((before,),) = copies(data, 0, 1)
    broken = int(images[0][3])
    path = data.images.path(broken)
    blank(path)
    ((after,),) = copies(data, 0, 1)
    data.close()
    unchanged = [0, 1, 2, 4, 5]
    for name in before:
        np.testing.assert_array_equal(before[name][unchanged], after[name][unchanged])
    drawn = inner(np.array([(broken + 1) % 23]), 0)
    offset, label = boxes.targets(drawn.box, drawn.label, drawn.ends, data.priors)
    np.testing.assert_array_equal(after["label"][3], label[0])
    np.testing.assert_array_equal(after["offset"][3], offset[0])
    strict = opened(folder)
    with pytest.raises(BadImage, match=f"{path}: neither a JPEG nor a PNG file"):
        list(strict.train(0, 1))
    strict.close()


def test_synthetic_batches_have_the_real_shapes(prepared):
    chosen, dataset_info = settings(prepared, 4, 2)
    data = SyntheticDetectionData(chosen, dataset_info, place(0, range(2), 2), 1)
    for step in data.train(0, 3):
        assert len(step) == 2
        for batch in step:
            assert batch.arrays["image"].shape == (2, 128, 128, 3)
            assert batch.arrays["offset"].shape == (2, 4, 1488)
            assert batch.arrays["label"].shape == (2, 1488)
            assert 5 < (batch.arrays["label"] > 0).sum() / 2 < 100
            assert batch.arrays["label"].max() <= 3
            assert batch.global_weight_sum == 4
    assert list(data.evaluation()) == []


def test_the_crops_rule_has_the_attempts_of_the_set(prepared):
    chosen, dataset_info = settings(prepared)
    chosen.hyperparameters["max_samples"] = 50
    data = DetectionData(chosen, dataset_info, place(0, range(1), 1), 0)
    assert data.rule == crops.CropRule(0.5, 1.0, True, 50)
    data.close()
