"""MXNet's optimizers against NumPy in float64, on one and two contexts (tests/probes/mxnet_optimizers.py)."""

import pytest

from tests.frameworks_probe import probe_json

OPTIMIZERS = ("sgd", "sgdinside", "lars", "larsoutside", "adam", "rmsprop")
CASES = ("plain", "clip", "rules", "frozen", "static", "dynamic", "all")
OVERFLOW = 4
TOLERANCE = 2e-6
"""Ten steps of rounding to float32, 6e-8 each."""


@pytest.fixture(params=[f"{kind}/{case}/{count}" for kind in OPTIMIZERS for case in CASES for count in (1, 2)])
def found(request):
    return request.param, probe_json("mxnet", "probes.mxnet_optimizers.cases")[request.param]


def test_ten_steps_follow_numpy_through_changing_rates(found):
    _, of_case = found
    assert of_case["weights"] < TOLERANCE
    assert of_case["state"] < TOLERANCE
    assert of_case["unequal"] == []


def test_an_overflow_on_one_context_skips_the_step_on_all(found):
    """With the rate inside there is no velocity yet at the first step, whose rate is 0: nothing changes there either."""
    name, of_case = found
    at_rest = [0] if name.startswith(("lars/", "sgdinside/")) else []
    overflows = [OVERFLOW] if "dynamic" in name or "all" in name else []
    assert of_case["skipped"] == at_rest + overflows


def test_what_fp16_holds_does_not_shrink_with_the_devices(found):
    """A batch of 8 samples of each: the backward pass starts from its scale over 8 on any number of devices."""
    name, of_case = found
    _, case, count = name.split("/")
    scale = {"static": 128, "dynamic": 1_024, "all": 1_024}.get(case)
    assert of_case["seed"] == (scale / 8 if scale else 1 / (8 * int(count)))


def test_host_waits_for_no_device_during_a_step(found):
    assert found[1]["waits"] == 0


def test_state_comes_back_and_reset_repeats_the_run(found):
    assert found[1]["comes_back"]
    assert found[1]["repeats"]
