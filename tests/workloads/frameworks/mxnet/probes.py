"""Probes of MXNet's own parts: scripts of tests/probes that print JSON."""

import functools
import json
import os
import subprocess

from suite.common import registry
from suite.environments.environment import resolve
from tests.helpers import PROJECT


@functools.cache
def probe(script):
    """What a script prints last, run once in MXNet's environment."""
    environment = resolve({"name": "auto"}, registry.load_framework("mxnet").environments["cpu"])
    command = environment.command(str(PROJECT / "tests" / "probes" / script))
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "MXNET_CPU_TEMP_COPY": "1", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
