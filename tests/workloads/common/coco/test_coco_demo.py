import contextlib
import hashlib
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO
from scipy.ndimage import binary_fill_holes

from suite.catalog.rounds import get_round
from tests.helpers import examples
from workloads.common import manifest as manifests
from workloads.common.coco import demo, objects
from workloads.common.coco.average_precision import (
    GROUND_TRUTH,
    average_precision,
    read_ground_truth,
    rows,
)
from workloads.common.coco.dataset import CocoFolders
from workloads.common.images import index
from workloads.common.images.counts import COCO2017
from workloads.common.images.drawing.scenes import CLASSES
from workloads.maskrcnn.settings import DEMO_TARGETS
from workloads.ssd.workload import SSD

CONSTANT_LIMIT_AP = 0.02
DRAWN_SHA256 = "d11cf7796b24b987d85fd8d5584ba6217da8da309442994cedade3dbc4fe0236"
ANNOTATIONS_SHA256 = "f00967a60ff25676b74aeaa755d6f49cf9334897f014018c6a9ef44cb8ba1243"
"""Digests of GOLDEN_SCENES: the pixels before JPEG compression, and the annotations.

They are equal on every machine.
"""
GOLDEN_SCENES = [(split, number) for split in ("train", "val") for number in range(0, 300, 7)]
PER_CLASS = 100
"""Number of detections per class and image that COCO's AP uses."""


@pytest.fixture(scope="module")
def prepared(demo_data) -> Path:
    return demo_data("coco-demo")


@pytest.fixture(scope="module")
def root(prepared) -> Path:
    return prepared / "images"


@pytest.fixture
def few(monkeypatch):
    """Reduce the data set to 60 + 20 images."""
    monkeypatch.setattr(demo, "SIZES", {"train": 60, "val": 20})


@pytest.fixture(scope="module")
def read(root) -> dict[str, COCO]:
    """Return both annotation files, read with COCO's tool."""
    with contextlib.redirect_stdout(io.StringIO()):
        return {split: COCO(str(root / demo.annotation_path(split))) for split in demo.SIZES}


def contents(root: Path, split: str) -> dict:
    return json.loads((root / demo.annotation_path(split)).read_bytes())


def test_layout_and_counts(root):
    assert sorted(path.name for path in root.iterdir()) == ["annotations", "train2017", "val2017"]
    assert sorted(path.name for path in (root / "annotations").iterdir()) == [
        "instances_train2017.json", "instances_val2017.json",
    ]  # fmt: skip
    assert demo.SIZES == {"train": 2000, "val": 300}
    for split, count in demo.SIZES.items():
        found = contents(root, split)
        names = [image["file_name"] for image in found["images"]]
        assert sorted(names) == sorted(path.name for path in (root / f"{split}2017").iterdir())
        assert len(names) == count
        assert [category["name"] for category in found["categories"]] == list(CLASSES)
        per_image = np.unique(
            [entry["image_id"] for entry in found["annotations"]], return_counts=True
        )[1]
        assert len(per_image) == count
        assert (per_image.min(), per_image.max()) == (1, 8)
        assert 4 < per_image.mean() < 5
        per_class = np.unique(
            [entry["category_id"] for entry in found["annotations"]], return_counts=True
        )[1]
        assert np.abs(per_class / per_class.mean() - 1).max() < 0.3


def test_ids_images_and_sizes_vary(root):
    both = [contents(root, split) for split in demo.SIZES]
    for part in ("images", "annotations"):
        ids = [entry["id"] for found in both for entry in found[part]]
        assert len(set(ids)) == len(ids)
    assert [category["id"] for category in both[0]["categories"]] == [*range(1, 20, 2)]
    digests = {hashlib.sha256(path.read_bytes()).digest() for path in root.glob("*2017/*.jpg")}
    assert len(digests) == sum(demo.SIZES.values())
    lie = [image["width"] > image["height"] for image in both[0]["images"]]
    assert 800 < sum(lie) < 1_200


def test_pycocotools_reads_tight_boxes_and_masks_that_do_not_overlap(read):
    holes = objects_seen = twice = 0
    for coco in read.values():
        for image in list(coco.imgs)[:300]:
            entries = coco.imgToAnns[image]
            masks = [coco.annToMask(entry) for entry in entries]
            for entry, mask in zip(entries, masks, strict=True):
                encoded = coco.annToRLE(entry)
                assert coco_masks.toBbox(encoded).tolist() == entry["bbox"]
                assert mask.shape == (coco.imgs[image]["height"], coco.imgs[image]["width"])
                assert 0 <= mask.sum() - entry["area"] <= 4
                assert entry["area"] > 80
                assert entry["iscrowd"] == 0
                holes += int(mask.sum() != entry["area"])
                objects_seen += 1
            twice += int((np.sum(masks, axis=0) > 1).sum())
    assert objects_seen > 2_400
    # A polygon fills the holes of its mask. Most holes have a single pixel.
    assert holes < 0.002 * objects_seen
    assert twice <= 4 * holes


@examples(150)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 2**81 - 1))
def test_polygons_equal_their_masks_with_holes_filled(height, width, pattern):
    mask = np.array([pattern >> i & 1 for i in range(height * width)], np.uint8).reshape(
        height, width
    )
    if not mask.any():
        return
    found = coco_masks.frPyObjects(demo.polygons(mask), height, width)
    assert np.array_equal(coco_masks.decode(coco_masks.merge(found)), binary_fill_holes(mask))


