"""The interface with which a run controls a machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from suite.common.runspec import Host


class Started(Protocol):
    """A command that was started on a machine: `subprocess.Popen`, or a command of an agent."""

    def poll(self) -> int | None:
        """Return the exit code.

        None while the command runs, or until its exit has been reported.
        """


@dataclass(frozen=True)
class HostFailure:
    """Reason why a machine can no longer take part in a run."""

    status: str
    """A status of `status.json`: `rank_died` or `interrupted`."""
    reason: str


class ConnectionLost(OSError):
    """The agent of a machine no longer responds."""


class HostControl(Protocol):
    """Controls a machine during a run.

    `ThisHost` is the controller's machine, `RemoteHost` a machine with an agent.
    """

    host: Host
    folder: Path
    """Folder of the run on this machine."""
    full_disk: str
    """Reason why a command may have failed: a disk without free space.

    Empty: no full disk has been found.
    """

    def ports(self) -> list[int]:
        """Return free ports: a port for each replica, and a port for a server.

        Raises ValueError.
        """

    def start(
        self, name: str, arguments: Sequence[str], env: Mapping[str, str], private: bool = False
    ) -> subprocess.Popen[bytes] | Started:
        """Start a command, whose output goes to `name`.log.

        Args:
            name: Name of the command, such as `worker-0`.
            arguments: The command line.
            env: Environment variables, added to those of the machine.
            private: Start it in the private network that all such commands of the run share.

        Raises:
            OSError: The command cannot be started.
        """

    def alive(self, pid: int) -> bool:
        """Check whether a worker is running.

        True if its process id is not visible here, such as inside a container.
        """

    def is_stopped(self, pid: int) -> bool:
        """Check whether a signal or a debugger has stopped a worker."""

    def stack(self, pid: int) -> bool:
        """Signal a worker to write its stacks to its log.

        Returns False if the worker cannot be reached.
        """

    def oom_killed(self) -> bool:
        """Check whether the kernel has killed a process here for lack of memory.

        Only processes that were killed since the run began count.
        """

    def exhausts(self, pids: Iterable[int]) -> str:
        """Return why a run with these workers must end now for lack of memory.

        Empty: memory is sufficient.
        """

    def failure(self) -> HostFailure | None:
        """Return why the machine is lost, or None."""

    def flush_events(self) -> None:
        """Wait until all earlier events on the machine have been reported to the controller."""

    def terminate(self, pids: Iterable[int], ending: Sequence[str]) -> None:
        """Begin to end all commands of the run.

        Args:
            pids: Ids of the workers.
            ending: Command that ends their containers, which outlive their clients. Empty: there
                are no containers.
        """

    def wait(self) -> None:
        """Wait until all commands have ended.

        All their output is then in the folder of the controller.
        """
