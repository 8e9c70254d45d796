"""Crops, colours, priors, matches and weights are the same in every framework's environment."""

import json
import os
import subprocess
import sys

import pytest

from suite.common import registry
from suite.environments.environment import resolve
from tests.helpers import PROJECT


@pytest.mark.parametrize("framework", [None, "pytorch", "tensorflow", "mxnet"])
def test_digests(framework):
    script = str(PROJECT / "tests/golden/detection.py")
    command = [sys.executable, script]
    if framework:
        try:
            environment = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
        except ValueError as error:
            pytest.skip(f"no environment with {framework}: {error}")
        command = environment.command(script)
    variables = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=variables)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == json.loads((PROJECT / "tests/golden/detection.json").read_text())
