"""Tests of evaluations: when a target is reached."""

import pytest

from suite.worker.evaluation import targets_reached


@pytest.mark.parametrize(
    ("scores", "falling", "reached"),
    [
        ({"loss": 3.3}, ("loss",), True),
        ({"loss": 3.3000001}, ("loss",), False),
        ({"loss": float("nan")}, ("loss",), False),
        ({"loss": 3.2}, (), False),
        ({"loss": 3.4}, (), True),
    ],
)
def test_target_of_falling_metric_is_an_upper_bound(scores, falling, reached):
    assert targets_reached(scores, {"loss": 3.3}, falling) is reached
