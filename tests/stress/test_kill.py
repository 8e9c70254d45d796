"""Run a round of kill.py by default, and 200 rounds of all kinds with `make test-full`."""

import json
import subprocess
import sys

import pytest

from tests.helpers import PROJECT

OPTIONS = ("--seed=2", "--framework=pytorch", "--framework=tensorflow", "--framework=mxnet")
MANY = [
    pytest.param(170 if option == OPTIONS[0] else 10, option, marks=pytest.mark.full)
    for option in OPTIONS
]


@pytest.mark.parametrize(("rounds", "option"), [(1, "--seed=1"), *MANY])
def test_killed_sweeps_lose_no_results(rounds, option):
    command = [sys.executable, "-m", "tests.stress.kill", f"--rounds={rounds}", option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5000, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert (counts["rounds"], counts["continued"] > 0 or rounds < 100) == (rounds, True)
