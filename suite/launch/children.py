"""Starts processes that do not outlive their parent. Imports only the standard library."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.launch.private_network import PrivateNetwork

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1  # prctl(2)
_PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 3.0
"""Time that processes have to end after SIGTERM."""
ENDING_SECONDS = 20.0
"""Timeout for the command that ends containers."""
TOKEN = "SUITE_LAUNCH_TOKEN"
"""Variable with the secret that authenticates the machines of `launch=external`.

Processes of a run do not need it.
"""


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent ends.

    This function only has an effect on Linux.

    The kernel does not report the end of a parent that ended before the call. If the id of the
    parent changes during the call, the parent has ended, and this process kills itself. A parent id
    of 1 is not a sign of that, because process 1 of a container may be the parent. Call this
    function as early as possible.
    """
    if _LIBC is not None:
        parent = os.getppid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Make this process the parent of all descendants whose parent ends (Linux).

    No process then leaves its tree.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start(
    arguments: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    folder: Path,
    network: PrivateNetwork | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a new session, which is killed when this process ends.

    Args:
        arguments: The argv.
        env: All environment variables of the process.
        log: File to which the output of the process is appended.
        folder: Working directory of the process.
        network: Private network in which the process is started. None: the network of this process.

    Raises:
        OSError: The process cannot be started.
    """

    def prepare() -> None:
        if network is not None:
            network.enter()
        # This precedes exec, so that the process never runs without it, and follows the change of
        # user namespace.
        die_with_parent()

    if network is not None:
        env = {**env, **network.env}
    with open(log, "ab") as output:
        try:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in env.items() if name != TOKEN},
                cwd=folder,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except subprocess.SubprocessError as error:
            raise OSError(f"{arguments[0]}: cannot enter the private network ({error})") from None


def run_ending(command: Sequence[str]) -> None:
    """Run the argv that ends containers after their clients have ended.

    Its output and its errors are ignored.

    Args:
        command: The argv. Empty: there are no containers.
    """
    if command:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ENDING_SECONDS,
                check=False,
            )


def exit_text(returncode: int) -> str:
    """Return the description of an exit code: `exit code 1`, `killed by SIGKILL`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-returncode).name}"
    return f"killed by signal {-returncode}"
