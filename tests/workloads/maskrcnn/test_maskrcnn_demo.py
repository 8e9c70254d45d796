"""The demo's data and Mask R-CNN: what knows the training objects but not the image finds nothing."""

import numpy as np
import pytest

from tests.workloads.common.coco.test_coco_demo import covering
from workloads.common import manifest as manifests
from workloads.common.coco import masks as coco_masks
from workloads.common.coco import objects
from workloads.common.images import index
from workloads.maskrcnn import masks, results
from workloads.maskrcnn.input.facts import evaluation_index
from workloads.maskrcnn.settings import DEMO_TARGETS

pytestmark = pytest.mark.slow

LIMITS = {"BBOX": 0.02, "SEGM": 0.01}
PER_CLASS, SIDE = 12, 28


@pytest.fixture(scope="module")
def prepared(demo_data):
    return demo_data("coco-demo")


@pytest.fixture(scope="module")
def training(prepared):
    """Boxes in shares of the images and classes of the training objects, and their mean masks by class (10, 28, 28)."""
    images = index.read(prepared, "train", index.root(prepared, manifests.read(prepared)), 2000)
    found = objects.read(prepared, "train", 2000)
    box, label, _ = found.take(np.arange(2000), images.width, images.height)
    polygons, trainable = coco_masks.read(prepared, "train", len(label))
    assert trainable.all()
    corners = found.box.copy()
    corners[:, 2:] += corners[:, :2]
    drawn = masks.targets(corners, np.arange(len(label)), polygons, SIDE)
    means = np.stack([drawn[label == kind].mean(0) for kind in range(1, 11)])
    return box.astype(np.float64), label, means


def everywhere(prepared, per_class, means):
    """The same boxes and masks in every validation image, as `measure` gives them."""
    images = evaluation_index(prepared, manifests.read(prepared), prepared)
    box = np.concatenate([boxes[:PER_CLASS] for boxes, _ in per_class])
    score = np.concatenate([scores[:PER_CLASS] for _, scores in per_class])
    kinds = np.repeat(np.arange(10), [len(boxes[:PER_CLASS]) for boxes, _ in per_class])
    counts, pixels = [], []
    for height, width in zip(images.height.tolist(), images.width.tolist(), strict=True):
        own = (box * [width, height, width, height]).astype(np.float32)
        counts += masks.encode(means[kinds].astype(np.float32), own, height, width)
        pixels.append(np.concatenate([own[:, :2], own[:, 2:] - own[:, :2] + 1], axis=1))
    return {
        "seen": np.arange(len(images)),
        "number": np.repeat(np.arange(len(images)), len(box)),
        "box": np.concatenate(pixels),
        "label": np.tile(kinds + 1, len(images)).astype(np.int32),
        "score": np.tile(score, len(images)).astype(np.float32),
        "mask_counts": np.frombuffer(b"".join(counts), np.uint8),
        "mask_bytes": np.array([len(one) for one in counts]),
    }


def test_no_constant_set_of_masks_finds_anything(prepared, training):
    box, label, means = training
    found = everywhere(prepared, covering(box, label), means)
    scores = results.score(found, prepared, 300, "faster-coco-eval")
    for metric, limit in LIMITS.items():
        # They are no nonsense: some objects are hit.
        assert 0 < scores[metric] < limit < DEMO_TARGETS[metric]
