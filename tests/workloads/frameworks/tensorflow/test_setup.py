"""Clock v0.5 times setup: a trainer's constructor leaves variables, tensors and the device's context to it."""

import json
import os
import subprocess

import pytest

from tests.frameworks_probe import command
from tests.helpers import PROJECT


@pytest.mark.parametrize("workload", ["ncf", "resnet50", "ssd"])
def test_constructor_holds_nothing_on_the_device(workload):
    done = subprocess.run(
        command("tensorflow", "tensorflow_setup.py", workload),
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["constructed"], found["started"]) == (0, False)
    # Seen where they are: a parameter, two moments or a velocity, and the loss.
    assert found["built"] > 20
    assert found["started_by_setup"]
