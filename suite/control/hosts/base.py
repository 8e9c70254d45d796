"""What the supervisor asks of a machine, wherever it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from suite.common.runspec import Host


@dataclass(frozen=True)
class LostHost:
    """Why nothing is to be expected of a machine any more."""

    status: str
    """Of `status.json`: `rank_died` or `interrupted`."""
    reason: str


class StartedCommand(Protocol):
    """A command that was started."""

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        ...


class HostControl(Protocol):
    """One machine during one run."""

    host: Host
    folder: Path
    """Where its workers write, and run.json lies, by its path there."""

    def ports(self) -> list[int]:
        """A free port for each replica, and one for a server. Raises ValueError."""
        ...

    def start(self, name: str, arguments: Sequence[str], variables: Mapping[str, str]) -> StartedCommand:
        """Start a command whose output goes to `name`.log. Raises OSError."""
        ...

    def alive(self, pid: int) -> bool:
        """False if the worker with this id has ended; True also where ids mean nothing."""
        ...

    def stack(self, pid: int) -> bool:
        """Have a worker write its stacks; False if it cannot be reached."""
        ...

    def oom_killed(self) -> bool:
        """Whether the kernel has killed a process of this machine for lack of memory since the run began."""
        ...

    def exhausts(self, pids: Iterable[int]) -> str:
        """Why a run with these workers must end now for lack of memory, or nothing."""
        ...

    def lost(self) -> LostHost | None:
        """Set once nothing is to be expected of it any more."""
        ...

    def settle(self) -> None:
        """Wait until everything that has happened there by now is known here, or the machine is lost."""
        ...

    def ask_to_end(self, pids: Iterable[int], ending: Sequence[str]) -> None:
        """Begin to end the commands, these workers, and everything below them: all machines at once.

        `ending`: the argv that ends their containers, which outlive their clients; empty where there are none.
        """
        ...

    def end(self) -> None:
        """Wait until they have ended; what they wrote is here then."""
        ...
