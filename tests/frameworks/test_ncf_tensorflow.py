"""NeuMF in TensorFlow: compiled in pieces as plain, two processes as one, also where one has nothing but padding."""

import json
import os
import subprocess

import numpy as np
import pytest

from suite.common import registry
from suite.environments.environment import resolve
from suite.launch.base import free_ports
from tests.helpers import PROJECT

PROBE = str(PROJECT / "tests" / "frameworks" / "ncf_tensorflow_probe.py")


def probe(folder, processes, *arguments):
    """What every process of one probe found."""
    environment = resolve({"name": "auto"}, registry.load_framework("tensorflow").environments["cpu"])
    addresses = [f"127.0.0.1:{port}" for port in free_ports(processes)]
    started = []
    for process in range(processes):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": process}}
        variables = {
            **os.environ, "PYTHONPATH": str(PROJECT), "RANK": str(process), "WORLD_SIZE": str(processes),
            "TF_CONFIG": json.dumps(task), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = environment.command(PROBE, str(folder), *arguments)
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, env=variables, text=True, stdout=pipe, stderr=pipe))
    found = []
    try:
        for one in started:
            output, errors = one.communicate(timeout=900)
            assert one.returncode == 0, errors[-3000:]
            found.append(json.loads(output.splitlines()[-1]))
    finally:
        for one in started:
            one.kill()
    return found


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return probe(tmp_path_factory.mktemp("single"), 1)[0]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return probe(tmp_path_factory.mktemp("pair"), 2)


def test_compiled_in_pieces_it_computes_the_same(single):
    graph, compiled = single["graph"], single["compiled"]
    np.testing.assert_allclose(compiled["losses"], graph["losses"], rtol=1e-6)
    np.testing.assert_allclose(compiled["logits"], graph["logits"], atol=1e-6, rtol=0)
    for found in (graph, compiled):
        assert found["traces"] == 2
        assert found["forward"] == pytest.approx(found["losses"][0], rel=1e-6)


def test_two_processes_compute_what_one_computes(single, pair):
    assert len(single["graph"]["losses"]) >= 10
    for found in pair:
        np.testing.assert_allclose(found["graph"]["losses"], single["graph"]["losses"], rtol=1e-6)
        assert found["graph"]["traces"] == 2


def test_process_0_gathers_whatever_arrays_the_others_have(single, pair):
    first = {"hit": [True, False, True], "number": [0.0, 1.0]}
    assert pair[0]["gathered"] == [first, {"hit": [True] * 7}]
    assert pair[1]["gathered"] is None
    assert single["gathered"] == [first]
    assert [found["broadcast"] for found in pair] == [2.5, 2.5]


def test_every_process_notices_a_loss_that_is_no_number(single, pair):
    assert single["diverges"]
    assert all(found["diverges"] for found in pair)


def test_bf16_multiplies_in_bf16_and_keeps_weights_in_fp32(single, tmp_path):
    (low,) = probe(tmp_path, 1, "bf16")
    difference = np.abs(np.array(low["graph"]["losses"]) / single["graph"]["losses"] - 1).max()
    assert 1e-7 < difference < 5e-3
