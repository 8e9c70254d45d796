"""Decoding and suppression compared with the plain version, and their limits."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers import examples
from tests.workloads.ssd import boxes_plain
from workloads.ssd import detections, priors
from workloads.ssd.priors import Priors
from workloads.ssd.settings import DEMO_MODEL

SMALL = {
    **DEMO_MODEL,
    "map_sizes": [5, 2],
    "steps": [26, 64],
    "ratios": [[2], [2, 3]],
    "scales": [30, 60, 100],
}
PRIORS = priors.build(SMALL)


SCORE_ROUNDING = 2e-6
"""Relative difference of scores below which float32 may order them either way.

It also applies to the difference of a score from the minimum.
"""
OVERLAP_ROUNDING = 1e-5
"""Difference of an overlap from the limit below which float32 may decide either way."""


def outputs(seed, count, classes, background):
    """Return logits and offsets with scores that are equal in every precision.

    Every fifth prior has the logits of its neighbor, and every fourth prior has equal logits for
    two classes.
    """
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (count, classes + 1, len(PRIORS)))
    logits[:, 0] += background
    logits[:, :, 1::5] = logits[:, :, 0 : len(PRIORS) - 1 : 5]
    logits[:, classes, ::4] = logits[:, 1, ::4]
    return logits.astype(np.float32), rng.normal(0, 0.7, (count, 4, len(PRIORS))).astype(np.float32)


def plain(logits, offsets, priors):
    """Return the plain detections of an image, for (C + 1, P) and (4, P)."""
    return boxes_plain.detect(
        logits.T.tolist(), offsets.T.tolist(), priors.centres.T.astype(np.float64).tolist()
    )


def is_decided(logits, offsets, priors):
    """Check that rounding cannot change the result.

    Scores must differ enough from each other and from the minimum, and overlaps from the limit.
    """
    minimum, size = detections.SCORE_MINIMUM, 1 + SCORE_ROUNDING
    scores = np.array([boxes_plain.softmax(row) for row in logits.T.tolist()]).T[1:]
    ranked = np.sort(scores[scores > minimum / size])
    is_tie = np.diff(ranked) < 1e-12
    if np.any(~is_tie & (ranked[1:] < ranked[:-1] * size)) or np.any(ranked < minimum * size):
        return False
    possible = np.flatnonzero((scores > minimum).any(0))
    pairs = zip(offsets.T[possible].tolist(), priors.centres.T[possible].tolist(), strict=True)
    boxes = [boxes_plain.decode(*pair) for pair in pairs]
    overlaps = np.array([boxes_plain.iou(*pair) for pair in itertools.combinations(boxes, 2)])
    return bool(np.all(np.abs(overlaps - detections.SUPPRESSION_IOU) > OVERLAP_ROUNDING))


def assert_equal(found, image, expected):
    """Check the detections of an image, in their order."""
    rows = found.image == image
    assert found.label[rows].tolist() == [label for _, label, _, _ in expected]
    np.testing.assert_allclose(found.score[rows], [score for score, *_ in expected], rtol=1e-5)
    np.testing.assert_allclose(
        found.box[rows].ravel(), np.ravel([box for *_, box in expected]), atol=1e-5
    )


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.0, 3.0, 6.0]))
def test_detections_are_the_plain_ones(seed, classes, background):
    """Check the order of equal scores too: the lower class, then the lower prior comes first."""
    logits, offsets = outputs(seed, 2, classes, background)
    found = detections.detect(logits, offsets, PRIORS)
    images = [image for image in range(2) if is_decided(logits[image], offsets[image], PRIORS)]
    assume(images)
    for image in images:
        assert_equal(found, image, plain(logits[image], offsets[image], PRIORS))


def test_scores_at_the_minimum_are_dropped_and_just_above_are_kept():
    logits = np.full((1, 3, len(PRIORS)), -20, np.float32)
    logits[0, 0] = 0
    for prior, score in ((0, 0.0499), (3, 0.0501), (20, 0.949)):
        logits[0, 1, prior] = np.log(score / (1 - score))
    found = detections.detect(logits, np.zeros((1, 4, len(PRIORS)), np.float32), PRIORS)
    assert found.score.tolist() == pytest.approx([0.949, 0.0501], rel=1e-4)


@pytest.mark.parametrize(
    ("boxes", "labels", "kept"),
    [
        (
            [[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 0, 1, 0.49], [0, 0.51, 1, 1]],
            [1, 1, 1, 1],
            [0, 2, 3],
        ),  # an overlap of exactly one half
        (
            [[0, 0, 1, 0.1], [0.2, 0, 1.2, 0.1], [0.4, 0, 1.4, 0.1]],
            [1, 1, 1],
            [0, 2],
        ),  # a suppressed box suppresses no box
        (
            [[0, 0, 1, 1]] * 5,
            [1, 2, 1, 3, 2],
            [0, 1, 3],
        ),  # boxes suppress only boxes of their class
    ],
)
def test_suppression_by_hand(boxes, labels, kept):
    assert detections.suppress(np.array(boxes, np.float32), np.array(labels)).tolist() == kept


@examples(50)
@given(
    st.integers(0, 10**6),
    st.integers(0, 60),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 40),
)
def test_suppression_in_parts_is_the_plain_one(seed, count, at_once, classes, limit):
    """Use boxes on a grid of 1/64: float32 is exact, and overlaps of exactly one half occur."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 64, (count, 2))
    size = rng.integers(12, 64, (count, 2))
    boxes = (np.concatenate([corner, corner + size], axis=1) / 64).astype(np.float32)
    labels = rng.integers(1, classes + 1, count)
    expected: list[int] = []
    for number in range(count):
        rivals = [kept for kept in expected if labels[kept] == labels[number]]
        if all(
            boxes_plain.iou(boxes[number].tolist(), boxes[kept].tolist()) < 0.5 for kept in rivals
        ):
            expected.append(number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detections, "_AT_ONCE", at_once)
        patch.setattr(detections, "PER_IMAGE", limit)
        assert detections.suppress(boxes, labels).tolist() == expected[:limit]


