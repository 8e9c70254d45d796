"""Child processes end with their parent, and do not get the secret of the launch."""

import os
import signal
import subprocess
import sys

import pytest

from suite.launch import children

CALL = """
import os
from suite.launch.children import die_with_parent
parents = iter({parents})
os.getppid = lambda: next(parents)
die_with_parent()
"""


@pytest.mark.parametrize(
    ("parents", "code"), [((7, 1), -signal.SIGKILL), ((7, 300), -signal.SIGKILL), ((1, 1), 0)]
)
def test_a_process_that_has_lost_its_parent_ends_at_once(parents, code):
    assert subprocess.run([sys.executable, "-c", CALL.format(parents=parents)]).returncode == code


def test_no_process_of_a_run_has_the_secret(tmp_path):
    child = children.start(
        ["env"], {**os.environ, children.TOKEN: "c0ffee", "KEPT": "yes"}, tmp_path / "log", tmp_path
    )
    assert child.wait(60) == 0
    text = (tmp_path / "log").read_text()
    assert "KEPT=yes" in text
    assert "c0ffee" not in text
