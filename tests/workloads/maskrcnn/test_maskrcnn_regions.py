"""Proposals, regions and detections on the host, against plain float64."""

import dataclasses

import numpy as np
import pytest

from tests.workloads.maskrcnn import regions_plain as plain
from workloads.maskrcnn.regions.detections import detect
from workloads.maskrcnn.regions.proposals import Proposals, propose, top
from workloads.maskrcnn.regions.rois import match, sample
from workloads.maskrcnn.regions.rules import RegionRules, stacked, suppressed
from workloads.maskrcnn.settings import DEMO_MODEL, REFERENCE_MODEL

SIZES = np.array([[90, 120], [96, 101], [64, 128]], np.int32)
RULES = dataclasses.replace(
    RegionRules.of(DEMO_MODEL, 60), before_nms=(40, 30), after_nms=(25, 8), of_image=20,
    regions=24, positives=6, detections=12,
)  # fmt: skip
EPOCH, SEED = 3, 11


def random_boxes(rng, count, most=128):
    corner = rng.uniform(0, most, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(2, 60, (count, 2))], axis=1).astype(
        np.float32
    )


@pytest.fixture(scope="module")
def rpn():
    """Return logits (3, 300), deltas (3, 300, 4), and anchors of two levels.

    The second level has fewer anchors than are selected.
    """
    rng = np.random.default_rng(4)
    anchors = [random_boxes(rng, 270), random_boxes(rng, 30)]
    objectness = rng.normal(size=(3, 300)).astype(np.float32)
    objectness[1] += 0.5  # it has more than a third of the batch's proposals
    return objectness, (0.3 * rng.normal(size=(3, 300, 4))).astype(np.float32), anchors


@pytest.fixture(scope="module")
def objects():
    """Return `box` and `label` of three images.

    The last image has no objects, the second an empty slot in the middle.
    """
    rng = np.random.default_rng(5)
    box, label = random_boxes(rng, 15).reshape(3, 5, 4), rng.integers(1, 8, (3, 5)).astype(np.int32)
    label[1, 2] = label[2] = 0
    return box, label


@pytest.mark.parametrize("training", [True, False])
def test_proposals_are_the_plain_ones(rpn, training):
    found = propose(*rpn, SIZES, RULES, plain.suppress_edges, training)
    late = 0 if training else 1
    most = RULES.of_batch if training else RULES.of_image
    wanted = plain.propose(
        *rpn, SIZES, RULES.before_nms[late], RULES.after_nms[late], most, training
    )
    counts = [len(proposals) for proposals in found]
    assert counts == [len(box) for box, _ in wanted]
    assert (
        (sum(counts) == 60 and max(counts) > 21) if training else counts == [16] * 3
    )  # two levels of eight
    for proposals, (box, anchor) in zip(found, wanted, strict=True):
        assert proposals.box.dtype == np.float32
        np.testing.assert_allclose(proposals.box, box, atol=1e-4)
        assert proposals.box.min() >= 0
        assert proposals.anchor.tolist() == anchor


def test_nan_scores_come_last_and_boxes_stay_finite(rpn):
    objectness, deltas, anchors = (rpn[0].copy(), rpn[1].copy(), rpn[2])
    objectness[0, ::2] = np.nan
    deltas[0, 1::4] = np.nan
    deltas[1] = np.inf
    found = propose(objectness, deltas, anchors, SIZES, RULES, plain.suppress_edges, True)
    assert all(np.isfinite(proposals.box).all() for proposals in found)


def test_top_returns_the_best_in_order_and_the_first_of_equal_scores():
    scores = np.array([1, 3, 3, 2, 3, np.nan, 3, 0], np.float32)
    assert top(scores, 3).tolist() == [1, 2, 4]
    assert top(scores, 6).tolist() == [1, 2, 4, 6, 3, 0]
    assert top(scores, 8).tolist() == [1, 2, 4, 6, 3, 0, 7, 5]
    rng = np.random.default_rng(0)
    many = rng.integers(0, 50, 5_000).astype(np.float32)
    for count in (1, 700, 5_000):
        assert top(many, count).tolist() == np.argsort(-many, kind="stable")[:count].tolist()
    assert top(np.zeros(0, np.float32), 0).shape == (0,)


def test_suppression_adds_a_pixel():
    """Check two boxes of 4 × 4 pixels that share 3 × 4 pixels.

    Their IoU is 0.6 if the last pixels belong to a box, else 0.5.
    """
    boxes = np.array([[0, 0, 3, 3], [1, 0, 4, 3]], np.float32)
    assert suppressed(plain.suppress_edges, boxes, np.array([2, 1], np.float32), 0.55).tolist() == [
        0
    ]
    assert boxes.tolist() == [[0, 0, 3, 3], [1, 0, 4, 3]]


