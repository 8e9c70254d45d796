"""Starting and ending process trees, so that nothing outlives a run."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1  # prctl(2)
GRACE_SECONDS = 3.0


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends (Linux); nothing elsewhere."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(arguments: Sequence[str], variables: Mapping[str, str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, output appended to `log`; it dies when this process dies."""
    with open(log, "ab") as output:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            cwd=folder,
            start_new_session=True,
            preexec_fn=die_with_parent,  # set before exec, so that no moment is left without it
        )


def tree(pids: Iterable[int]) -> list[psutil.Process]:
    """The processes with these ids and all their descendants that still exist."""
    members: dict[int, psutil.Process] = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            members[pid] = process
            for child in process.children(recursive=True):
                members[child.pid] = child
    return list(members.values())


def alive(pid: int) -> bool:
    """True if the process exists and is no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask all to stop, wait GRACE_SECONDS, then kill what is left, and wait for that."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(processes, timeout=GRACE_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=GRACE_SECONDS)


def exit_text(returncode: int) -> str:
    """An exit code in words: `exit code 1`, `killed by SIGKILL`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-returncode).name}"
    return f"killed by signal {-returncode}"
