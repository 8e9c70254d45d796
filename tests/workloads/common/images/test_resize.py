"""Resizing: bilinear in-place resize with optional flip, and the center crop of the reference."""

import numpy as np
import pytest
from PIL import Image

from tests.workloads.common.images import synthetic_jpegs as synthetic
from workloads.common.images.resize import central_into, resize_into, resize_smooth_into


def mixed(image, height, width, smooth=False):
    """Return a bilinear resize in float64, with half-pixel centers.

    The triangular filter is as wide as an input pixel. If `smooth` is set and the image shrinks, it
    is as wide as an output pixel.
    """

    def weights(size, target):
        scale = size / target
        at = (np.arange(target)[:, None] + 0.5) * scale - 0.5
        matrix = np.maximum(0, 1 - np.abs(np.arange(size) - at) / (max(scale, 1) if smooth else 1))
        return matrix / matrix.sum(axis=1, keepdims=True)

    rows, columns = weights(image.shape[0], height), weights(image.shape[1], width)
    return np.einsum("ha,abc,wb->hwc", rows, image.astype(np.float64), columns, optimize=True)


@pytest.mark.parametrize("shape", [(31, 57), (224, 224), (500, 301), (5, 1000)])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("resize", [resize_into, resize_smooth_into])
def test_an_image_is_resized_into_a_slot_of_a_batch(shape, flip, resize):
    image, smooth = synthetic.pixels(1, *shape), resize is resize_smooth_into
    batch = np.full((3, 224, 200, 3), 7, np.uint8)
    resize(image, batch[1], flip)
    expected = mixed(image, 224, 200, smooth)[:, :: -1 if flip else 1]
    assert np.abs(batch[1] - expected).max() <= 1.01
    assert np.abs(batch[1] - expected).mean() < 0.31
    assert (batch[[0, 2]] == 7).all()
    if smooth:
        pixels = np.asarray(Image.fromarray(image).resize((200, 224), Image.Resampling.BILINEAR))
        np.testing.assert_array_equal(batch[1], pixels[:, :: -1 if flip else 1])


@pytest.mark.parametrize("resize_into", [resize_into, resize_smooth_into])
def test_a_view_of_a_larger_image_is_accepted(resize_into):
    image = synthetic.pixels(1, 200, 300)
    from_view, from_copy = np.empty((2, 64, 64, 3), np.uint8)
    resize_into(image[20:150, 33:190], from_view)
    resize_into(image[20:150, 33:190].copy(), from_copy)
    np.testing.assert_array_equal(from_view, from_copy)


@pytest.mark.parametrize(
    ("size", "rows", "columns"),
    [((224, 224), (16, 240), (58, 282)), ((100, 220), (78, 178), (60, 280))],
)
def test_the_center_is_cropped(size, rows, columns):
    """Check a square and a wide center crop."""
    image, out = synthetic.pixels(2, 375, 500), np.empty((*size, 3), np.uint8)
    central_into(image, out, 256)
    expected = mixed(image, 256, 341)[slice(*rows), slice(*columns)]
    assert np.abs(out - expected).mean() < 0.3
    with pytest.raises(AssertionError, match="a centre of"):
        central_into(image, out, 200)
