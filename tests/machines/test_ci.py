"""`.ci/run` installs Debian packages, and runs the tests even if the installation fails."""

import os
import subprocess

import pytest

from tests.helpers import PROJECT

APT_WORKS = 'echo "$@" >> "$ASKED"'
APT_FAILS = 'echo "E: Unable to locate package slurm-client" >&2; exit 100'


@pytest.mark.parametrize(
    ("user", "missing", "apt", "messages"),
    [
        (0, "docker.io\ntini", APT_WORKS, ["installed: docker.io tini"]),
        (
            0,
            "docker.io",
            APT_FAILS,
            ["not installed: docker.io: E: Unable to locate package slurm-client; "],
        ),
        (1000, "docker.io", APT_WORKS, ["not installed (no apt-get, or not root): docker.io; "]),
        (0, "", APT_FAILS, []),
    ],
    ids=["installed", "refused", "no root", "all installed"],
)
def test_the_tests_run_after_the_installation_of_packages(tmp_path, user, missing, apt, messages):
    listed = f"printf '%s\\n' {missing.replace(chr(10), ' ')}" if missing else ":"
    programs = {"apt-get": apt, "python3": listed, "id": f"echo {user}", "make": 'echo "make $*"'}
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "ASKED": str(tmp_path / "asked")}
    done = subprocess.run(
        [PROJECT / ".ci" / "run"], env=env, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[-1] == "make test"
    assert len(lines) == 1 + len(messages)
    assert all(line.startswith(start) for line, start in zip(lines, messages, strict=False))
    if apt == APT_WORKS and user == 0:
        calls = (tmp_path / "asked").read_text().splitlines()
        assert calls[0] == "update -qq"
        assert all(line.endswith(missing.replace("\n", " ")) for line in calls[1:])