def test_regions_are_the_plain_ones(rpn, objects):
    proposed = propose(*rpn, SIZES, RULES, plain.suppress_edges, True)
    box, label = objects
    number = np.array([7, 123_456, 0])
    found = sample(proposed, box, label, number, EPOCH, SEED, RULES)
    wanted = plain.sample(
        [(proposals.box, proposals.anchor) for proposals in proposed],
        box,
        label,
        number,
        EPOCH,
        SEED,
        RULES.regions,
        RULES.positives,
    )
    for image, learned in enumerate(wanted):
        count = len(learned)
        assert found.weight[image].tolist() == [1] * count + [0] * (RULES.regions - count)
        for slot, (of_slot, kind, delta, matched) in enumerate(learned):
            np.testing.assert_allclose(found.box[image, slot], of_slot, atol=1e-5)
            assert found.label[image, slot] == kind
            assert found.level[image, slot] == plain.level(of_slot, 24, 3, 3)
            np.testing.assert_allclose(
                found.delta[image, slot], 0 if delta is None else delta, atol=1e-4
            )
            if matched is not None:
                assert found.object[image, slot] == matched
                assert found.positive[image, slot]
    assert (found.label[:, RULES.positives :] == 0).all()
    assert found.positive.sum(1).tolist() == [
        sum(kind > 0 for _, kind, *_ in learned) for learned in wanted
    ]
    assert found.positive[2].sum() == 0  # no objects
    assert found.weight[2].sum() > 0


def test_samples_depend_on_seed_epoch_and_number_alone(rpn, objects):
    proposed = propose(*rpn, SIZES, RULES, plain.suppress_edges, True)
    box, label = objects
    few = dataclasses.replace(RULES, regions=8, positives=2)
    number = np.array([7, 8, 9])

    def boxes(number, epoch, seed, order=(0, 1, 2)):
        chosen = list(order)
        return sample(
            [proposed[i] for i in chosen],
            box[chosen],
            label[chosen],
            number[chosen],
            epoch,
            seed,
            few,
        ).box

    first = boxes(number, 1, 2)
    np.testing.assert_array_equal(boxes(number, 1, 2, (2, 0, 1)), first[[2, 0, 1]])
    turned = [Proposals(proposals.box[::-1], proposals.anchor[::-1]) for proposals in proposed]
    np.testing.assert_array_equal(sample(turned, box, label, number, 1, 2, few).box, first)
    for changed in (boxes(number, 2, 2), boxes(number, 1, 3), boxes(number + 1, 1, 2)):
        assert not np.array_equal(first, changed)


def test_objects_are_proposals_too(objects):
    """Check that every object becomes a region if there are no proposals."""
    box, label = objects
    found = sample(
        [Proposals(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))] * 3,
        box,
        label,
        np.arange(3),
        0,
        0,
        RULES,
    )
    assert found.weight.sum(1).tolist() == [5, 4, 0]
    assert found.label[0, :5].tolist() == label[0, found.object[0, :5]].tolist()
    np.testing.assert_array_equal(found.box[1, :4], box[1, found.object[1, :4]])
    assert not found.delta.any()


def test_an_overlap_of_one_half_is_positive():
    candidates = np.array([[0, 0, 9, 9], [0, 0, 9, 8], [0, 0, 4, 9], [0, 0, 3, 9]], np.float32)
    matched, positive = match(candidates, np.array([[50, 50, 60, 60], [0, 0, 9, 9]], np.float32))
    assert matched[:4].tolist() == [1] * 4
    assert positive.tolist() == [True, True, True, False]


def test_levels_follow_the_side():
    rules = RegionRules.of(REFERENCE_MODEL, 2_000)
    sides = np.array([1, 111, 112, 223, 224, 447, 448, 2_000], np.float32)
    boxes = np.stack([sides * 0, sides * 0, sides - 1, sides - 1], axis=1)
    assert rules.level(boxes).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert rules.level(boxes).tolist() == [plain.level(box, 224, 4, 4) for box in boxes]


def test_rules_of_the_reference():
    rules = RegionRules.of(REFERENCE_MODEL, 6_000)
    assert rules.before_nms == rules.after_nms == (2000, 1000)
    assert (rules.of_batch, rules.of_image) == (6000, 1000)
    assert (rules.regions, rules.positives, rules.detections, rules.levels, rules.mask_side) == (
        512,
        128,
        100,
        4,
        28,
    )


def test_detections_are_the_plain_ones():
    rng = np.random.default_rng(8)
    proposed = [random_boxes(rng, count) for count in (40, 0, 30)]
    logits = 2 * rng.normal(size=(3, 40, 5))
    probabilities = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype(np.float32)
    deltas = rng.normal(size=(3, 40, 5, 4)).astype(np.float32)
    found = detect(proposed, probabilities, deltas, SIZES, RULES, plain.suppress_edges)
    wanted = plain.detect(proposed, probabilities, deltas, SIZES, RULES.detections)
    assert [len(rows) for rows in wanted] == [12, 0, 12]
    for image, of_image in enumerate(wanted):
        assert np.count_nonzero(found.label[image]) == len(of_image)
        for slot, (box, score, label) in enumerate(of_image):
            np.testing.assert_allclose(found.box[image, slot], box, atol=1e-4)
            assert (found.score[image, slot], found.label[image, slot]) == (score, label)
            assert found.level[image, slot] == plain.level(box, 24, 3, 3)
    assert not found.box[1].any()


def test_boxes_are_stacked():
    assert stacked([np.ones((2, 4), np.float32), np.zeros((0, 4), np.float32)]).sum(
        (1, 2)
    ).tolist() == [8, 0]
    assert stacked([np.zeros((0, 4), np.float32)]).shape == (1, 1, 4)
