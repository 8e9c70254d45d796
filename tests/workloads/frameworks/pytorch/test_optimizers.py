"""Every optimizer, in every variant of clipping, rules, accumulation and loss scaling, against float64 NumPy."""

import math

import numpy as np
import pytest

from tests.frameworks_probe import probe, probe_together
from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic_updates import CASES, FEWER, OPTIMIZERS, OVERFLOW, SHAPES, STEPS, Updates

COMPUTED = "probes.pytorch_optimizers.computed"
DYNAMIC = [case for case in CASES if case.endswith(("dynamic", "everything"))]
TOLERANCE = 3e-6
"""Of the largest value of an array: fp32 rounds to 6e-8, ten steps of sums over samples, norms and velocities add up."""


def by_case(arrays):
    """The probe's arrays by case."""
    found = {}
    for key, value in arrays.items():
        case, _, name = key.partition("/")
        found.setdefault(case, {})[name] = value
    return found


@pytest.fixture(scope="module")
def alone():
    return by_case(probe("pytorch", COMPUTED, *CASES))


@pytest.fixture(scope="module")
def pair():
    return [by_case(found) for found in probe_together("pytorch", 2, COMPUTED, *CASES)]


def workload_of(case, replicas=1):
    return Updates(*case.split("-"), replicas)


def part(found, start):
    """The arrays of a state that was kept under a name; of the last one for an empty name."""
    return {
        name.removeprefix(start): value
        for name, value in found.items()
        if name.startswith(start) and "/" not in name.removeprefix(start)
    }


def check(found, wanted):
    """Same names; values as close as fp32 is."""
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == np.float32
        assert found[name].shape == value.shape, name
        assert np.abs(found[name] - value).max() <= TOLERANCE * max(np.abs(value).max(), 1e-3), name


@pytest.mark.parametrize("case", CASES)
def test_ten_steps_follow_float64(case, alone):
    """The state is saved and loaded after the fifth."""
    check(part(alone[case], ""), synthetic_updates.expected(workload_of(case)))


@pytest.mark.parametrize("case", CASES)
def test_two_replicas_follow_float64_and_have_one_state(case, pair):
    wanted = synthetic_updates.expected(workload_of(case, 2))
    for found in pair:
        check({name: value for name, value in part(found[case], "").items() if name != "reduced"}, wanted)
    for name, value in pair[0][case].items():
        np.testing.assert_array_equal(value, pair[1][case][name])


@pytest.mark.parametrize("case", CASES)
def test_one_all_reduce_in_each_step_without_frozen_parameters(case, pair):
    """However many pieces it is computed in."""
    rules = workload_of(case).parameter_rule
    trained = sum(math.prod(shape) for name, shape in SHAPES.items() if not rules(name).frozen)
    assert all(found[case]["reduced"] == trained for found in pair)


@pytest.mark.parametrize("case", DYNAMIC)
def test_overflow_of_one_replica_changes_the_scale_alone(case, alone, pair):
    """Only the last replica's gradients overflow; where there are two, both skip the step."""
    for found in (alone[case], *(one[case] for one in pair)):
        before, after = part(found, "before/"), part(found, "skipped/")
        assert after.pop("loss_scale") == before.pop("loss_scale") / 2
        assert after.pop("loss_scale.clean_steps") == 0 < before.pop("loss_scale.clean_steps")
        for name, value in before.items():
            np.testing.assert_array_equal(after[name], value)
        if "adam.step" in after:
            assert after["adam.step"] == OVERFLOW
            assert found["adam.step"] == STEPS - 1


@pytest.mark.parametrize("case", CASES)
def test_warm_up_leaves_no_trace(case, alone):
    workload = workload_of(case)
    weights = dict(workload.initial_weights(1))
    for name, value in part(alone[case], "fresh/").items():
        wanted = workload.chosen.loss_scaling.start if name == "loss_scale" else weights.get(name, 0)
        np.testing.assert_array_equal(value, np.broadcast_to(wanted, value.shape))


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name not in FEWER])
def test_frozen_parameters_stay_and_have_no_state(optimizer, alone):
    found = part(alone[f"{optimizer}-frozen"], "")
    weights = dict(Updates(optimizer, "frozen").initial_weights(1))
    np.testing.assert_array_equal(found["b.weight"], weights["b.weight"])
    assert not [name for name in found if name.endswith(".b.weight")]
