import numpy as np
import pytest

from workloads.common.images.drawing import scenes
from workloads.common.images.drawing.outlines import OUTLINES
from workloads.common.images.drawing.scenes import Look, Pose
from workloads.common.images.drawing.textures import TEXTURES

PLAIN = Look("solid", (200.0, 100.0, 50.0), (0.0, 0.0, 0.0))


def area(polygon: np.ndarray) -> float:
    """Return the area of a polygon (shoelace formula)."""
    x, y = polygon[:, 0], polygon[:, 1]
    return abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))) / 2


def canvas(height: int = 96, width: int = 128) -> np.ndarray:
    return np.zeros((3, height, width), np.float32)


def test_ten_outlines_within_the_unit_disc_and_ten_textures():
    assert len(OUTLINES) == len(TEXTURES) == 10
    for name, polygon in OUTLINES.items():
        assert np.hypot(*polygon.T).max() <= 1.2, name
        assert 0.5 < area(polygon) < 2.7, name


@pytest.mark.parametrize("name", OUTLINES)
def test_a_mask_covers_the_area_of_its_outline(name):
    pose = Pose(64.3, 47.8, 30.0, rotation=0.4, squeeze=0.8, shear=0.15)
    mask = scenes.draw_object(canvas(), name, pose, PLAIN, 0)
    polygon = pose.corners(OUTLINES[name])
    expected = 30.0**2 * 0.8 * area(OUTLINES[name])
    assert area(polygon) == pytest.approx(expected, rel=1e-3)
    edges = np.hypot(*(polygon - np.roll(polygon, 1, 0)).T).sum()
    # The grid that is filled has cells of a quarter of a pixel.
    assert abs(mask.sum() / 255 - expected) < 0.2 * edges
    y, x = np.nonzero(mask)
    assert (
        np.abs([x.min() + 0.5 - polygon[:, 0].min(), x.max() + 0.5 - polygon[:, 0].max()]).max()
        < 1.0
    )
    assert (
        np.abs([y.min() + 0.5 - polygon[:, 1].min(), y.max() + 0.5 - polygon[:, 1].max()]).max()
        < 1.0
    )


def test_pixels_are_painted_according_to_the_mask():
    picture = canvas()
    mask = scenes.draw_object(picture, "ring", Pose(60, 48, 30), PLAIN, 0)
    for plane, value in zip(picture, PLAIN.first, strict=True):
        np.testing.assert_allclose(plane, mask * (value / 255), atol=0.01)
    assert mask[48, 60] == 0, "the hole of the ring"


def test_an_object_is_clipped_at_the_border_and_invisible_outside():
    inside = scenes.draw_object(canvas(), "square", Pose(64, 48, 20), PLAIN, 0)
    half = scenes.draw_object(canvas(), "square", Pose(64, 0, 20), PLAIN, 0)
    assert half.sum() == pytest.approx(inside.sum() / 2, rel=0.001)
    for x, y in ((-50, 48), (64, -50), (200, 48), (64, 200)):
        assert scenes.draw_object(canvas(), "square", Pose(x, y, 20), PLAIN, 0).sum() == 0
