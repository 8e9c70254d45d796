"""Every optimizer in every framework, compared with float64 NumPy.

The cases cover clipping, rules by parameter, accumulation, and loss scaling.
"""

import functools
import math

import numpy as np
import pytest

from suite.launch.registered_frameworks import registered_frameworks
from tests.frameworks_probe import below, probe, probe_together, relative
from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.devices import FRAMEWORKS, on_devices
from tests.workloads.frameworks.synthetic_updates import (
    OPTIMIZERS,
    OVERFLOW,
    SHAPES,
    STEPS,
    Updates,
    skipping,
)

COMPILED = [
    f"{name}-{skipping(name, 'tensorflow')}-compiled"
    for name in ("sgd", "lars", "adam", "adamw", "rmsprop")
]
ON_TWO = ["sgd-plain", "sgd-pieces", "sgd-skipped"]
RUNS = {
    **{(framework, 1): synthetic_updates.cases(framework) for framework in FRAMEWORKS},
    **{
        (framework, 2): [*ON_TWO, "adam-skipped", "adamw-skipped"]
        for framework in ("pytorch", "jax")
    },
    ("tensorflow", 2): [*ON_TWO, "adam-everything", "adamw-everything"],
    ("mxnet", 2): synthetic_updates.cases("mxnet"),
}
RUNS["tensorflow", 1] += COMPILED
"""Cases for each framework and number of devices.

On two devices, MXNet's optimizers divide the work. All other frameworks divide it before.
"""
TOLERANCE = 3e-6
"""Tolerance relative to the largest value of an array.

fp32 rounds to 6e-8. Ten steps of sums over samples, norms, and velocities accumulate the error.
"""


def chosen(condition=lambda case: True):
    """Parametrize `framework`, `devices`, and `case` with the runs whose case meets a condition."""
    runs = [(*run, case) for run, cases in RUNS.items() for case in cases if condition(case)]
    return pytest.mark.parametrize(("framework", "devices", "case"), runs)


def computed(framework, devices, case):
    found = on_devices(
        framework, devices, "probes.small_trainers.updates", *RUNS[framework, devices]
    )
    return [of_process[case] for of_process in found]


def workload_of(case, replicas=1):
    optimizer, variant, *_ = case.split("-")
    return Updates(optimizer, variant, replicas)


@functools.cache
def expected(optimizer, variant, replicas):
    return synthetic_updates.expected(Updates(optimizer, variant, replicas))


@chosen()
def test_ten_steps_follow_float64_and_all_processes_have_equal_states(framework, devices, case):
    """Check the final state, which was saved and loaded after the fifth step.

    With two replicas, only the gradients of the second replica overflow.
    """
    found = [below(arrays, "last/") for arrays in computed(framework, devices, case)]
    wanted = expected(*case.split("-")[:2], devices)
    assert set(found[0]) == set(wanted)
    for name, value in wanted.items():
        assert found[0][name].dtype == np.float32
        assert found[0][name].shape == value.shape, name
        assert np.abs(found[0][name] - value).max() <= TOLERANCE * max(np.abs(value).max(), 1e-3), (
            name
        )
        for state in found[1:]:
            np.testing.assert_array_equal(state[name], found[0][name])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("optimizer", ["sgd", "lars", "adam", "adamw"])
def test_the_error_of_an_optimizer_is_not_above_its_documented_value(optimizer, framework):
    """Allow 1.5 times the documented error, because CPUs may round in a different order."""
    largest = 0.0
    runs = [
        (devices, case)
        for (name, devices), cases in RUNS.items()
        for case in cases
        if name == framework and OPTIMIZERS[case.split("-")[0]].name == optimizer
    ]
    for devices, case in runs:
        found = below(computed(framework, devices, case)[0], "last/")
        wanted = expected(*case.split("-")[:2], devices)
        largest = max(
            largest,
            *(relative(found[name], value) for name, value in wanted.items() if value.any()),
        )
    assert largest <= 1.5 * registered_frameworks()[framework].max_error_vs_float64[optimizer]


