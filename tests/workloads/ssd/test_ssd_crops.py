"""Crops compared with a plain loop over images with the same random numbers."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers import examples
from tests.workloads.ssd import boxes_plain
from tests.workloads.ssd.test_ssd_boxes import box, flat
from workloads.common.randomness import bits, fold, integers, stream, uniform
from workloads.ssd import crops
from workloads.ssd.crops import CropRule
from workloads.ssd.settings import DEMO_MODEL, REFERENCE_MODEL


def random_number(key, *coordinates):
    """Return a single random number in [0, 1)."""
    return float(uniform(bits(fold(key, *coordinates[:-1]), np.array([coordinates[-1]])))[0])


def plain(seed, epoch, image, boxes, attempts):
    """Return the crop of an image as in the reference's loop."""
    key = stream(seed, "detection crop", epoch)
    modes = [None, 0.1, 0.3, 0.5, 0.7, 0.9, float("-inf")]
    number = 0
    while True:
        number += 1
        minimum = modes[int(integers(bits(fold(key, number, 0), np.array([image])), 7)[0])]
        if minimum is None:
            return [0.0, 0.0, 1.0, 1.0]
        for attempt in range(1, attempts + 1):
            width, height = (
                0.3 + 0.7 * random_number(key, number, attempt, draw, image) for draw in (0, 1)
            )
            if width / height < 0.5 or width / height > 2:
                continue
            left = random_number(key, number, attempt, 2, image) * (1 - width)
            top = random_number(key, number, attempt, 3, image) * (1 - height)
            window = [left, top, left + width, top + height]
            if not all(boxes_plain.iou(box, window) > minimum for box in boxes):
                continue
            middles = [((box[0] + box[2]) / 2, (box[1] + box[3]) / 2) for box in boxes]
            if any(left < x < window[2] and top < y < window[3] for x, y in middles):
                return window


batches = st.lists(st.lists(box(32), min_size=1, max_size=5), min_size=1, max_size=6)


@examples(30)
@example([[[0.0, 0.0, 0.25, 0.25], [0.5, 0.5, 1.0, 1.0]]], 1, 0, 50)
@given(batches, st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 2, 5]))
def test_windows_equal_the_references_loop(batch, seed, epoch, attempts):
    images = np.arange(len(batch)) * 5 + 2
    found = crops.windows(seed, epoch, images, *flat(batch), CropRule(attempts=attempts))
    expected = [
        plain(seed, epoch, int(image), rows, attempts)
        for image, rows in zip(images, batch, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def spread(count, per_image, seed=0):
    """Return `count` images with `per_image` random boxes each."""
    corners = np.sort(np.random.default_rng(seed).random((count * per_image, 2, 2)), axis=1)
    return corners.reshape(-1, 4).astype(np.float32), np.arange(1, count + 1) * per_image


def test_the_demos_rule():
    boxes, ends = spread(4000, 2)
    rule = CropRule.of(DEMO_MODEL, 1)
    assert rule == CropRule(0.5, 0.5, False, 1)
    assert CropRule.of(REFERENCE_MODEL, 50) == CropRule(0.3, 1.0, True, 50)
    found = crops.windows(1, 0, np.arange(4000), boxes, ends, rule)
    whole = (found == crops.WHOLE).all(axis=1)
    assert whole.mean() == pytest.approx(0.5, abs=0.03)
    assert (found[:, 2:] - found[:, :2]).min() >= 0.5 - 1e-12


def test_an_image_that_nothing_fits_is_not_cropped():
    outside = np.array([[1.2, 0.2, 1.3, 0.4]], np.float32)
    found = crops.windows(1, 0, np.array([0]), outside, np.array([1]), CropRule(overlap=False))
    np.testing.assert_array_equal(found[0], crops.WHOLE)


def test_objects_inside_are_cut_renormalised_and_mirrored():
    boxes = np.array(
        [
            [0.1, 0.1, 0.5, 0.5],
            [0.0, 0.0, 0.4, 0.2],
            [0.7, 0.7, 0.9, 0.9],
            [0.2, 0.4, 1.01, 0.6],
            [0.0, 0.0, 1.0, 1.0],
        ],
        np.float32,
    )
    windows = np.array([[0.25, 0.25, 0.75, 0.75], [0, 0, 1, 1], [0.0, 0.0, 0.4, 0.8]])
    mirrored = np.array([False, True, True])
    found, labels, ends = crops.inside(
        windows, mirrored, boxes, np.arange(1, 6, dtype=np.int32), np.array([3, 4, 5])
    )
    # The first object's center (0.3, 0.3) is inside. The centers of the next two are outside, and
    # so is the fifth's center (0.5, 0.5).
    assert labels.tolist() == [1, 4]
    assert ends.tolist() == [1, 2, 2]
    np.testing.assert_allclose(
        found, [[0, 0, 0.5, 0.5], [-0.01, 0.4, 0.8, 0.6]], atol=1e-6
    )  # the image is not cropped, so the box is not clipped
    for right, left in ((0.3, 0.25), (0.2, 0.5)):
        box = np.array([[0.1, 0.2, right, 0.6]], np.float32)
        found, _, _ = crops.inside(windows[2:], mirrored[2:], box, labels[:1], ends[:1])
        np.testing.assert_allclose(found, [[left, 0.25, 0.75, 0.75]], atol=1e-6)


@examples(40)
@given(batches, st.integers(0, 5))
def test_a_crop_keeps_objects_that_lie_inside(batch, epoch):
    rows, ends = flat(batch)
    images = np.arange(len(batch))
    windows = crops.windows(0, epoch, images, rows, ends, CropRule())
    found, labels, stops = crops.inside(
        windows, crops.flips(0, epoch, images), rows, np.ones(len(rows), np.int32), ends
    )
    assert (np.diff(stops, prepend=0) > 0).all()
    assert len(found) == len(labels) == stops[-1]
    assert 0 <= found.min() <= found.max() <= 1
    assert (found[:, 2:] > found[:, :2]).all()


@given(
    st.lists(st.tuples(st.integers(1, 700), st.integers(1, 700)), min_size=1, max_size=8),
    st.integers(0, 50),
)
def test_windows_in_pixels(sizes, epoch):
    width, height = np.array(sizes).T
    boxes, ends = spread(len(sizes), 2, epoch)
    windows = crops.windows(0, epoch, np.arange(len(sizes)), boxes, ends, CropRule())
    left, top, across, down = crops.pixels(windows, width, height).T
    assert min(left.min(), top.min()) >= 0
    assert min(across.min(), down.min()) >= 1
    assert max((left + across - width).max(), (top + down - height).max()) <= 0
    whole = (windows == crops.WHOLE).all(axis=1)
    assert (across[whole] == width[whole]).all()
    large = np.minimum(width, height) > 10
    assert (left[large] == np.floor(windows[large, 0] * width[large])).all()
    assert ((left + across)[large] == np.floor(windows[large, 2] * width[large])).all()
