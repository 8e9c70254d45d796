"""The plain loss against values worked out by hand, and its gradient against differences."""

import math

import numpy as np
import pytest

from tests.workloads.ssd import ssd_loss_numpy as plain


def test_by_hand():
    """Six priors, two classes: one positive, so three of five negatives count."""
    logits = np.zeros((1, 3, 6))
    logits[0, 0] = [0, 0, 1, 2, 3, -1]
    labels = np.array([[2, 0, 0, 0, 0, 0]])
    offsets, targets = np.zeros((1, 4, 6)), np.zeros((1, 4, 6))
    targets[0, :, 0] = [0.5, -2, 0, 1]
    offsets[0, :, 1:] = 99  # the offsets of background do not count
    entropy = [math.log(math.exp(z) + 2) - z for z in logits[0, 0]]
    expected = entropy[0] + entropy[5] + entropy[1] + entropy[2] + 0.125 + 1.5 + 0.5
    assert plain.loss(logits, offsets, labels, targets) == pytest.approx(expected)


def test_no_positives_no_loss_and_a_mean_over_all_images():
    rng = np.random.default_rng(0)
    logits, offsets = rng.normal(size=(2, 4, 9)), rng.normal(size=(2, 4, 9))
    labels = np.zeros((2, 9), int)
    targets = np.zeros((2, 4, 9))
    assert plain.loss(logits, offsets, labels, targets) == 0
    labels[0, :2] = 1
    assert plain.loss(logits, offsets, labels, targets) == pytest.approx(
        plain.loss(logits[:1], offsets[:1], labels[:1], targets[:1]) / 2
    )


def test_when_negatives_run_out_all_count_once():
    logits = np.zeros((1, 2, 4))
    labels = np.array([[1, 1, 1, 0]])
    zeros = np.zeros((1, 4, 4))
    assert plain.loss(logits, zeros, labels, zeros) == pytest.approx(4 * math.log(2) / 3)


def test_gradients_are_differences():
    rng = np.random.default_rng(3)
    logits, offsets = rng.normal(size=(2, 4, 12)), 1.5 * rng.normal(size=(2, 4, 12))
    labels, targets = rng.integers(0, 4, (2, 12)) * (rng.random((2, 12)) < 0.3), rng.normal(size=(2, 4, 12))
    _, by_logits, by_offsets = plain.loss_and_gradients(logits, offsets, labels, targets)
    for array, gradient in ((logits, by_logits), (offsets, by_offsets)):
        for place in [(0, 0, 0), (1, 2, 5), (0, 3, 11), (1, 1, 7)]:
            keep = array[place]
            values = []
            for change in (1e-6, -1e-6):
                array[place] = keep + change
                values.append(plain.loss(logits, offsets, labels, targets))
            array[place] = keep
            assert (values[0] - values[1]) / 2e-6 == pytest.approx(gradient[place], abs=1e-6)
