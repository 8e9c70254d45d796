"""Overlap, offsets and matching, compared with the plain version."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers import examples
from tests.workloads.ssd import boxes_plain
from workloads.ssd import boxes, priors
from workloads.ssd.priors import Priors
from workloads.ssd.settings import DEMO_MODEL, REFERENCE_MODEL

SMALL = {
    **DEMO_MODEL,
    "map_sizes": [4, 2],
    "steps": [32, 64],
    "ratios": [[2], [2, 3]],
    "scales": [30, 60, 100],
}
PRIORS = priors.build(SMALL)


@st.composite
def box(draw, grid=16):
    """Draw corners on a grid of sixteenths, so that overlaps can be equal and float32 is exact."""
    left, top = draw(st.integers(0, grid - 2)), draw(st.integers(0, grid - 2))
    return [
        left / grid,
        top / grid,
        draw(st.integers(left + 1, grid)) / grid,
        draw(st.integers(top + 1, grid)) / grid,
    ]


batches = st.lists(st.lists(box(), max_size=6), min_size=1, max_size=9)


def flat(batch):
    rows = [row for image in batch for row in image]
    return np.array(rows, np.float32).reshape(-1, 4), np.cumsum(
        [len(image) for image in batch], dtype=np.int64
    )


@example([[0, 0, 0, 0]], [[0, 0, 0, 0]])
@given(st.lists(box(), min_size=1, max_size=5), st.lists(box(), min_size=1, max_size=5))
def test_iou(first, second):
    found = boxes.iou(np.array(first, np.float32), np.array(second, np.float32))
    expected = [[boxes_plain.iou(a, b) for b in second] for a in first]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def reference_match(rows, prior_boxes):
    """Return the object of each prior, or -1, as in the reference (utils.py, Encoder.encode).

    All overlaps are computed at once in float32. Corners of objects and priors are computed in
    float32 from centers in float32.
    """
    x, y, width, height = (side.astype(np.float32) for side in prior_boxes.centres)
    half = np.float32(0.5)
    corners = np.stack(
        [x - half * width, y - half * height, x + half * width, y + half * height], axis=1
    )
    first, second = rows[:, None], corners[None]
    sides = np.maximum(
        np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(first[..., :2], second[..., :2]), 0
    )
    shared = sides[..., 0] * sides[..., 1]
    areas = [
        ((box[..., 2:] - box[..., :2])[..., 0]) * ((box[..., 2:] - box[..., :2])[..., 1])
        for box in (first, second)
    ]
    overlap = shared / (areas[0] + areas[1] - shared)
    assert overlap.dtype == np.float32
    best, found = overlap.max(axis=0), overlap.argmax(axis=0)
    claimed = overlap.argmax(axis=1)
    best[claimed] = 2
    for number, prior in enumerate(claimed):
        found[prior] = number
    return np.where(best > 0.5, found, -1)


@pytest.mark.parametrize("model", [REFERENCE_MODEL, DEMO_MODEL])
def test_matching_is_the_references_to_the_last_bit(model):
    """Compare 60 scenes of boxes with integer coordinates.

    In these scenes, several priors have equal overlaps with an object except for rounding.
    """
    prior_boxes, draws = priors.build(model), np.random.default_rng(4)
    for _ in range(60):
        corner = draws.integers(0, [560, 400], (draws.integers(1, 12), 2))
        end = np.minimum(corner + draws.integers(20, 400, corner.shape), [640, 480])
        rows = (np.concatenate([corner, end], axis=1) / [640, 480, 640, 480]).astype(np.float32)
        found = boxes.match(rows, np.array([len(rows)]), prior_boxes)[0]
        np.testing.assert_array_equal(found, reference_match(rows, prior_boxes))


@examples(40)
@given(batches)
def test_matching_is_the_plain_one(batch):
    rows, ends = flat(batch)
    # Use float64 as in the plain version. Otherwise equal overlaps could differ by rounding.
    exact = Priors(PRIORS.centres, PRIORS.corners.astype(np.float64))
    found = boxes.match(rows.astype(np.float64), ends, exact)
    first = 0
    for number, image in enumerate(batch):
        expected = np.array(boxes_plain.match(image, exact.corners.T.tolist()))
        np.testing.assert_array_equal(found[number], np.where(expected >= 0, expected + first, -1))
        first += len(image)


@pytest.mark.parametrize(
    ("objects", "widths", "wanted"),
    [
        (
            2,
            (1, 0.9, 0.3),
            [1, 0, -1],
        ),  # the last of equal objects claims its best prior, the first has the remaining priors
        (1, (1, 0.5, 0.51), [0, -1, 0]),  # an overlap of a half is background
    ],
)
def test_matching_by_hand(objects, widths, wanted):
    """Match objects that fill the image with priors of these fractions of its width."""
    corners = np.array([[0, 0, width, 1] for width in widths], np.float32).T
    rows = np.array([[0, 0, 1, 1]] * objects, np.float32)
    assert boxes.match(rows, np.array([objects]), Priors(corners, corners)).tolist() == [wanted]


@given(st.lists(box(), min_size=1, max_size=5))
def test_decode_inverts_encode(rows):
    corners = np.array(rows, np.float32)
    numbers = np.arange(len(rows)) * 7 % len(PRIORS)
    chosen = PRIORS.centres[:, numbers]
    offsets = boxes.encode(corners.T, chosen)
    expected = [
        boxes_plain.encode(row, chosen[:, i].astype(np.float64)) for i, row in enumerate(rows)
    ]
    np.testing.assert_allclose(offsets.T, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(boxes.decode(offsets, chosen).T, rows, atol=1e-6)


def test_targets():
    rows, ends = flat([[[0.1, 0.1, 0.6, 0.6], [0.5, 0.5, 1.0, 1.0]], [], [[0, 0, 1, 1]]])
    offsets, labels = boxes.targets(rows, np.array([3, 1, 7], np.int32), ends, PRIORS)
    found = boxes.match(rows, ends, PRIORS)
    assert offsets.shape == (3, 4, len(PRIORS))
    assert (labels[found < 0] == 0).all()
    assert (offsets.transpose(0, 2, 1)[found < 0] == 0).all()
    assert set(labels[0]) == {0, 1, 3}
    assert set(labels[1]) == {0}
    for image, prior in zip(*np.nonzero(found >= 0), strict=True):
        back = boxes_plain.decode(offsets[image, :, prior], PRIORS.centres[:, prior])
        assert back == pytest.approx(rows[found[image, prior]], abs=1e-5)
        assert labels[image, prior] == [3, 1, 7][found[image, prior]]
