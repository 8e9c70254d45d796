"""What can be said of updates and constructors on a GPU without one: they wait for nothing, they allocate nothing."""

import functools
import json
import os
import subprocess

import pytest

from suite.launch.base import free_ports
from tests.frameworks_probe import command
from tests.helpers import PROJECT


@functools.cache
def probe():
    alone = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "RANK": "0", "WORLD_SIZE": "1"}
    done = subprocess.run(
        command("pytorch", "pytorch_device.py"),
        capture_output=True, text=True, timeout=600, env={**os.environ, **alone, "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("optimizer", ["sgd", "lars", "adam", "rmsprop"])
def test_update_clipped_and_scaled_waits_for_nothing(optimizer):
    assert probe()["updates"][optimizer] == {"waits": [], "copies": []}


@pytest.mark.parametrize("workload", ["ncf", "resnet50", "ssd"])
def test_constructor_makes_no_tensor_and_no_context(workload):
    on_cpu, on_cuda, in_setup = probe()["constructors"][workload]
    assert on_cpu == on_cuda == 0
    assert in_setup > 1_000
