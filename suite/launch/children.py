"""Start processes that end with their parent.

This module imports only the standard library.
"""

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
"""Number of seconds that processes have to exit after SIGTERM, before they are killed."""
ENDING_SECONDS = 20.0
"""Timeout in seconds for the command that ends containers."""
TOKEN = "SUITE_LAUNCH_TOKEN"
"""Environment variable with the secret token that authenticates the machines of `launch=external`.

The token is not passed to the processes of a run.
"""


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent process ends.

    This function has an effect on Linux only.

    The kernel does not detect a parent process that ended before the call. The function therefore
    compares the parent's process id before and after the call. If the id has changed, the parent
    has ended, and this process kills itself. A parent id of 1 does not prove that the parent has
    ended, because the parent may be process 1 of a container. Call this function as early as
    possible.
    """
    if _LIBC is not None:
        parent = os.getppid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Make this process the parent of all orphaned descendants (Linux).

    All descendants thus remain in the process tree of this process.
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
    """Start a process in a new session. The process is killed when this process ends.

    Args:
        arguments: The command line.
        env: All environment variables of the process.
        log: File to which the output of the process is appended.
        folder: Working directory of the process.
        network: Private network in which the process is started. None means the network of this
            process.

    Raises:
        OSError: The process cannot be started.
    """

    def prepare() -> None:
        if network is not None:
            network.enter()
        # Call `die_with_parent` after the change of user namespace and before exec, so that the
        # started program is always protected.
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
    """Run the command that ends containers, after the client processes have ended.

    The command's output and errors are ignored.

    Args:
        command: The command line. The list is empty if the run has no containers.
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
    """Describe an exit code in words, such as `exit code 1` or `killed by SIGKILL`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-returncode).name}"
    return f"killed by signal {-returncode}"
