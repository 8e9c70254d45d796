"""Evaluation pixels are those of TensorFlow's present resize; the reference called its legacy one
(docs/how-to/prepare_data.md).
"""

import numpy as np

from tests.frameworks_probe import probe
from workloads.common.images.resize import evaluation_size


def test_evaluation_sizes_are_the_references():
    """Computed by TensorFlow in float32; about one in eight has a shorter side of 255."""
    found = probe("tensorflow", "probes.image_resize_tensorflow.sizes")
    ours = np.array(
        [evaluation_size(height, width, 256) for height, width in found["given"].T.tolist()]
    ).T
    np.testing.assert_array_equal(ours, found["found"])
    assert 2_000 < (ours.min(0) == 255).sum() < 3_000
    assert set(ours.min(0)) == {255, 256}


def test_evaluation_pixels_are_tensorflows_within_one_level_on_the_mean():
    found = probe("tensorflow", "probes.image_resize_tensorflow.differences")
    assert len(found["mean"]) == 7
    assert (
        found["mean"] < 0.3
    ).all()  # rounding to integers alone gives 0.25; the bound asked for is 1
    assert (found["largest"] < 1.0).all()
    assert (found["decoding"] == 0).all()
