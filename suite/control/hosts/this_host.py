"""Control the machine on which the controller runs. This machine needs no agent."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from suite.common.runspec import Host
from suite.control.hosts.host_control import HostFailure
from suite.environments.environment import Environment
from suite.launch import children, processes
from suite.launch.base import ports_here
from suite.launch.private_network import PrivateNetwork
from suite.launch.scratch import Scratch
from suite.launch.worker_env import worker_variables
from suite.machine import cgroups, exhaustion
from suite.worker.heartbeat import STACK_SIGNAL


class ThisHost:
    """Controls the machine on which the controller runs (`HostControl`).

    Workers on this machine write directly into the folder of the run.
    """

    full_disk = ""
    """Always an empty string, because the supervisor itself checks the disks of this machine."""

    def __init__(self, host: Host, folder: Path, environment: Environment) -> None:
        self.host, self.folder = host, folder
        self._shows_processes = host.is_here and not environment.command_prefix
        """True if the process ids of workers are valid on this machine.

        The attribute is False if the workers run in a container, or if the host has a different
        name.
        """
        self._children: list[subprocess.Popen[bytes]] = []
        self._pids: list[int] = []
        self._ending: list[str] = []
        self._oom_kills = cgroups.oom_kills()
        self._scratch: Scratch | None = None
        self._network: PrivateNetwork | None = None

    def ports(self) -> list[int]:
        return ports_here(self.host)

    def start(
        self, name: str, arguments: Sequence[str], env: Mapping[str, str], private: bool = False
    ) -> subprocess.Popen[bytes]:
        if private and self._network is None:
            self._network = PrivateNetwork()
        log = self.folder / f"{name}.log"
        self._scratch = self._scratch or Scratch()
        env = {**worker_variables(os.environ, self._scratch.path), **env}
        child = children.start(arguments, env, log, self.folder, self._network if private else None)
        self._children.append(child)
        return child

    def alive(self, pid: int) -> bool:
        return not self._shows_processes or processes.alive(pid)

    def is_stopped(self, pid: int) -> bool:
        return self._shows_processes and processes.is_stopped(pid)

    def stack(self, pid: int) -> bool:
        if not self._shows_processes or not processes.alive(pid):
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, STACK_SIGNAL)
            return True
        return False

    def oom_killed(self) -> bool:
        return cgroups.oom_kills() > self._oom_kills

    def exhausts(self, pids: Iterable[int]) -> str:
        return exhaustion.exhausts(pid for pid in pids if self._shows_processes)

    def failure(self) -> HostFailure | None:
        return None

    def flush_events(self) -> None:
        """Do nothing, because the controller monitors this machine directly."""

    def terminate(self, pids: Iterable[int], ending: Sequence[str]) -> None:
        self._pids, self._ending = list(pids), list(ending)

    def wait(self) -> None:
        started = [child.pid for child in self._children if child.poll() is None]
        workers = [pid for pid in self._pids if self._shows_processes and processes.alive(pid)]
        processes.end_trees([*started, *workers])
        children.run_ending(self._ending)
        for child in self._children:
            child.poll()  # reaps the process
        if self._network is not None:
            self._network.close()
        if self._scratch is not None:
            self._scratch.end()
