"""Evaluation pixels are those of the reference's TensorFlow."""

from tests.frameworks_probe import probe


def test_evaluation_pixels_are_tensorflows_within_one_level_on_the_mean():
    found = probe("tensorflow", "probes.image_resize_tensorflow.differences")
    assert len(found["mean"]) == 7
    assert (found["mean"] < 0.3).all()  # rounding to integers alone gives 0.25; the bound asked for is 1
    assert (found["largest"] < 1.0).all()
    assert (found["decoding"] == 0).all()
