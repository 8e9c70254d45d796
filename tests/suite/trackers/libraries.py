"""Libraries of the trackers, which `make build/trackers/NAME/.ready` installs into folders."""

import json
import subprocess
import sys

import pytest

from tests.helpers import PROJECT, suite, suite_env

FOLDER = PROJECT / "build" / "trackers"


def needs(name):
    """Return a mark that skips tests if the library of a tracker is not installed."""
    ready = FOLDER / name / ".ready"
    return pytest.mark.skipif(not ready.exists(), reason=f"make {ready.relative_to(PROJECT)}")


def export(tmp_path, name, *arguments, **extra):
    """Run `suite export NAME …` with the library and return the last printed line."""
    return suite(
        tmp_path, "export", name, *arguments, exits=0, PYTHONPATH=path(name), **extra
    ).stdout.splitlines()[-1]


def path(name):
    """Return a PYTHONPATH with the library and this checkout."""
    return f"{FOLDER / name}:{PROJECT}"


def probed(tmp_path, name, probe, *arguments, **extra):
    """Run a module of tests/probes with the library and return its JSON output."""
    command = [sys.executable, "-m", f"tests.probes.{probe}", *map(str, arguments)]
    environment = suite_env(tmp_path, PYTHONPATH=path(name), **extra)
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