def test_drawn_pixels_and_annotations_have_the_golden_digests():
    pixels, entries = hashlib.sha256(), hashlib.sha256()
    for split, number in GOLDEN_SCENES:
        scene = demo.draw(split, number)
        pixels.update(f"{scene.image.shape}".encode() + scene.image.tobytes())
        entries.update(
            json.dumps(
                demo.entries_of(scene, demo.image_id(split, number)), sort_keys=True
            ).encode()
        )
    assert pixels.hexdigest() == DRAWN_SHA256
    assert entries.hexdigest() == ANNOTATIONS_SHA256


def test_writing_again_with_one_thread_gives_the_same_bytes(root, few, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    demo.write_scenes(tmp_path)
    again = sorted(tmp_path.glob("*2017/*.jpg"))
    assert len(again) == 80
    for path in again:
        assert path.read_bytes() == (root / path.relative_to(tmp_path)).read_bytes()
    for split, count in demo.SIZES.items():
        short, long = contents(tmp_path, split), contents(root, split)
        assert short["images"] == long["images"][:count]
        assert short["annotations"] == long["annotations"][: len(short["annotations"])]


def shares(prepared: Path, root: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes (M, 4) (left, top, right, bottom in shares of their images) and classes (M,)."""
    images = index.read(prepared, split, root, demo.SIZES[split])
    every = np.arange(len(images))
    box, label, _ = objects.read(prepared, split, len(images)).take(
        every, images.width, images.height
    )
    return box.astype(np.float64), label


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the IoU (n, m) of boxes (n, 4) and (m, 4)."""
    low = np.maximum(first[:, None, :2], second[:, :2])
    high = np.minimum(first[:, None, 2:], second[:, 2:])
    common = np.clip(high - low, 0, None).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second)]
    return common / (areas[0][:, None] + areas[1] - common)


def covering(box: np.ndarray, label: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return constant detections that are chosen from the training objects, without an image.

    The result has an entry per class: boxes (n, 4) and scores (n,). Each box is the candidate that
    hits the most objects that no earlier box hit. No other constant set that was tried has a higher
    AP.
    """
    sizes = np.percentile(box[:, 2:] - box[:, :2], [15, 40, 65, 90], axis=0)
    steps = (np.arange(14) + 0.5) / 14
    x, y, which = (grid.reshape(-1) for grid in np.meshgrid(steps, steps, np.arange(4)))
    half, centre = sizes[which] / 2, np.stack([x, y], 1)
    candidates = np.hstack([centre - half, centre + half])
    candidates = candidates[(candidates.min(1) >= 0) & (candidates.max(1) <= 1)]
    hit = overlaps(candidates, box) >= 0.5
    found = []
    for kind in range(1, 11):
        left, chosen, scores = hit[:, label == kind], [], []
        for _ in range(PER_CLASS):
            counts = left.sum(1)
            chosen.append(int(counts.argmax()))
            scores.append(counts.max())
            left = left[:, ~left[chosen[-1]]]
        found.append((candidates[chosen], np.array(scores)))
    return found


@pytest.mark.full  # The golden digests detect changes of the data in every run.
def test_constant_boxes_have_a_negligible_ap(prepared, root):
    truth = read_ground_truth(prepared / GROUND_TRUTH)
    sizes = np.array(
        [(image["width"], image["height"]) * 2 for image in truth["images"]], np.float64
    )
    ids = np.array([image["id"] for image in truth["images"]])
    per_class = covering(*shares(prepared, root, "train"))
    box, score = (np.concatenate(parts) for parts in zip(*per_class, strict=True))
    kinds = np.repeat(np.arange(10), PER_CLASS)
    pixels = box * sizes[:, None]
    pixels[:, :, 2:] -= pixels[:, :, :2]
    everywhere = [np.tile(values, len(ids)) for values in (score, 2 * kinds + 1)]
    detections = rows(np.repeat(ids, len(box)), pixels, *everywhere)
    # The boxes hit some objects, so the test is not trivial. Mask R-CNN must reach both targets.
    assert (
        0 < average_precision(truth, detections, evaluator="faster-coco-eval") < CONSTANT_LIMIT_AP
    )
    assert (
        min(DEMO_TARGETS["BBOX"], SSD.defaults("demo", get_round("v0.7", SSD), {}).targets["map"])
        > 10 * CONSTANT_LIMIT_AP
    )


def test_the_demo_is_prepared_as_the_real_data_set(prepared, root, tmp_path):
    dataset_info = COCO2017.read(prepared)
    assert (dataset_info.train_samples, dataset_info.evaluation_samples, dataset_info.sizes) == (
        2000,
        300,
        {"classes": 10},
    )
    assert dataset_info.notes == ()

    class Elsewhere(CocoFolders):
        name = "elsewhere"

    Elsewhere().prepare(root, tmp_path / "elsewhere")
    for path in (tmp_path / "elsewhere").iterdir():
        if path.name != manifests.NAME:
            assert path.read_bytes() == (prepared / path.name).read_bytes()
    names = (prepared / "classes.txt").read_text().split()
    assert names == [
        text for kind, name in enumerate(CLASSES) for text in (str(2 * kind + 1), name)
    ]
