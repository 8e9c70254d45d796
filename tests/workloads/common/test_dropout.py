"""Dropout masks: share of zeros, independence of batch and padding, and a golden digest."""

import hashlib

import numpy as np
import pytest

from workloads.common.dropout import keys, multipliers

KEYS = keys(1, 0, np.arange(64))


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_share_of_dropped_values_is_the_rate(rate):
    found = multipliers(KEYS, "source", 20, 400, rate)
    assert np.unique(found).tolist() == pytest.approx([0, 1 / (1 - rate)])
    deviation = (rate * (1 - rate) / found.size) ** 0.5
    assert (found == 0).mean() == pytest.approx(rate, abs=5 * deviation)
    assert found.mean() == pytest.approx(1, abs=0.01)


def test_the_mask_of_a_sentence_depends_neither_on_its_batch_nor_on_padding():
    whole = multipliers(KEYS, "source", 20, 40, 0.2)
    assert whole.shape == (20, 64, 40)
    assert whole.dtype == np.float32
    some = multipliers(KEYS[[5, 3]], "source", 13, 40, 0.2)
    np.testing.assert_array_equal(some, whole[:13, [5, 3]])


def test_masks_differ_by_sentence_side_epoch_and_seed():
    different = (
        (KEYS[1:2], "source"),
        (KEYS[:1], "target"),
        *((keys(seed, epoch, np.arange(1)), "source") for seed, epoch in ((1, 1), (2, 0))),
    )
    first, *masks = (
        multipliers(key, side, 10, 400, 0.2) for key, side in ((KEYS[:1], "source"), *different)
    )
    for mask in masks:
        # Independent masks agree in 0.8² + 0.2² of their values.
        assert (first == mask).mean() == pytest.approx(0.68, abs=0.04)


def test_neighboring_values_are_dropped_independently():
    dropped = (multipliers(KEYS, "source", 20, 400, 0.2) == 0).astype(float) - 0.2
    for axis in range(3):
        along = np.moveaxis(dropped, axis, 0)
        near = along[1:] * along[:-1]
        assert abs(near.mean()) < 5 * 0.16 / near.size**0.5


def test_keys_are_non_negative_and_unique():
    many = keys(7, 3, np.arange(10_000))
    assert many.dtype == np.int64
    assert (many >= 0).all()
    assert len(np.unique(many)) == 10_000


def test_digest():
    """Check that masks are equal in every environment, with any version of NumPy."""
    found = multipliers(keys(11, 2, np.arange(4)), "target", 5, 12, 0.2)
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == "be2ea14613165864"
