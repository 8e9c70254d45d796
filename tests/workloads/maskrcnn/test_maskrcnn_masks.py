"""Masks of regions and masks in images, against plain versions of the reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as tool

from testing.synthetic_maskrcnn import regions_of, some_objects
from tests.helpers import examples
from tests.workloads.maskrcnn import masks_plain
from workloads.maskrcnn import masks
from workloads.maskrcnn.masks import Polygons


def test_taking_objects_of_flat_polygons():
    plain, flat = some_objects(np.random.default_rng(0), [2, 0, 1, 3])
    chosen = np.array([3, 1, 0, 3])
    taken = flat.take(chosen)
    expected = [points for number in chosen for points in plain[number]]
    np.testing.assert_array_equal(taken.points, np.concatenate(expected))
    assert taken.object_ends.tolist() == [3, 3, 5, 8]
    assert np.diff(taken.polygon_ends, prepend=0).tolist() == [len(points) for points in expected]
    assert len(flat.take(chosen[:0]).points) == 0
    everything = flat.take(np.arange(4))
    np.testing.assert_array_equal(everything.points, flat.points)
    np.testing.assert_array_equal(everything.polygon_ends, flat.polygon_ends)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("side", [28, 14])
def test_targets_are_the_references(seed, side):
    rng = np.random.default_rng(seed)
    plain, flat = some_objects(rng, [1, 3, 2, 1])
    objects, rois = regions_of(plain, rng)
    found = masks.targets(rois, objects, flat, side)
    assert found.dtype == np.uint8
    assert 0.05 < found.mean() < 0.9
    for roi, number, mask in zip(rois, objects, found, strict=True):
        np.testing.assert_array_equal(mask, masks_plain.target(plain[number], roi, side))


def test_a_target_by_hand():
    """Check a square of which regions have the right half, all, or nothing.

    The right half covers columns 0 … 13 of 28.
    """
    square = Polygons(
        np.array([[10, 10], [30, 10], [30, 30], [10, 30]], np.float32), np.array([4]), np.array([1])
    )
    rois = np.array([[20, 10, 40, 30], [10, 10, 30, 30], [40, 40, 50, 50]], np.float32)
    half, whole, nothing = masks.targets(rois, np.zeros(3, np.int64), square, 28)
    assert (half == (np.arange(28) < 14)).all()
    assert (whole.min(), nothing.max()) == (1, 0)
    assert masks.targets(rois[:0], np.zeros(0, np.int64), square, 28).shape == (0, 28, 28)


def agree(mask, box, height, width):
    """Check that the pasted mask equals the plain mask except near the threshold."""
    (found,) = masks.paste(mask[None], box[None], height, width)
    plain = masks_plain.pasted(mask, box, height, width)
    sure = np.abs(plain - masks.THRESHOLD) > 1e-5
    np.testing.assert_array_equal(found.T[sure], (plain > masks.THRESHOLD)[sure])
    return found


@pytest.mark.parametrize("seed", range(6))
def test_pasting_is_the_references(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((28, 28), np.float32)
    low = rng.uniform(-15, 40, 2)
    box = np.concatenate([low, low + rng.uniform(20, 70, 2)]).astype(np.float32)
    found = agree(mask, box, 64, 80)
    assert 0.02 < found.mean() < 0.9


@examples(100)
@given(
    st.lists(st.floats(-200, 200, width=32), min_size=4, max_size=4),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_pasting_any_box(numbers, height, width):
    """Include boxes outside the image, empty boxes, and boxes with swapped corners."""
    mask = np.linspace(0.2, 1, 49, dtype=np.float32).reshape(7, 7)
    agree(mask, np.array(numbers, np.float32), height, width)


def test_a_full_mask_covers_its_box_and_no_more():
    """Check that the border of zeros is enlarged too.

    Truncating the corners 8.5 … 52.5 costs a pixel, as in the reference.
    """
    box = np.array([10, 20, 51, 61], np.float32)
    (found,) = masks.paste(np.ones((1, 28, 28), np.float32), box[None], 80, 70)
    rows, columns = np.nonzero(found.T)
    assert (columns.min(), rows.min(), columns.max(), rows.max()) == (10, 20, 50, 60)
    assert found.sum() == 41 * 41


def test_encoded_masks_decode_to_the_pasted_ones(monkeypatch):
    rng = np.random.default_rng(3)
    predicted = rng.random((9, 28, 28), np.float32)
    low = rng.uniform(-10, 60, (9, 2))
    boxes = np.concatenate([low, low + rng.uniform(5, 50, (9, 2))], 1).astype(np.float32)
    expected = masks.paste(predicted, boxes, 64, 90)
    for at_once in (1, 2 * 64 * 90, 1 << 25):
        monkeypatch.setattr(masks, "BYTES_AT_ONCE", at_once)
        counts = masks.encode(predicted, boxes, 64, 90)
        found = tool.decode([{"size": [64, 90], "counts": encoded} for encoded in counts])
        np.testing.assert_array_equal(found, expected.transpose(2, 1, 0))
    assert masks.encode(predicted[:0], boxes[:0], 64, 90) == []
