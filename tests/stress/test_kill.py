"""A round of kill.py by default; two hundred of all kinds with
`make test-full`.
"""

import json
import subprocess
import sys

import pytest

from tests.helpers import PROJECT

OF = ("--seed=2", "--framework=pytorch", "--framework=tensorflow", "--framework=mxnet")
MANY = [pytest.param(170 if words == OF[0] else 10, words, marks=pytest.mark.full) for words in OF]


@pytest.mark.parametrize(("rounds", "words"), [(1, "--seed=1"), *MANY])
def test_nothing_is_lost(rounds, words):
    command = [sys.executable, "-m", "tests.stress.kill", f"--rounds={rounds}", words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5000, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert (counts["rounds"], counts["continued"] > 0 or rounds < 100) == (rounds, True)
