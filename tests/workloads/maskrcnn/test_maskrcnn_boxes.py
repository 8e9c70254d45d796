"""Boxes in the legacy convention, against plain float64 and numbers computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.maskrcnn import regions_plain as plain
from workloads.maskrcnn import boxes

sides = st.floats(0, 500, width=32)
box_lists = st.lists(st.tuples(sides, sides, sides, sides), min_size=1, max_size=6)


def boxes_of(values):
    """Return boxes (n, 4) for corners and sizes."""
    corners = np.array(values, np.float64)
    return np.concatenate([corners[:, :2], corners[:, :2] + corners[:, 2:]], axis=1)


def test_a_box_of_one_corner_is_one_pixel():
    point = np.array([[3.0, 4, 3, 4]])
    assert boxes.area(point) == [1]
    assert boxes.iou(point, np.array([[3.0, 4, 4, 4], [4, 4, 4, 4]])).tolist() == [[0.5, 0]]


@given(box_lists, box_lists)
def test_iou_equals_the_plain_version(first, second):
    first, second = boxes_of(first), boxes_of(second)
    wanted = [[plain.iou(a, b) for b in second] for a in first]
    np.testing.assert_allclose(boxes.iou(first, second), wanted, atol=1e-12)


@given(box_lists)
def test_deltas_equal_the_plain_version_and_decode_to_the_box(values):
    found, references = boxes_of(values), boxes_of(values)[::-1] + np.array([1.5, -2, 3, 1])
    for weights in (boxes.RPN_WEIGHTS, boxes.ROI_WEIGHTS):
        deltas = boxes.encode(found, references, weights)
        each = zip(found, references, strict=True)
        np.testing.assert_allclose(
            deltas, [plain.encode(*pair, np.array(weights)) for pair in each], atol=1e-9
        )
        small = np.abs(deltas[:, 2:] / weights[2:]).max(axis=1) < math.log(1000 / 16)
        np.testing.assert_allclose(
            boxes.decode(deltas, references, weights)[small], found[small], atol=1e-8
        )


def test_sizes_are_cut_before_the_exponential():
    reference = np.array([[0.0, 0, 9, 9]])
    (box,) = boxes.decode(np.array([[0.0, 0, 99, 0]]), reference, boxes.RPN_WEIGHTS)
    assert box[2] - box[0] + 1 == pytest.approx(10 * 1000 / 16)
    numberless = np.array([[np.nan, np.inf, np.inf, -np.inf]], np.float32)
    assert np.isfinite(
        boxes.decode(numberless, reference.astype(np.float32), boxes.RPN_WEIGHTS)
    ).all()


def test_types_are_kept_and_corners_end_on_the_last_pixel():
    box = np.array([[-3, 5, 700, 481]], np.float32)
    assert boxes.clip(box, 480, 640).tolist() == [[0, 5, 639, 479]]
    moved = boxes.encode(box, box, boxes.RPN_WEIGHTS), boxes.decode(box * 0, box, boxes.ROI_WEIGHTS)
    for found in (boxes.area(box), boxes.iou(box, box), boxes.clip(box, 9, 9), *moved):
        assert found.dtype == np.float32
