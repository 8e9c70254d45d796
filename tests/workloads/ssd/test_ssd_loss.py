"""The plain loss, compared with values computed by hand.

test_ssd_frameworks.py compares its gradients with those of the frameworks.
"""

import math

import numpy as np
import pytest

from tests.workloads.ssd import ssd_loss_numpy as plain


def test_loss_by_hand():
    """Check six priors and two classes: one positive, so three of five negatives count."""
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
    logits, offsets, targets, labels = (
        *rng.normal(size=(2, 2, 4, 9)),
        np.zeros((2, 4, 9)),
        np.zeros((2, 9), int),
    )
    assert plain.loss(logits, offsets, labels, targets) == 0
    labels[0, :2] = 1
    alone = plain.loss(logits[:1], offsets[:1], labels[:1], targets[:1])
    assert plain.loss(logits, offsets, labels, targets) == pytest.approx(alone / 2)


def test_all_negatives_count_if_there_are_too_few():
    zeros = np.zeros((1, 4, 4))
    assert plain.loss(zeros[:, :2], zeros, np.array([[1, 1, 1, 0]]), zeros) == pytest.approx(
        4 * math.log(2) / 3
    )
