import math

import numpy as np
import pytest

from workloads.common.networks.initial import TRUNCATED_DEVIATION, draw


@pytest.mark.parametrize(
    ("kind", "deviation"), [("normal", 1.0), ("truncated", 1.0), ("uniform", 1 / math.sqrt(3))]
)
def test_standard_deviation_of_each_kind(kind, deviation):
    values = draw(1, "a", (1000, 300), kind, 0.5) / 0.5
    assert values.dtype == np.float32
    assert abs(values.mean()) < 0.01
    assert values.std() == pytest.approx(deviation, rel=0.01)


def test_truncated_normal_ends_at_two_deviations_of_the_full_normal():
    values = draw(1, "a", (400_000,), "truncated", 1.0)
    assert 1.99 / TRUNCATED_DEVIATION < np.abs(values).max() <= 2 / TRUNCATED_DEVIATION + 1e-6
    # The closed form of a truncated normal's variance is 1 - 2·2·φ(2) / (2Φ(2) - 1).
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    assert (
        pytest.approx(math.sqrt(1 - 4 * density / math.erf(2 / math.sqrt(2))))
        == TRUNCATED_DEVIATION
    )


def test_values_depend_only_on_seed_and_name():
    values = draw(1, "a", (10, 10), "normal", 1.0)
    np.testing.assert_array_equal(values, draw(1, "a", (100,), "normal", 1.0).reshape(10, 10))
    assert not np.array_equal(values, draw(2, "a", (10, 10), "normal", 1.0))
    assert not np.array_equal(values, draw(1, "b", (10, 10), "normal", 1.0))


def test_an_unknown_kind_is_rejected():
    with pytest.raises(ValueError, match="allowed: normal, truncated, uniform"):
        draw(1, "a", (1,), "orthogonal", 1.0)
