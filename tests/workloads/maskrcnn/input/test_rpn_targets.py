"""Anchors and their targets, compared with a plain float64 version.

The plain version considers all anchors.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples
from tests.workloads.maskrcnn.input import rpn_plain
from workloads.common.randomness import Permutation, bits, fold
from workloads.maskrcnn import anchors
from workloads.maskrcnn.input import rpn_targets
from workloads.maskrcnn.settings import DEMO_MODEL, REFERENCE_MODEL

SMALL = {**REFERENCE_MODEL, "anchor_sizes": [16, 32, 64, 128, 256]}
CASES = {
    "demo": (DEMO_MODEL, 96, 128, 96, 117),
    "standing": (DEMO_MODEL, 128, 96, 123, 96),
    "five levels": (SMALL, 160, 224, 150, 201),
}
"""Model, padded height and width, height and width of the image."""


@pytest.fixture(scope="module", params=CASES)
def case(request):
    model, height, width, *size = CASES[request.param]
    return anchors.levels(model, height, width), rpn_plain.anchors(model, height, width), size


def some_boxes(rng, count, height, width):
    """Return boxes of all sizes and shapes, some equal, some with integer coordinates."""
    sides = np.exp(rng.uniform(np.log(2), np.log([width * 0.95, height * 0.95]), (count, 2)))
    low = rng.uniform(0, 1, (count, 2)) * (np.array([width, height]) - 1 - sides)
    boxes = np.concatenate([low, low + sides], 1)
    boxes[::4] = boxes[::4].round()
    if count > 5:
        boxes[5] = boxes[2]
    return boxes.astype(np.float32)


def test_anchors_by_hand():
    """Compare with published values of the legacy generator.

    They are for stride 16 with sizes in strides, and for 32 pixels on stride 4.
    """
    assert anchors.base_anchors(16, 128).tolist() == [
        [-84, -40, 99, 55],
        [-56, -56, 71, 71],
        [-36, -80, 51, 95],
    ]
    assert anchors.base_anchors(4, 32).tolist() == [
        [-22, -10, 25, 13],
        [-14, -14, 17, 17],
        [-10, -22, 13, 25],
    ]


def test_anchors_are_the_plain_ones(case):
    levels, plain, _ = case
    every = np.arange(levels[-1].stop)
    np.testing.assert_array_equal(rpn_targets.take(levels, every), plain)


def test_anchors_of_a_shape_are_computed_once():
    found = anchors.level_anchors(REFERENCE_MODEL, 800, 1344)
    assert [len(level) for level in found] == [201_600, 50_400, 12_600, 3_150, 819]
    assert anchors.count(REFERENCE_MODEL, 800, 1344) == 268_569
    again = anchors.level_anchors(REFERENCE_MODEL, 800, 1344)
    assert all(first is second for first, second in zip(found, again, strict=True))
    assert not found[0].flags.writeable
    levels = anchors.levels(REFERENCE_MODEL, 800, 1344)
    np.testing.assert_array_equal(
        np.concatenate(found), rpn_targets.take(levels, np.arange(268_569))
    )


@pytest.mark.parametrize("seed", range(4))
def test_labels_are_those_of_all_anchors_in_float64(case, seed):
    levels, plain, (height, width) = case
    rng = np.random.default_rng(seed)
    boxes = some_boxes(rng, int(rng.integers(0, 14)), height, width)
    found = rpn_targets.label(levels, boxes, height, width)
    expected, owner = rpn_plain.labels(plain, boxes, height, width)
    np.testing.assert_array_equal(found.value, expected)
    np.testing.assert_array_equal(found.positive, np.flatnonzero(expected == 1))
    np.testing.assert_array_equal(found.owner, owner[found.positive])


coordinates = st.floats(0, 1, width=32)


@examples(60)
@given(
    st.lists(st.tuples(coordinates, coordinates, coordinates, coordinates), max_size=6),
    st.booleans(),
)
def test_labels_of_any_boxes(corners, whole):
    """Include boxes of one pixel, of the whole image, and boxes with many equal overlaps."""
    model, padded_height, padded_width, height, width = CASES["demo"]
    low = np.array([(min(a, c), min(b, d)) for a, b, c, d in corners]).reshape(-1, 2)
    high = np.array([(max(a, c), max(b, d)) for a, b, c, d in corners]).reshape(-1, 2)
    boxes = np.concatenate([low, high], 1) * ([width - 1, height - 1] * 2)
    boxes = (boxes.round() if whole else boxes).astype(np.float32)
    levels, plain = anchors.levels(model, padded_height, padded_width), PLAIN_DEMO
    found = rpn_targets.label(levels, boxes, height, width)
    expected, owner = rpn_plain.labels(plain, boxes, height, width)
    np.testing.assert_array_equal(found.value, expected)
    np.testing.assert_array_equal(found.owner, owner[found.positive])


PLAIN_DEMO = rpn_plain.anchors(*CASES["demo"][:3])


def drawn(levels, boxes, size, slots, key=7):
    labels = rpn_targets.label(levels, boxes, *size)
    return labels, rpn_targets.sample(labels, levels, boxes, slots, np.uint64(key))


@pytest.mark.parametrize("slots", [8, 64, 4000])
def test_a_sample_is_the_first_of_a_hashed_order(case, slots):
    """Check the order of positives (by hash) and negatives (a random order of all anchors).

    If there are too few positives, negatives fill the slots, and vice versa.
    """
    levels, plain, size = case
    boxes = some_boxes(np.random.default_rng(5), 9, *size)
    labels, found = drawn(levels, boxes, size, slots)
    expected, owner = rpn_plain.labels(plain, boxes, *size)
    positive = np.flatnonzero(expected == 1)
    assert len(positive) > 8
    kept = positive[np.argsort(bits(7, 1, positive))][: slots // 2]
    order = Permutation(fold(7, 2), len(plain))(np.arange(len(plain)))
    negative = [place for place in order.tolist() if expected[place] == 0][: slots - len(kept)]
    used = len(kept) + len(negative)
    assert used == min(slots, len(kept) + int((expected == 0).sum()))
    assert sorted(found.anchor[: len(kept)].tolist()) == sorted(kept.tolist())
    assert found.anchor[len(kept) : used].tolist() == negative
    assert found.label.tolist() == [1.0] * len(kept) + [0.0] * (slots - len(kept))
    assert found.weight.tolist() == [1.0] * used + [0.0] * (slots - used)
    mine = found.anchor[: len(kept)]
    offsets = rpn_plain.offsets(boxes[owner[mine]], plain[mine])
    np.testing.assert_allclose(found.offset[: len(kept)], offsets, rtol=1e-5, atol=1e-6)
    assert not found.offset[len(kept) :].any()
    assert labels.value[found.anchor[:used]].tolist() == found.label[:used].tolist()


def test_samples_differ_by_key_alone(case):
    levels, _, size = case
    boxes = some_boxes(np.random.default_rng(2), 6, *size)
    first, again, changed = (
        drawn(levels, boxes, size, 64, key)[1].anchor.tolist() for key in (1, 1, 2)
    )
    assert first == again != changed


def test_an_image_without_objects_has_negatives_alone(case):
    levels, _, size = case
    _, found = drawn(levels, np.zeros((0, 4), np.float32), size, 64)
    assert found.weight.sum() == 64
    assert not found.label.any()


def test_an_image_smaller_than_every_anchor_has_no_samples():
    levels = anchors.levels(REFERENCE_MODEL, 64, 64)
    labels, found = drawn(levels, np.array([[1, 1, 9, 9]], np.float32), (12, 20), 32)
    assert (labels.value == -1).all()
    assert not found.weight.any()
