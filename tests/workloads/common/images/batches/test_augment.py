"""Crops and flips: the reference's conditions and distribution, and independence of the batch."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples
from workloads.common.images.batches.augment import ASPECTS, crop_boxes, flips
from workloads.ssd import crops


def boxes(count, width, height, minimum=0.05, seed=1, epoch=0):
    numbers = np.arange(count)
    return crop_boxes(seed, epoch, numbers, np.full(count, width), np.full(count, height), minimum)


@examples(60)
@given(st.integers(1, 3000), st.integers(1, 3000), st.floats(0.05, 1.0), st.integers(0, 5))
def test_every_crop_meets_the_conditions_or_is_the_whole_image(width, height, minimum, epoch):
    found = boxes(50, width, height, minimum, epoch=epoch)
    left, top, box_width, box_height = found.T
    assert min(left.min(), top.min()) >= 0
    assert max((left + box_width - width).max(), (top + box_height - height).max()) <= 0
    whole = (box_width == width) & (box_height == height)
    area = box_width * box_height
    # The product has the rounding of the code: with different rounding, a valid area could be
    # below the minimum.
    assert (whole | (area >= minimum * (width * height))).all()
    # The width is round(aspect · height), which allows half a pixel of rounding.
    low, high = ASPECTS[0] * box_height - 0.5, ASPECTS[1] * box_height + 0.5
    assert (whole | ((box_width >= low - 1e-9) & (box_width <= high + 1e-9))).all()


def reference(random, width, height, minimum):
    """Return the size of a crop, drawn in plain Python as `sample_distorted_bounding_box` does.

    After 100 failed attempts it is the size of the whole image.
    """
    for _ in range(100):
        aspect = random.uniform(*ASPECTS)
        tallest = round(math.sqrt(width * height / aspect))
        while round(tallest * aspect) > width:
            tallest -= 1
        tallest = min(tallest, height)
        shortest = min(round(math.sqrt(minimum * width * height / aspect)), tallest)
        box_height = int(random.integers(shortest, tallest + 1))
        box_width = round(box_height * aspect)
        area = box_width * box_height / (width * height)
        if max(minimum, 0.1) <= area <= 1 and box_width <= width and box_height <= height:
            return box_width, box_height
    return width, height


@pytest.mark.parametrize(
    ("width", "height", "minimum"),
    [(500, 375, 0.05), (375, 500, 0.05), (96, 96, 0.5), (900, 200, 0.05)],
)
def test_sizes_have_the_distribution_of_the_reference(width, height, minimum):
    random, count = np.random.default_rng(5), 20_000
    expected = np.array([reference(random, width, height, minimum) for _ in range(count)])
    found = boxes(count, width, height, minimum)[:, 2:]
    for values, wanted in zip(
        (*found.T, found.prod(1)), (*expected.T, expected.prod(1)), strict=True
    ):
        assert values.mean() == pytest.approx(wanted.mean(), rel=0.01)
        assert np.quantile(values, [0.1, 0.5, 0.9]) == pytest.approx(
            np.quantile(wanted, [0.1, 0.5, 0.9]), rel=0.03
        )


def test_positions_are_uniform():
    found = boxes(40_000, 500, 375)
    smaller = found[found[:, 2] < 400]
    share = smaller[:, 0] / (500 - smaller[:, 2])
    assert share.mean() == pytest.approx(0.5, abs=0.01)
    assert share.min() < 0.01
    assert share.max() > 0.98


def test_an_image_without_a_valid_crop_is_used_whole():
    assert (boxes(5, 1000, 20, 0.5) == [0, 0, 1000, 20]).all()


@pytest.mark.parametrize("flips", [flips, crops.flips])
def test_half_of_the_images_are_flipped(flips):
    assert flips(1, 0, np.arange(10_000)).mean() == pytest.approx(0.5, abs=0.02)
    assert (flips(1, 0, np.arange(100)) != flips(1, 1, np.arange(100))).any()


def test_the_crop_of_an_image_does_not_depend_on_its_batch():
    numbers = np.arange(200)
    widths, heights = 40 + numbers, 300 - numbers
    together = crop_boxes(3, 2, numbers, widths, heights, 0.05)
    for i in (0, 17, 199):
        alone = crop_boxes(3, 2, numbers[i : i + 1], widths[i : i + 1], heights[i : i + 1], 0.05)
        np.testing.assert_array_equal(alone[0], together[i])
    assert (crop_boxes(3, 3, numbers, widths, heights, 0.05) != together).any()
    assert (crop_boxes(4, 2, numbers, widths, heights, 0.05) != together).any()
