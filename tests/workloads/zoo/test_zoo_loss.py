"""The validation loss of the zoo's evaluations, against plain NumPy."""

import numpy as np
import pytest

from tests.workloads.zoo import synthetic_zoo
from workloads.api import Batch


def test_eval_loss_is_the_mean_cross_entropy_of_the_valid_images():
    made = synthetic_zoo.workload("littlecnn", "pytorch", 32)
    random = np.random.default_rng(3)
    logits = random.normal(0, 40, (6, 10)).astype(np.float32)
    labels, valid = np.array([1, 9, 0, 4, 4, 7], np.int32), np.array([True, True, False, True, True, True])
    batch = Batch({"label": labels, "valid": valid}, 5.0, 5.0, 5)
    results = made.measure(batch, {"logits": logits})
    wide = logits.astype(np.float64)
    shares = np.exp(wide - np.logaddexp.reduce(wide, axis=1, keepdims=True))
    expected = -np.log(shares[np.arange(6), labels])[valid]
    assert results["loss"] == pytest.approx(expected, rel=1e-9)
    made.facts = type(made.facts)(5, 5, {"classes": 10}, "")
    found = made.score(results)
    assert list(found) == ["top1", "eval_loss"]  # the metric with a target first
    assert found["eval_loss"] == pytest.approx(expected.mean())
    assert found["top1"] == np.mean(np.argmax(logits, axis=1)[valid] == labels[valid])
