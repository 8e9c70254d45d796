"""Starting processes that do not outlive whoever started them. Standard library only: agents use it too."""

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
"""How long processes may take to leave after they were asked to."""
ENDING_SECONDS = 20.0
"""How long a container program may take to end its containers."""
TOKEN = "SUITE_LAUNCH_TOKEN"
"""The secret by which machines of `launch=external` know each other; no process of a run needs it."""


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends (Linux); nothing elsewhere.

    Of a parent that ended before, the kernel says nothing any more: one that changes during the call has. That it is process 1
    tells nothing, since in a container that may be who started this one. So call it as early as can be.
    """
    if _LIBC is not None:
        parent = os.getppid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """From now on descendants whose parent ended are children of this process (Linux): none gets out of its tree."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    log: Path,
    folder: Path,
    network: PrivateNetwork | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a new session, which is killed when this process ends.

    Args:
        arguments: The argv.
        variables: All environment variables of the process.
        log: File to which its output is appended.
        folder: Its current folder.
        network: The network that it is started in; None: the network of this process.

    Raises:
        OSError: The process cannot be started.
    """

    def prepare() -> None:
        if network is not None:
            network.enter()
        die_with_parent()  # before exec, so that no moment is left without it, and after a change of user namespace

    if network is not None:
        variables = {**variables, **network.variables}
    with open(log, "ab") as output:
        try:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in variables.items() if name != TOKEN},
                cwd=folder,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except subprocess.SubprocessError as error:
            raise OSError(f"{arguments[0]}: the private network cannot be entered ({error})") from None


def run_ending(command: Sequence[str]) -> None:
    """Run the argv that ends containers, once their clients are gone; an empty one is none. What it says is of no use then."""
    if command:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ENDING_SECONDS, check=False)


def exit_text(returncode: int) -> str:
    """An exit code in words: `exit code 1`, `killed by SIGKILL`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-returncode).name}"
    return f"killed by signal {-returncode}"
