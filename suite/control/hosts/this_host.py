"""This machine, without an agent."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from suite.common.runspec import Host
from suite.control.hosts.connection import HostFailure
from suite.environments.environment import Environment
from suite.launch import children, processes
from suite.launch.base import ports_here
from suite.launch.private_network import PrivateNetwork
from suite.launch.scratch import Scratch
from suite.launch.worker_env import worker_variables
from suite.machine import cgroups, exhaustion
from suite.worker.heartbeat import STACK_SIGNAL


class ThisHost:
    """The machine that the controller runs on; workers write into the run's folder themselves."""

    full_disk = ""
    """The supervisor looks here itself."""

    def __init__(self, host: Host, folder: Path, environment: Environment) -> None:
        self.host, self.folder = host, folder
        self._shows_processes = host.is_here and not environment.argv_prefix
        """Whether ids of workers are ids here: neither on another machine nor inside a container."""
        self._children: list[subprocess.Popen[bytes]] = []
        self._pids: list[int] = []
        self._ending: list[str] = []
        self._oom_kills = cgroups.oom_kills()
        self._scratch: Scratch | None = None
        self._network: PrivateNetwork | None = None

    def ports(self) -> list[int]:
        """A free port for each replica, and one for a server. Raises ValueError."""
        return ports_here(self.host)

    def start(
        self, name: str, arguments: Sequence[str], variables: Mapping[str, str], private: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a child of this process, whose output goes to `name`.log. Raises OSError.

        `private`: start it in the private network that all such processes of the run share.
        """
        if private and self._network is None:
            self._network = PrivateNetwork()
        log = self.folder / f"{name}.log"
        self._scratch = self._scratch or Scratch()
        variables = {**worker_variables(os.environ, self._scratch.path), **variables}
        child = children.start(arguments, variables, log, self.folder, self._network if private else None)
        self._children.append(child)
        return child

    def alive(self, pid: int) -> bool:
        """False if the worker with this id has ended; True also where ids mean nothing: of another machine, or a container."""
        return not self._shows_processes or processes.alive(pid)

    def is_stopped(self, pid: int) -> bool:
        """Return True if a signal or a debugger has stopped the worker. False if ids mean nothing here."""
        return self._shows_processes and processes.is_stopped(pid)

    def stack(self, pid: int) -> bool:
        """Have a worker write its stacks; False if it cannot be reached."""
        if not self._shows_processes or not processes.alive(pid):
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, STACK_SIGNAL)
            return True
        return False

    def oom_killed(self) -> bool:
        """Whether the kernel has killed a process here for lack of memory since the run began: by its control group."""
        return cgroups.oom_kills() > self._oom_kills

    def exhausts(self, pids: Iterable[int]) -> str:
        """Why a run with these workers must end now for lack of memory, or nothing."""
        return exhaustion.exhausts(pid for pid in pids if self._shows_processes)

    def failure(self) -> HostFailure | None:
        """Set once nothing is to be expected of it any more: never."""
        return None

    def flush_events(self) -> None:
        """Wait until everything that has happened there by now is known here: it is at once."""

    def terminate(self, pids: Iterable[int], ending: Sequence[str]) -> None:
        """Begin to end the commands, these workers, and everything below them: all machines at once.

        `ending`: the argv that ends their containers, which outlive their clients; empty where there are none.
        """
        self._pids, self._ending = list(pids), list(ending)

    def wait(self) -> None:
        """Wait until they have ended; what they wrote is here then."""
        started = [child.pid for child in self._children if child.poll() is None]
        known = [pid for pid in self._pids if self._shows_processes and processes.alive(pid)]
        processes.end_trees([*started, *known])
        children.run_ending(self._ending)
        for child in self._children:
            child.poll()  # reap
        if self._network is not None:
            self._network.close()
        if self._scratch is not None:
            self._scratch.end()
