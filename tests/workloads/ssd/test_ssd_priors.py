"""The priors of every map, compared with values computed by hand.

tests/golden has the digest of all priors.
"""

import numpy as np
import pytest

from workloads.ssd import priors
from workloads.ssd.settings import DEMO_MODEL, REFERENCE_MODEL

FIRST = [0, 5_776, 7_942, 8_542, 8_692, 8_728]
"""First prior of each map: 38²·4, 19²·6, 10²·6, 5²·6, 3²·4, 1·4."""


@pytest.fixture(scope="module")
def reference_priors():
    return priors.build(REFERENCE_MODEL)


def test_there_are_as_many_as_in_the_reference(reference_priors):
    assert len(reference_priors) == priors.count(REFERENCE_MODEL) == 8_732
    assert reference_priors.centres.shape == reference_priors.corners.shape == (4, 8_732)
    assert reference_priors.centres.dtype == reference_priors.corners.dtype == np.float32
    assert len(priors.build(DEMO_MODEL)) == priors.count(DEMO_MODEL) == 1_488


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        # Map 38: cells 8 px apart, center of the first at 4 / 300; shapes 21 px, √(21·45) = 30.74
        # px, 29.70 × 14.85 px.
        (0, (4 / 300, 4 / 300, 0.07, 0.07)),
        (1, (12 / 300, 4 / 300, 0.07, 0.07)),  # the next column
        (38 * 38 - 1, (1.0, 1.0, 0.07, 0.07)),  # 37.5 · 8 = 300 px: the corner of the image
        (38 * 38, (4 / 300, 4 / 300, 0.10246951, 0.10246951)),
        (2 * 38 * 38, (4 / 300, 4 / 300, 0.09899495, 0.04949747)),
        # Map 19: 16 px; 45 px; ratio 2: 63.64 × 31.82 px; ratio 3: 77.94 × 25.98 px.
        (FIRST[1], (8 / 300, 8 / 300, 0.15, 0.15)),
        (FIRST[1] + 2 * 361, (8 / 300, 8 / 300, 0.21213203, 0.10606602)),
        (FIRST[1] + 4 * 361, (8 / 300, 8 / 300, 0.25980762, 0.08660254)),
        # Map 10: 32 px; 99 px. The last column would lie at 304 px and is clamped.
        (FIRST[2], (16 / 300, 16 / 300, 0.33, 0.33)),
        (FIRST[2] + 9, (1.0, 16 / 300, 0.33, 0.33)),
        (FIRST[2] + 2 * 100, (16 / 300, 16 / 300, 0.46669048, 0.23334524)),
        # Map 5: 64 px; 153 px.
        (FIRST[3], (32 / 300, 32 / 300, 0.51, 0.51)),
        (FIRST[3] + 12, (160 / 300, 160 / 300, 0.51, 0.51)),
        (FIRST[3] + 4 * 25, (32 / 300, 32 / 300, 0.88334591, 0.29444864)),
        # Map 3: 100 px; 207 px; 292.74 × 146.37 px.
        (FIRST[4], (50 / 300, 50 / 300, 0.69, 0.69)),
        (FIRST[4] + 2 * 9, (50 / 300, 50 / 300, 0.97580736, 0.48790368)),
        # Map 1: 300 px; 261 px, √(261·315) = 286.73 px; 369.11 px wide, clamped to the image, ×
        # 184.55 px.
        (FIRST[5], (0.5, 0.5, 0.87, 0.87)),
        (FIRST[5] + 1, (0.5, 0.5, 0.95577194, 0.95577194)),
        (FIRST[5] + 2, (0.5, 0.5, 1.0, 0.61518290)),
    ],
)
def test_each_map(reference_priors, place, expected):
    np.testing.assert_allclose(reference_priors.centres[:, place], expected, rtol=2e-7)


def test_corners_are_of_the_clamped_boxes(reference_priors):
    x, y, width, height = reference_priors.centres.astype(np.float64)
    expected = np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
    np.testing.assert_allclose(reference_priors.corners, expected, atol=1e-7)
    assert reference_priors.centres.min() > 0
    assert reference_priors.centres.max() == 1
    assert reference_priors.corners.min() < 0  # corners are not clamped


def test_the_demos_first_cells():
    """Check 128 px: cells 8, 16, 32, 64 px apart; scales 0.12, 0.20, 0.32, 0.46."""
    demo_priors = priors.build(DEMO_MODEL)
    for first, middle, scale in (
        (0, 4, 0.12),
        (1_024, 8, 0.20),
        (1_408, 16, 0.32),
        (1_472, 32, 0.46),
    ):
        np.testing.assert_allclose(
            demo_priors.centres[:, first], (middle / 128, middle / 128, scale, scale), rtol=1e-6
        )