@chosen()
def test_warm_up_leaves_no_trace(framework, devices, case):
    workload = workload_of(case)
    weights = dict(workload.initial_weights(1))
    for name, value in below(computed(framework, devices, case)[0], "fresh/").items():
        wanted = (
            workload.updates.loss_scaling.start if name == "loss_scale" else weights.get(name, 0)
        )
        np.testing.assert_array_equal(value, np.broadcast_to(wanted, value.shape))


@chosen(lambda case: "skipped" in case)
def test_overflow_of_one_replica_changes_only_the_scale(framework, devices, case):
    for found in computed(framework, devices, case):
        before, after = below(found, "before/"), below(found, "middle/")
        assert after.pop("loss_scale") == before.pop("loss_scale") / 2
        assert after.pop("loss_scale.clean_steps") == 0 < before.pop("loss_scale.clean_steps")
        for name, value in before.items():
            np.testing.assert_array_equal(after[name], value)
        if "step" in after:
            assert (after["step"], found["last/step"]) == (OVERFLOW, STEPS - 1)


@chosen()
def test_frozen_parameters_are_constant_have_no_state_and_are_not_reduced(framework, devices, case):
    found, workload = computed(framework, devices, case)[0], workload_of(case)
    weights = dict(workload.initial_weights(1))
    frozen = [name for name in SHAPES if workload.parameter_rule(name).frozen]
    for name in frozen:
        np.testing.assert_array_equal(found[f"last/{name}"], weights[name])
        assert not [key for key in below(found, "last/") if key.endswith(f".{name}")]
    trained = [math.prod(shape) for name, shape in SHAPES.items() if name not in frozen]
    assert found["traffic"].tolist() == [4 * sum(trained), len(trained)]


def test_pytorch_sums_gradients_once_in_each_step_however_many_pieces():
    cases = [
        f"{optimizer}-{variant}" for optimizer, variant in (("sgd", "pieces"), ("adam", "skipped"))
    ]
    for found in probe_together("pytorch", 2, "probes.small_pytorch.reduced", *cases):
        for case in cases:
            rules = workload_of(case).parameter_rule
            assert found[case] == sum(
                math.prod(shape) for name, shape in SHAPES.items() if not rules(name).frozen
            )


@pytest.mark.parametrize(("framework", "devices"), [("pytorch", 1), ("mxnet", 2)])
def test_host_waits_for_no_device_during_a_step(framework, devices):
    asked = [f"{name}-{skipping(name, framework)}" for name in OPTIMIZERS]
    found = probe(framework, "probes.small_trainers.waits", framework, devices, *asked)
    assert {name: waits.tolist() for name, waits in found.items()} == {name: [] for name in asked}


def test_fp16_gradients_do_not_shrink_with_the_number_of_mxnets_contexts():
    """Check the gradient with which the backward pass starts, for batches of 8 samples per context.

    With loss scaling it is the scale / 8 for any number of contexts.
    """
    found = probe("mxnet", "probes.small_mxnet.seeds")
    assert [found[f"none/{count}"] for count in (1, 2)] == [1 / 8, 1 / 16]
    assert [found[f"static/{count}"] for count in (1, 2)] == [128 / 8, 128 / 8]


# In JAX every optimizer can skip steps.
@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "jax"])
def test_an_optimizer_that_cannot_skip_steps_rejects_a_dynamic_scale(framework):
    message = str(probe(framework, "probes.small_trainers.setup_checks", framework)["skipping"])
    assert message.startswith(
        "optimizer=rmsprop: this framework cannot skip steps of this optimizer"
    )


def test_cases_clip_overflow_and_grow():
    """Check that clipping, overflow, and growth of the scale happen in the cases."""
    state = expected("sgd", "skipped", 1)
    assert expected("adam", "skipped", 1)["step"] == STEPS - 1
    assert 0 < OVERFLOW < STEPS - 1
    # The scale is at its maximum after step 2, halved by step 4, and doubled after step 7. Two
    # clean steps follow.
    assert (state["loss_scale"], state["loss_scale.clean_steps"]) == (2.0**11, 2)
    clip = Updates("sgd", "clip")
    means = [
        [value.mean(0).reshape(-1) for value in clip.batch(step, 0).arrays.values()]
        for step in range(STEPS)
    ]
    norms = [np.linalg.norm(np.concatenate(arrays)) for arrays in means]
    assert min(norms) < clip.updates.clip_norm < max(norms)
