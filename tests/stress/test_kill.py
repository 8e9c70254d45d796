"""A round of kill.py for each kind of victim by default, fifty in all with `make test-full`."""

import json
import subprocess
import sys

import pytest

from tests.helpers import PROJECT


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.full)])
def test_nothing_is_lost(rounds):
    command = [sys.executable, str(PROJECT / "tests" / "stress" / "kill.py"), "--rounds", str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rounds"] == rounds
