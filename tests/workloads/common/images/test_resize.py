"""Resizing: bilinear by its definition, in place, mirrored; the reference's sizes and centres."""

import numpy as np
import pytest
from PIL import Image

from tests.workloads.common.images import synthetic_jpegs as synthetic
from workloads.common.images.resize import central_into, evaluation_size, resize_into, resize_smooth_into


def bilinear(image, height, width):
    """Half-pixel centres, no smoothing, float64."""

    def weights(size, target):
        at = np.clip((np.arange(target) + 0.5) * size / target - 0.5, 0, size - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, size - 1)
        matrix = np.zeros((target, size))
        np.add.at(matrix, (np.arange(target), low), 1 - (at - low))
        np.add.at(matrix, (np.arange(target), high), at - low)
        return matrix

    rows, columns = weights(image.shape[0], height), weights(image.shape[1], width)
    return np.einsum("ha,abc,wb->hwc", rows, image.astype(np.float64), columns, optimize=True)


@pytest.mark.parametrize("shape", [(31, 57), (224, 224), (500, 301), (5, 1000)])
@pytest.mark.parametrize("flip", [False, True])
def test_bilinear_into_a_slot_of_a_batch(shape, flip):
    image = synthetic.pixels(1, *shape)
    batch = np.full((3, 224, 224, 3), 7, np.uint8)
    resize_into(image, batch[1], flip)
    expected = bilinear(image, 224, 224)[:, :: -1 if flip else 1]
    assert np.abs(batch[1] - expected).max() <= 1.01
    assert np.abs(batch[1] - expected).mean() < 0.3
    assert (batch[[0, 2]] == 7).all()


def triangle(image, height, width):
    """Half-pixel centres, means weighted by a triangle of the size of a new pixel, at least of an old one; float64."""

    def weights(size, target):
        scale = size / target
        at, reach = (np.arange(target)[:, None] + 0.5) * scale - 0.5, max(scale, 1.0)
        matrix = np.maximum(0, 1 - np.abs(np.arange(size) - at) / reach)
        return matrix / matrix.sum(axis=1, keepdims=True)

    rows, columns = weights(image.shape[0], height), weights(image.shape[1], width)
    return np.einsum("ha,abc,wb->hwc", rows, image.astype(np.float64), columns, optimize=True)


@pytest.mark.parametrize("shape", [(31, 57), (224, 224), (500, 301), (5, 1000)])
@pytest.mark.parametrize("flip", [False, True])
def test_smooth_into_a_slot_of_a_batch(shape, flip):
    image = synthetic.pixels(1, *shape)
    batch = np.full((3, 224, 200, 3), 7, np.uint8)
    resize_smooth_into(image, batch[1], flip)
    expected = triangle(image, 224, 200)[:, :: -1 if flip else 1]
    assert np.abs(batch[1] - expected).max() <= 1.01
    assert np.abs(batch[1] - expected).mean() < 0.31
    assert (batch[[0, 2]] == 7).all()
    pixels = np.asarray(Image.fromarray(image).resize((200, 224), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(batch[1], pixels[:, :: -1 if flip else 1])


def test_the_two_agree_where_nothing_shrinks_and_differ_where_it_does():
    image = synthetic.pixels(1, 60, 90)
    for size, least, most in (((60, 90), 0, 0), ((150, 200), 0, 0.5), ((30, 45), 1, 90)):
        plain, smooth = np.empty((2, *size, 3), np.uint8)
        resize_into(image, plain)
        resize_smooth_into(image, smooth)
        assert least <= np.abs(plain.astype(int) - smooth).mean() <= most


@pytest.mark.parametrize("resize_into", [resize_into, resize_smooth_into])
def test_a_view_into_a_larger_image_is_enough(resize_into):
    image = synthetic.pixels(1, 200, 300)
    one, other = np.empty((2, 64, 64, 3), np.uint8)
    resize_into(image[20:150, 33:190], one)
    resize_into(image[20:150, 33:190].copy(), other)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((375, 500), (256, 341)),
        ((500, 375), (341, 256)),
        ((256, 256), (256, 256)),
        ((100, 100), (256, 256)),
        ((500, 333), (384, 256)),
    ],
)
def test_the_shorter_side_is_256_and_the_longer_one_rounded_down(size, expected):
    assert evaluation_size(*size, 256) == expected


def test_the_centre_is_cut_out():
    image = synthetic.pixels(2, 375, 500)
    out = np.empty((224, 224, 3), np.uint8)
    central_into(image, out, 256)
    expected = bilinear(image, 256, 341)[16:240, 58:282]
    assert np.abs(out - expected).mean() < 0.3


def test_the_centre_need_not_be_square():
    image = synthetic.pixels(2, 375, 500)
    out = np.empty((100, 220, 3), np.uint8)
    central_into(image, out, 256)
    expected = bilinear(image, 256, 341)[78:178, 60:280]
    assert np.abs(out - expected).mean() < 0.3
    with pytest.raises(AssertionError, match="shorter side is 200"):
        central_into(image, out, 200)
