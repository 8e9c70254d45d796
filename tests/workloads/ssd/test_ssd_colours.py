"""Color jitter compared with torchvision's formulas in float64, and its random factors."""

import colorsys

import cv2
import numpy as np
import pytest

from workloads.ssd import colours
from workloads.ssd.settings import REFERENCE_MODEL


@pytest.fixture(scope="module")
def image():
    noise = np.random.default_rng(0).integers(0, 256, (12, 12, 3)).astype(np.uint8)
    return cv2.resize(noise, (40, 30), interpolation=cv2.INTER_CUBIC)


def grey(image):
    return image @ np.array([0.299, 0.587, 0.114])


def brightness(image, factor):
    return factor * image


def contrast(image, factor):
    mean = np.floor(np.rint(grey(image)).mean() + 0.5)
    return factor * image + (1 - factor) * mean


def saturation(image, factor):
    return factor * image + (1 - factor) * np.rint(grey(image))[..., None]


def hue(image, factor):
    """Return the image with its hue turned, computed exactly in floats."""
    out = np.empty(image.shape)
    for place in np.ndindex(image.shape[:2]):
        h, s, v = colorsys.rgb_to_hsv(*(image[place] / 255))
        out[place] = np.array(colorsys.hsv_to_rgb((h + factor) % 1.0, s, v)) * 255
    return out


PLAIN = (brightness, contrast, saturation, hue)


def changed(image, change, factor):
    factors, order = [1.0, 1.0, 1.0, 0.0], [change]
    factors[change] = factor
    out = image.copy()
    colours.jitter(out, factors, order)
    return out.astype(np.float64)


@pytest.mark.parametrize(
    ("change", "factor"),
    [(0, 0.875), (0, 1.125), (1, 0.5), (1, 1.5), (2, 0.5), (2, 0.93), (2, 1.5)],
)
def test_linear_changes_are_cut_to_whole_levels(image, change, factor):
    expected = np.floor(np.clip(PLAIN[change](image.astype(np.float64), factor), 0, 255) + 1e-9)
    difference = np.abs(changed(image, change, factor) - expected)
    assert difference.max() <= 1
    assert difference.mean() < 0.02


@pytest.mark.parametrize("factor", [-0.05, -0.02, 0.013, 0.05])
def test_hue_turns_by_a_share_of_the_circle(image, factor):
    """Check the direction and size of the change. 0.05 are 18 degrees.

    The angle has 256 steps, so single pixels differ. An error of the unit would be a difference of
    20.
    """
    expected = hue(image, factor)
    difference = changed(image, 3, factor) - expected
    assert np.abs(difference).mean() < 1.2
    assert np.abs(hue(image, factor) - image).mean() > 2 * np.abs(difference).mean()
    pure = np.full((1, 1, 3), (200, 40, 40), np.uint8)
    red, green, blue = changed(pure, 3, factor)[0, 0]
    assert red == 200
    assert (green > blue) == (factor > 0)
    assert abs(green - blue) == pytest.approx(160 * 6 * abs(factor), abs=5)


def test_nothing_changes_at_the_neutral_factors(image):
    out = image.copy()
    colours.jitter(out, [1.0, 1.0, 1.0, 0.0], [3, 1, 0, 2])
    np.testing.assert_array_equal(out, image)


def test_jitter_depends_on_the_order(image):
    factors, results = [1.125, 0.5, 1.5, 0.05], []
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        out = image.copy()
        colours.jitter(out, factors, order)
        results.append(out)
        step = image.copy()
        for change in order:
            step = changed(step, change, factors[change]).astype(np.uint8)
        np.testing.assert_array_equal(out, step)
    assert (results[0] != results[1]).any()


def test_drawn_factors_are_uniform_and_orders_equally_frequent():
    factors, orders = colours.draw(1, 0, np.arange(20_000), REFERENCE_MODEL["jitter"])
    for column, (low, high) in zip(
        factors.T, [(0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05)], strict=True
    ):
        width = high - low
        assert low <= column.min() < low + 0.01 * width
        assert high - 0.01 * width < column.max() <= high
        assert column.mean() == pytest.approx((low + high) / 2, abs=0.01 * width)
    kinds, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(kinds) == 24
    assert counts.min() > 0.9 * 20_000 / 24
    assert abs(np.corrcoef(np.column_stack([factors, orders[:, :1]]).T) - np.eye(5)).max() < 0.03


def test_draws_depend_on_seed_epoch_and_image_alone():
    factors, orders = colours.draw(1, 2, np.array([7, 3]), [0.1, 0.2, 0.3, 0.04])
    alone, its = colours.draw(1, 2, np.array([3]), [0.1, 0.2, 0.3, 0.04])
    np.testing.assert_array_equal(alone[0], factors[1])
    np.testing.assert_array_equal(its[0], orders[1])
    for different in ((2, 2), (1, 3)):
        assert (
            colours.draw(*different, np.array([7, 3]), [0.1, 0.2, 0.3, 0.04])[0] != factors
        ).all()
