import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.common.schedules import (
    cosine_decay,
    exponential_warm_up,
    polynomial_decay,
    step_decay,
    warm_up_from,
    warmup,
)


def test_warm_up_is_linear_from_zero_and_ends():
    assert [warmup(step, 4, 0.8) for step in range(6)] == [
        0.0,
        0.2,
        0.4,
        pytest.approx(0.6),
        None,
        None,
    ]
    assert warmup(0, 0, 0.8) is None


def test_warm_up_starts_from_a_share_of_the_rate():
    assert [warm_up_from(step, 4, 0.8, 0) for step in range(4)] == pytest.approx(
        [0.0, 0.2, 0.4, 0.6]
    )
    assert [warm_up_from(step, 4, 0.8, 1) for step in range(4)] == pytest.approx(
        [0.4, 0.5, 0.6, 0.7]
    )
    assert warm_up_from(4, 4, 0.8, 1) is None
    assert warm_up_from(0, 0, 0.8, 1) is None


def test_exponential_warm_up_grows_by_equal_factors():
    found = [exponential_warm_up(step, 4, 0.8, 0.01) for step in range(6)]
    assert found[:4] == pytest.approx([0.008, 0.008 * math.sqrt(10), 0.08, 0.08 * math.sqrt(10)])
    assert found[4:] == [0.8, None]
    assert exponential_warm_up(0, 0, 0.8, 0.01) is None


def test_cosine_decay_falls_from_the_rate_to_zero():
    assert [cosine_decay(step, 10, 8, 0.4) for step in (10, 14, 18, 30)] == pytest.approx(
        [0.4, 0.2, 0, 0]
    )
    assert cosine_decay(12, 10, 8, 1.0) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_step_decay_changes_at_its_boundaries():
    assert [step_decay(step, [3, 5], 1.0, 0.1) for step in (0, 2, 3, 4, 5, 99)] == [
        1.0, 1.0, pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.01), pytest.approx(0.01)
    ]  # fmt: skip


@given(
    st.integers(0, 1000),
    st.integers(1, 1000),
    st.floats(0.1, 20),
    st.floats(0, 0.01),
    st.sampled_from([1.0, 2.0]),
)
def test_polynomial_decay_equals_its_closed_form(first, steps, base, end, power):
    assert polynomial_decay(first, first, steps, base, end, power) == pytest.approx(base)
    assert polynomial_decay(first + steps, first, steps, base, end, power) == end
    assert polynomial_decay(first + 2 * steps, first, steps, base, end, power) == end
    middle = first + steps // 2
    share = 1 - (steps // 2) / steps
    assert polynomial_decay(middle, first, steps, base, end, power) == pytest.approx(
        end + (base - end) * math.pow(share, power)
    )
