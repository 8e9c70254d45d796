"""Interface through which the supervisor controls a machine of a run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from suite.common.runspec import Host


class Started(Protocol):
    """A started command: a local `subprocess.Popen`, or a command that an agent runs."""

    def poll(self) -> int | None:
        """Return the exit code of the command, or None.

        The exit code is None while the command runs, and until the agent has reported the exit of
        the command.
        """


@dataclass(frozen=True)
class HostFailure:
    """Reason why a machine can no longer take part in a run."""

    status: str
    """Status for `status.json`: `rank_died` or `interrupted`."""
    reason: str


class ConnectionLost(OSError):
    """Error for an agent that no longer responds."""


class HostControl(Protocol):
    """Controls a machine during a run.

    `ThisHost` controls the controller's machine. `RemoteHost` controls a machine that has an agent.
    """

    host: Host
    folder: Path
    """Folder of the run on the controlled machine."""
    full_disk: str
    """Description of a full disk, which may be the reason why a command failed.

    The string is empty if no full disk was found.
    """

    def ports(self) -> list[int]:
        """Return a free port for each replica on the machine, and a free port for a server.

        Raises ValueError if the machine does not have enough free ports.
        """

    def start(
        self, name: str, arguments: Sequence[str], env: Mapping[str, str], private: bool = False
    ) -> subprocess.Popen[bytes] | Started:
        """Start a command whose output is written to `name`.log.

        Args:
            name: Name of the command, such as `worker-0`.
            arguments: The command line.
            env: Environment variables, added to the machine's environment variables.
            private: Start the command in a private network that all private commands of the run
                share.

        Raises:
            OSError: The command cannot be started.
        """

    def alive(self, pid: int) -> bool:
        """Check whether a worker is running.

        The method also returns True if the worker's process id is not visible on the machine, for
        example because the worker runs in a container.
        """

    def is_stopped(self, pid: int) -> bool:
        """Check whether a signal or a debugger has suspended a worker."""

    def stack(self, pid: int) -> bool:
        """Send a worker the signal to write its stack traces to its log.

        Returns False if the worker cannot be reached.
        """

    def oom_killed(self) -> bool:
        """Check whether the kernel killed a process because the machine ran out of memory.

        Processes that were killed before the start of the run are ignored.
        """

    def exhausts(self, pids: Iterable[int]) -> str:
        """Return the reason why the run must end before the machine runs out of memory.

        The string is empty if enough memory is available.
        """

    def failure(self) -> HostFailure | None:
        """Return the reason why the machine is lost, or None."""

    def flush_events(self) -> None:
        """Wait until the machine has reported all earlier events to the controller."""

    def terminate(self, pids: Iterable[int], ending: Sequence[str]) -> None:
        """Begin to end all commands of the run, without waiting for their exit.

        Args:
            pids: Process ids of the workers.
            ending: Command that ends the run's containers, because a container outlives its client
                process. The list is empty if the run uses no containers.
        """

    def wait(self) -> None:
        """Wait until all commands of the run have ended.

        When the method returns, the run's folder on the controller contains all output of the
        commands.
        """
