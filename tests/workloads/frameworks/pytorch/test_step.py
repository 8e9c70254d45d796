"""What can be said of a training step on a GPU without one: nothing waits for the device, convolutions are channels-last.

It says nothing about speed, nor that a GPU computes the same.
"""

import functools
import json
import os
import subprocess

import pytest

from suite.launch.base import free_ports
from tests.frameworks_probe import command
from tests.helpers import PROJECT

CASES = [("resnet50", "fp32"), ("resnet50", "bf16"), ("ssd", "fp32"), ("ssd", "bf16")]
TYPES = {"fp32": "torch.float32", "bf16": "torch.bfloat16"}


@functools.cache
def probe(workload, precision):
    alone = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "RANK": "0", "WORLD_SIZE": "1"}
    done = subprocess.run(
        command("pytorch", "pytorch_step.py", workload, precision),
        capture_output=True, text=True, timeout=300, env={**os.environ, **alone, "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("workload", "precision"), CASES)
def test_host_reads_no_value_during_a_step(workload, precision):
    assert probe(workload, precision)["waits"] == []


@pytest.mark.parametrize(("workload", "precision"), CASES)
def test_convolutions_are_channels_last_and_narrow(workload, precision):
    found = probe(workload, precision)["convolutions"]
    assert len(found) > 10
    assert found == [[TYPES[precision], True, True, True]] * len(found)
