"""Evaluation pixels equal those of TensorFlow's current resize.

The reference called TensorFlow's legacy resize.
"""

import numpy as np

from tests.frameworks_probe import probe
from workloads.common.images.resize import evaluation_size


def test_evaluation_sizes_equal_those_of_the_reference():
    """Compare with sizes that TensorFlow computes in float32.

    One in eight images has a shorter side of 255 instead of 256 pixels.
    """
    found = probe("tensorflow", "probes.image_resize_tensorflow.sizes")
    ours = np.array(
        [evaluation_size(height, width, 256) for height, width in found["given"].T.tolist()]
    ).T
    np.testing.assert_array_equal(ours, found["found"])
    assert 2_000 < (ours.min(0) == 255).sum() < 3_000
    assert set(ours.min(0)) == {255, 256}


def test_evaluation_pixels_equal_tensorflows_within_one_level_on_average():
    found = probe("tensorflow", "probes.image_resize_tensorflow.differences")
    assert len(found["mean"]) == 7
    # Rounding to integers alone gives 0.25. The required bound is 1.
    assert (found["mean"] < 0.3).all()
    assert (found["largest"] < 1.0).all()
    assert (found["decoding"] == 0).all()
