"""The trackers' libraries, each in a folder beside the controller's environment:
`make build/trackers/NAME/.ready`.
"""

import json
import subprocess
import sys

import pytest

from tests.helpers import PROJECT, suite, suite_env

FOLDER = PROJECT / "build" / "trackers"


def needs(name):
    """Marks tests of a library, which are skipped where it is absent."""
    ready = FOLDER / name / ".ready"
    return pytest.mark.skipif(not ready.exists(), reason=f"make {ready.relative_to(PROJECT)}")


def export(tmp_path, name, *words, **extra):
    """`suite export NAME …` with the library; the last line that it prints."""
    return suite(
        tmp_path, "export", name, *words, exits=0, PYTHONPATH=path(name), **extra
    ).stdout.splitlines()[-1]


def path(name):
    """PYTHONPATH with the library and this checkout."""
    return f"{FOLDER / name}:{PROJECT}"


def probed(tmp_path, name, probe, *words, **extra):
    """What a module of tests/probes prints as JSON, in a Python that has the library."""
    command = [sys.executable, "-m", f"tests.probes.{probe}", *map(str, words)]
    environment = suite_env(tmp_path, PYTHONPATH=path(name), **extra)
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