def grid_priors(side):
    """Return priors on a grid that do not overlap."""
    x, y = np.meshgrid((np.arange(side) + 0.5) / side, (np.arange(side) + 0.5) / side)
    size = np.full(side * side, 0.5 / side)
    centres = np.stack([x.ravel(), y.ravel(), size, size]).astype(np.float32)
    corners = np.concatenate([centres[:2] - centres[2:] / 2, centres[:2] + centres[2:] / 2])
    return Priors(centres, corners)


def test_two_hundred_of_a_class_then_two_hundred_of_an_image():
    apart = grid_priors(20)
    logits = np.full((1, 3, 400), -30, np.float32)
    logits[0, 0] = 0
    logits[0, 1, :300] = np.linspace(0, 1, 300)
    logits[0, 2, 300:] = 2
    found = detections.detect(logits, np.zeros((1, 4, 400), np.float32), apart)
    assert len(found.score) == 200
    assert (
        np.count_nonzero(found.label == 2) == 100
    )  # the better class is complete, the worse class fills the rest
    assert np.all(np.diff(found.score) <= 0)
    # The limit of a class counts before suppression: 250 equal boxes hide a 251st box elsewhere.
    same = Priors(
        np.repeat(apart.centres[:, :1], 300, axis=1), np.repeat(apart.corners[:, :1], 300, axis=1)
    )
    logits = np.full((1, 2, 300), -30, np.float32)
    logits[0, 1, :250], logits[0, 1, 250:], logits[0, 0] = 3, 1, 0
    offsets = np.zeros((1, 4, 300), np.float32)
    offsets[0, 0, 250:] = 100
    assert len(detections.detect(logits, offsets, same).score) == 1
    # With 195 equal boxes and 105 worse separate boxes, 5 of the latter are among the best 200.
    mixed = Priors(
        np.concatenate([same.centres[:, :195], apart.centres[:, 195:300]], axis=1),
        np.concatenate([same.corners[:, :195], apart.corners[:, 195:300]], axis=1),
    )
    logits[0, 1, :195], logits[0, 1, 195:] = 3, 1
    assert len(detections.detect(logits, np.zeros((1, 4, 300), np.float32), mixed).score) == 6


@pytest.mark.parametrize("background", [0.0, 8.0])
def test_more_candidates_than_suppression_compares_at_once(background):
    """Check an early network: 15 classes pass everywhere, each with more than its best 200.

    A few candidates are better than the rest.
    """
    many = priors.build({**SMALL, "map_sizes": [9, 2], "steps": [14, 64]})
    rng = np.random.default_rng(3)
    scores = np.empty((15, len(many)))
    scores[:, 7:] = spaced(rng, 0.055, 0.065, scores[:, 7:].shape)
    scores[:, :7] = spaced(rng, 0.0655, 0.0665, (15, 7))
    logits = np.log(np.concatenate([1 - scores.sum(0, keepdims=True), scores]))
    logits[0, 7:] += background
    logits, offsets = logits.astype(np.float32), rng.normal(0, 1, (4, len(many))).astype(np.float32)
    assert is_decided(logits, offsets, many)
    assert_equal(
        detections.detect(logits[None], offsets[None], many), 0, plain(logits, offsets, many)
    )


def spaced(rng, least, most, shape):
    """Return values in random order with a minimum distance."""
    return rng.permutation(np.linspace(least, most, int(np.prod(shape)))).reshape(shape)


def test_no_detections():
    logits = np.zeros((2, 5, len(PRIORS)), np.float32)
    logits[:, 0] = 20
    found = detections.detect(logits, np.zeros((2, 4, len(PRIORS)), np.float32), PRIORS)
    assert found.box.shape == (0, 4)
    assert len(found.image) == len(found.label) == len(found.score) == 0
