"""The generic MXNet trainer with small models against NumPy in float64 (tests/probes/mxnet_trainer.py)."""

import json
import os
import subprocess

import pytest

from suite.common import registry
from suite.environments.environment import resolve
from tests.frameworks_probe import probe_json
from tests.helpers import PROJECT

CASES = ("sgd", "whole", "lars", "adam", "rmsprop", "frozen", "unused", "dynamic_sgd", "dynamic_adam")
TOLERANCE = 5e-5
"""MXNet's logarithms of softmax and their gradients are 1e-6 off in float32; ten steps carry that on."""


@pytest.fixture(params=[f"{case}/{devices}" for case in CASES for devices in (1, 2)])
def tokens(request):
    return request.param, probe_json("mxnet", "probes.mxnet_trainer.cases")["tokens"][request.param]


def test_tokens_of_two_lengths_follow_numpy(tokens):
    _, found = tokens
    assert found["losses"] < TOLERANCE
    assert found["weights"] < TOLERANCE
    assert found["state"] < TOLERANCE
    assert found["predicted"] < 1e-6
    assert found["contexts_equal"]


def test_an_overflow_on_one_context_skips_the_step_on_both(tokens):
    name, found = tokens
    assert (4 in found["skipped"]) == name.startswith("dynamic")


def test_frozen_parameters_have_no_gradient(tokens):
    name, found = tokens
    frozen = ["embedding"] if name.startswith("frozen") else []
    assert found["without_gradient"] == found["unchanged"] == frozen
    assert found["gradient_values"] == (28 if frozen else 83)


def test_graphs_are_compiled_for_each_shape_unless_they_depend_on_the_data(tokens):
    name, found = tokens
    assert found["programs"] == (0 if name.startswith("unused") else 4)


def test_warm_up_leaves_no_trace_and_state_comes_back(tokens):
    assert tokens[1]["no_trace"]
    assert tokens[1]["comes_back"]


def test_modes_without_updates_change_nothing():
    found = probe_json("mxnet", "probes.mxnet_trainer.cases")["modes"]
    assert found["forward"] == pytest.approx(found["wanted"], rel=1e-5)
    assert found["forward_backward"] == found["forward"]
    assert found["gradients"] < 1e-5
    assert found["unchanged"]


def test_warm_up_compiles_what_the_mode_runs():
    found = probe_json("mxnet", "probes.mxnet_trainer.cases")["modes"]
    assert found["programs_forward"] == found["programs_forward_backward"] == [False, False, True, True]
    assert found["programs_inference"] == [False, False]


def test_host_waits_for_no_device_during_a_step():
    assert probe_json("mxnet", "probes.mxnet_trainer.cases")["modes"]["waits"] == []


def test_a_batch_that_does_not_divide_into_pieces_is_refused_in_one_line():
    message = probe_json("mxnet", "probes.mxnet_trainer.cases")["modes"]["uneven"]
    assert message.startswith("accumulation_steps=3: a device's batch of 4 cannot be cut into 3 equal pieces; type ")
    assert "\n" not in message


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("devices", [1, 2])
def test_running_variances_are_unbiased_by_each_steps_own_size(devices, pieces):
    found = probe_json("mxnet", "probes.mxnet_trainer.cases")["images"][f"{devices}/{pieces}"]
    assert found["difference"] < 2e-6
    assert found["no_trace"]


@pytest.mark.parametrize(("words", "added"), [((), [1, 1, 0]), (("trainer",), [0, 1, 0])])
def test_only_the_contexts_worker_has_threads_of_openmp(words, added):
    """Without a trainer the calling thread gets one for a copy: the first case shows that the second can fail."""
    environment = resolve({"name": "auto"}, registry.load_framework("mxnet").environments["cpu"])
    command = environment.command("-m", "tests.probes.mxnet_threads", *words)
    variables = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1]) == added


@pytest.mark.parametrize("workload", ["gnmt", "maskrcnn", "ncf", "resnet50", "ssd", "transformer"])
def test_constructors_allocate_nothing(workload):
    by_constructor, after_setup = probe_json("mxnet", "probes.mxnet_trainer.cases")["build"][workload]
    assert by_constructor == 0
    assert after_setup > 100
