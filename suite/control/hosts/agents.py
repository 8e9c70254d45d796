"""Start an agent on each machine of a command.

The module also collects descriptions of the machines, and checks that the machines have the same
packages and data.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from suite.agent.messages import LEAVE, RUN_COMMAND
from suite.common.run_config import LaunchConfig
from suite.control.caches import COMMAND_SECONDS
from suite.control.hosts import launchers
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.host_checks import (
    check_environments,
    check_same_data,
    check_same_lock,
    find_addresses,
    last_error_line,
    request_all,
)
from suite.control.hosts.remote_host import suite_variables
from suite.control.interrupts import signals_held
from suite.launch.base import variables_set_by_run
from suite.launch.hosts import AvailableHost
from suite.plan.job import Job

CLEAR_SECONDS = 2 * COMMAND_SECONDS
"""Time limit for clearing the caches of a machine. The limit includes the time of the clearing
command, and of a scan of a large data set before and after the command.
"""


class Agents:
    """Agents of a command's machines, in the order of the machines' devices."""

    def __init__(
        self,
        connections: Sequence[AgentConnection],
        launch: LaunchConfig,
        again: Callable[[str], AgentConnection] | None = None,
    ) -> None:
        """Wait for the descriptions of all machines, and check the machines.

        Args:
            connections: Connections to the agents, in the order of the machines.
            launch: `launch.*` settings of the command.
            again: Function that starts a new agent on the machine with the given name. If None,
                agents cannot be restarted.

        Raises:
            ValueError: A machine is lost or cannot take part in a run. The message is a single
                line.
        """
        self._connections = list(connections)
        self._launch = launch
        self._again = again
        try:
            for connection in self._connections:
                connection.greet()
            self.hosts = self._described()
        except (ValueError, OSError):
            self.close()
            raise
        self._meet_at_port()

    @property
    def connections(self) -> Mapping[str, AgentConnection]:
        """Return the connections to the agents, by the name of the machine."""
        return {
            host.name: connection
            for host, connection in zip(self.hosts, self._connections, strict=True)
        }

    def check(self, jobs: Sequence[Job]) -> None:
        """Check that all machines have the same packages, lock files, and data for all jobs.

        Raises:
            ValueError: A machine differs from the controller's machine. The message names the
                differing machine.
        """
        for job in {_requirements(job): job for job in jobs}.values():
            template = job.template
            versions = {
                name: version for name, version in template.versions.items() if name != "suite"
            }
            set_by_run = variables_set_by_run(job.framework, template)
            check_environments(
                self._connections,
                job.environment,
                versions,
                template.environment_variables,
                set_by_run,
            )
            check_same_lock(self._connections, job.environment)
            settings = job.template.settings
            if settings.data_dir:
                check_same_data(self._connections, settings.dataset, settings.data_dir)

    def clear(self, job: Job) -> tuple[bool, list[str]]:
        """Clear the caches of a job's machines.

        Returns:
            Whether the caches were cleared on all machines, and a message for each machine on which
            files remained in memory.

        Raises:
            ValueError: Clearing the caches fails on a machine. The message names the machine.
        """
        settings = job.template.settings
        arguments = {
            "system": dataclasses.asdict(job.system),
            "dataset": settings.dataset,
            "folder": settings.data_dir,
        }
        argv = [sys.executable, "-m", "suite.control.caches", json.dumps(arguments)]
        order = {"command": argv, "most_seconds": CLEAR_SECONDS, "env": suite_variables()}
        all_cleared, lines = True, []
        for connection, response in request_all(
            self._connections[: settings.nodes], RUN_COMMAND, CLEAR_SECONDS, **order
        ):
            if response.code != 0:
                raise ValueError(f"machine {connection.name}: {last_error_line(response)}")
            cleared, line = json.loads(response.output)
            all_cleared = all_cleared and bool(cleared)
            lines += [f"machine {connection.name}: {line}"] if line else []
        return all_cleared, lines

    def ready(self) -> None:
        """Restart lost agents before a run. Raises ValueError if an agent cannot be restarted."""
        lost = [
            number
            for number, connection in enumerate(self._connections)
            if connection.failure() is not None
        ]
        for number in lost:
            self._connections[number].close()
            if self._again is None:
                raise ValueError(
                    f"machine {self._connections[number].name} is lost, and"
                    f" launch={self._launch.by} cannot restart its agent"
                )
            self._connections[number] = self._again(self._connections[number].name)
        for number in lost:
            self._connections[number].greet()
        self._meet_at_port()

    def _meet_at_port(self) -> None:
        """Reserve `launch.port` for the rendezvous of the worker processes.

        With `launch=external`, the port is not reserved, because the agents connect to the
        controller through this port.
        """
        self._connections[0].port = self._launch.port if self._launch.by != "external" else None

    def close(self) -> None:
        """Stop all agents. Signals are delayed until the agents have stopped."""
        with signals_held():
            for connection in self._connections:
                connection.send_request(LEAVE)
            for connection in self._connections:
                connection.close()

    def _described(self) -> tuple[AvailableHost, ...]:
        """Return the machines as their agents describe them.

        Raises ValueError if a machine cannot take part in a run.
        """
        addresses = find_addresses(self._connections, self._launch.interface)
        hosts = []
        for connection, (address, interface) in zip(self._connections, addresses, strict=True):
            assert connection.facts is not None
            facts = connection.facts
            hosts.append(
                AvailableHost(
                    facts.name,
                    address,
                    interface,
                    facts.cores,
                    facts.hardware,
                    facts.gpu_fault,
                    facts.private_network_fault,
                )
            )
        names = [host.name for host in hosts]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            aliases = ", ".join(
                connection.name
                for connection, name in zip(self._connections, names, strict=True)
                if name == duplicate
            )
            raise ValueError(
                f"launch: {aliases} are the same machine with the host name {duplicate}. List each"
                " machine once"
            )
        return tuple(hosts)


def open_agents(launch: LaunchConfig, count: int, env: Mapping[str, str] = os.environ) -> Agents:
    """Start agents on the first `count` machines of a command, and return the agents.

    Args:
        launch: `launch.*` settings of the command.
        count: Number of machines.
        env: Environment variables.

    Raises:
        ValueError: Too few machines are available, or a machine cannot be used. The message is a
            single line that lists the keys to set.
    """
    launcher = launchers.launcher(launchers.resolve_launcher_name(launch, env))
    names = launcher.list_hosts(launch, env)
    if count > len(names):
        raise ValueError(
            f"nodes={count}: {launcher.available_text.format(len(names))} ({', '.join(names)}). "
            f"Set nodes={len(names)} or less, or {launcher.shortage_hint.format(count)}"
        )

    def start(name: str) -> AgentConnection:
        return launchers.start_agent(name, launcher.name, launch)

    return Agents([start(name) for name in names[:count]], launch, start)


def _requirements(job: Job) -> tuple[str, ...]:
    """Return a tuple that is equal for two jobs if they have the same machine requirements."""
    env, settings = job.environment, job.template.settings
    return (
        env.name,
        env.python,
        *env.command_prefix,
        settings.dataset,
        settings.data_dir,
        settings.framework,
    )
