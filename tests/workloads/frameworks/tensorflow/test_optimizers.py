"""Every optimizer, in every variant of clipping, rules, accumulation and loss scaling, against float64 NumPy."""

import numpy as np
import pytest

from tests.frameworks_probe import probe, probe_together
from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic_updates import CASES, FEWER, OPTIMIZERS, OVERFLOW, STEPS, Updates

COMPUTED = "probes.tensorflow_optimizers.computed"
COMPILED = [f"{optimizer}-everything-compiled" for optimizer in OPTIMIZERS]
ON_TWO = [f"{optimizer}-{variant}" for optimizer in ("sgd", "adam") for variant in ("plain", "dynamic", "everything")]
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
    return by_case(probe("tensorflow", COMPUTED, *CASES, *COMPILED))


@pytest.fixture(scope="module")
def pair():
    return [by_case(found) for found in probe_together("tensorflow", 2, COMPUTED, *ON_TWO)]


def workload_of(case, replicas=1):
    optimizer, variant, *_ = case.split("-")
    return Updates(optimizer, variant, replicas)


def check(found, wanted):
    """Same names; values as close as fp32 is."""
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == np.float32
        assert found[name].shape == value.shape, name
        assert np.abs(found[name] - value).max() <= TOLERANCE * max(np.abs(value).max(), 1e-3), name


@pytest.mark.parametrize("case", [*CASES, *COMPILED])
def test_ten_steps_follow_float64(case, alone):
    """The state is saved and loaded after the fifth."""
    found = {name: value for name, value in alone[case].items() if not name.startswith("fresh/")}
    check(found, synthetic_updates.expected(workload_of(case)))


@pytest.mark.parametrize("case", ON_TWO)
def test_two_replicas_follow_float64_and_have_one_state(case, pair):
    """Under a dynamic scale only the second replica's gradients overflow; both skip the step."""
    wanted = synthetic_updates.expected(workload_of(case, 2))
    for found in pair:
        check({name: value for name, value in found[case].items() if not name.startswith("fresh/")}, wanted)
    for name, value in pair[0][case].items():
        np.testing.assert_array_equal(value, pair[1][case][name])


@pytest.mark.parametrize("case", CASES)
def test_warm_up_leaves_no_trace(case, alone):
    workload = workload_of(case)
    weights = dict(workload.initial_weights(1))
    for name, value in alone[case].items():
        if name.startswith("fresh/"):
            plain = name.removeprefix("fresh/")
            wanted = workload.chosen.loss_scaling.start if plain == "loss_scale" else weights.get(plain, 0)
            np.testing.assert_array_equal(value, np.broadcast_to(wanted, value.shape))


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name not in FEWER])
def test_frozen_parameters_stay_and_have_no_state(optimizer, alone):
    found = alone[f"{optimizer}-frozen"]
    weights = dict(Updates(optimizer, "frozen").initial_weights(1))
    np.testing.assert_array_equal(found["b.weight"], weights["b.weight"])
    assert not [name for name in found if name.endswith(".b.weight") and name != "fresh/b.weight"]


def test_cases_clip_overflow_and_grow():
    """What the cases are made for happens in them."""
    workload = Updates("sgd", "dynamic")
    state = synthetic_updates.expected(workload)
    assert synthetic_updates.expected(Updates("adam", "dynamic"))["adam.step"] == STEPS - 1
    assert 0 < OVERFLOW < STEPS - 1
    # Grown to the maximum after step 2, halved by step 4, grown after 7; two clean steps since.
    assert (state["loss_scale"], state["loss_scale.clean_steps"]) == (2.0**11, 2)
    clip = Updates("sgd", "clip")
    means = [[value.mean(0).reshape(-1) for value in clip.batch(step, 0).arrays.values()] for step in range(STEPS)]
    norms = [np.linalg.norm(np.concatenate(arrays)) for arrays in means]
    assert min(norms) < clip.chosen.clip_norm < max(norms)
