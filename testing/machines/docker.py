"""Separate Docker daemon for tests, without network, registry, or downloaded images."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.machines import needs
from testing.machines.machine import Machine, environment, only_child

IMAGE = "suite-test:local"
MARK = "/etc/image-of-the-suite"
"""Path of a file that exists only in the test image."""
FOLDERS = ("usr", "etc", "tmp", "proc", "sys", "dev")
LINKS = ("bin", "lib", "lib32", "lib64", "sbin")
"""Names of possible symbolic links into /usr. The test image contains those that are links on this
machine.

If this machine's /usr is mounted into a container, these links make all programs available.
"""
EXEC_ROOT = "/run/docker"
"""Folder in the daemon's separate /run, which contains sockets.

The path of a socket may have at most 107 characters.
"""
UP_SECONDS = 40.0


PRIVATE = """
mount -t tmpfs none /run
mount -t overlay -o lowerdir=/etc,upperdir="$0/etc",workdir="$0/work" none /etc
exec "$@"
"""
"""Shell script that runs its arguments with a separate /run and with an overlay on /etc.

Changes in /etc are stored in the overlay.
"""


@contextlib.contextmanager
def daemon(folder: Path, machine: Machine | None = None) -> Iterator[dict[str, str]]:
    """Run dockerd with all of its files below `folder`, and import the test image `IMAGE`.

    The context manager yields the environment variables with which Docker clients find the daemon.
    On a virtual machine, clients find the daemon even without these variables. The mounts of the
    daemon's containers end with the daemon.
    """
    socket = f"unix://{folder}/socket"
    inside = machine.command([]) if machine is not None else []
    for name in ("etc", "work"):
        (folder / name).mkdir()
    words = [
        *inside, needs.program("unshare"), "--mount", "sh", "-ec", PRIVATE, str(folder),
        needs.program("dockerd"), f"--host={socket}", f"--data-root={folder}/data",
        f"--exec-root={EXEC_ROOT}", f"--pidfile={folder}/pid",
        "--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs",
        "--exec-opt=native.cgroupdriver=cgroupfs", "--log-level=warn",
    ]  # fmt: skip
    env = {**environment(), "DOCKER_HOST": socket}
    if machine is not None:
        machine.run(["ln", "-s", folder / "socket", "/run/docker.sock"])
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=env)
    try:
        deadline = time.monotonic() + UP_SECONDS
        while (
            subprocess.run(
                ["docker", "version"], env=env, capture_output=True, check=False
            ).returncode
            != 0
        ):
            output = (folder / "log").read_text()[-1000:]
            # If the daemon exits before the first request, the kernel or the sandbox does not
            # permit dockerd.
            if process.poll() is not None:
                last = (output.strip().splitlines() or ["it printed nothing"])[-1]
                pytest.skip(f"dockerd does not run here: {last[:300]}")
            assert time.monotonic() < deadline, f"dockerd does not answer:\n{output}"
            time.sleep(0.1)
        words = ["docker", "import", "-", IMAGE]
        subprocess.run(words, input=_root(), env=env, capture_output=True, check=True)
        yield {"DOCKER_HOST": socket}
    finally:
        (process if machine is None else only_child(process)).terminate()
        process.wait(UP_SECONDS)


def _root() -> bytes:
    """Return the root file system of the test image as a tar archive.

    The archive contains empty folders, the symbolic links of this machine, and the file MARK.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name in LINKS:
            if Path("/", name).is_symlink():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(f"/{name}")
                tar.addfile(entry)
        tar.addfile(tarfile.TarInfo(MARK.lstrip("/")))
    return stream.getvalue()
