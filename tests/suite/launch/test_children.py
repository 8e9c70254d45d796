"""Processes that do not outlive whoever started them."""

import signal
import subprocess
import sys

import pytest

CALL = """
import os
from suite.launch.children import die_with_parent
parents = iter({parents})
os.getppid = lambda: next(parents)
die_with_parent()
"""


@pytest.mark.parametrize(("parents", "code"), [((7, 1), -signal.SIGKILL), ((7, 300), -signal.SIGKILL), ((1, 1), 0)])
def test_whoever_has_lost_its_parent_leaves_at_once(parents, code):
    assert subprocess.run([sys.executable, "-c", CALL.format(parents=parents)]).returncode == code
