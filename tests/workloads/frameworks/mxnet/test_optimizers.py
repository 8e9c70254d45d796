import functools
import json
import os
import subprocess

import pytest

from suite.common import registry
from suite.environments.environment import resolve
from tests.helpers import PROJECT


@functools.cache
def probe():
    """What MXNet's optimizers computed (tests/probes/mxnet_optimizers.py)."""
    environment = resolve({"name": "auto"}, registry.load_framework("mxnet").environments["cpu"])
    command = environment.command(str(PROJECT / "tests" / "probes" / "mxnet_optimizers.py"))
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["sgd", "lars"])
def test_two_contexts_follow_numpy_through_changing_rates(kind):
    found = probe()[kind]
    assert found["weights"] < 1e-5
    assert found["velocities"] < 1e-5
    assert found["contexts_equal"]


@pytest.mark.parametrize("kind", ["sgd", "lars"])
def test_state_comes_back_and_reset_repeats_the_run(kind):
    assert probe()[kind]["state_comes_back"]
    assert probe()[kind]["repeats"]
