"""The machines of a command: agents on all of them before the first run, what each says of itself, and what must be equal."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from suite.common.run_config import LaunchConfig
from suite.control.caches import COMMAND_SECONDS
from suite.control.hosts import launchers
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.host_checks import (
    ask_all,
    check_environments,
    check_same_data,
    check_same_lock,
    find_addresses,
    last_error_line,
)
from suite.control.hosts.remote_host import own_variables
from suite.control.interrupts import signals_held
from suite.launch.base import variables_set_by_run
from suite.launch.hosts import AvailableHost
from suite.plan.job import Job

CLEAR_SECONDS = 2 * COMMAND_SECONDS
"""How long a machine may take to clear its caches: the command, and looking at a large data set before and after it."""


class Agents:
    """The machines of a command, in the order of their devices."""

    def __init__(
        self,
        links: Sequence[AgentConnection],
        launch: LaunchConfig,
        again: Callable[[str], AgentConnection] | None = None,
    ) -> None:
        """`again` starts the agent of a machine anew. Raises ValueError in one line for machines that are not fit for a run."""
        self._links = list(links)
        self._launch = launch
        self._again = again
        try:
            for link in self._links:
                link.greet()
            self.hosts = self._described()
        except (ValueError, OSError):
            self.close()
            raise
        self._meet_at_port()

    @property
    def links(self) -> Mapping[str, AgentConnection]:
        """Name of each machine to its agent."""
        return {host.name: link for host, link in zip(self.hosts, self._links, strict=True)}

    def check(self, jobs: Sequence[Job]) -> None:
        """Raise ValueError, naming the machine, unless packages, locks and data of all jobs are the same everywhere."""
        for job in {_needs(job): job for job in jobs}.values():
            template = job.template
            versions = {name: version for name, version in template.versions.items() if name != "suite"}
            set_by_run = variables_set_by_run(job.framework, template)
            check_environments(self._links, job.environment, versions, template.environment_variables, set_by_run)
            check_same_lock(self._links, job.environment)
            settings = job.template.settings
            if settings.data_dir:
                check_same_data(self._links, settings.dataset, settings.data_dir)

    def clear(self, job: Job) -> tuple[bool, list[str]]:
        """Clear the caches of a job's machines: whether that worked on all, and what stayed.

        Raises ValueError, naming the machine, if what was asked for does not work there.
        """
        settings = job.template.settings
        asked = {"system": dataclasses.asdict(job.system), "dataset": settings.dataset, "folder": settings.data_dir}
        words = [sys.executable, "-m", "suite.control.caches", json.dumps(asked)]
        order = {"command": words, "most_seconds": CLEAR_SECONDS, "variables": own_variables()}
        cleared, said = True, []
        for link, answer in ask_all(self._links[: settings.nodes], "ask", CLEAR_SECONDS, **order):
            if answer["code"] != 0:
                raise ValueError(f"machine {link.name}: {last_error_line(answer)}")
            there, line = json.loads(answer["output"])
            cleared = cleared and bool(there)
            said += [f"machine {link.name}: {line}"] if line else []
        return cleared, said

    def ready(self) -> None:
        """Before a run: start agents that were lost again. Raises ValueError if a machine does not come back."""
        lost = [number for number, link in enumerate(self._links) if link.failure() is not None]
        for number in lost:
            self._links[number].close()
            if self._again is None:
                raise ValueError(
                    f"machine {self._links[number].name} is lost, and nothing here can start its agent again"
                )
            self._links[number] = self._again(self._links[number].name)
        for number in lost:
            self._links[number].greet()
        self._meet_at_port()

    def _meet_at_port(self) -> None:
        """`launch.port` is the processes' own, unless agents that come by themselves take it."""
        self._links[0].port = self._launch.port if self._launch.by != "external" else None

    def close(self) -> None:
        """Let all agents leave, whatever signal comes."""
        with signals_held():
            for link in self._links:
                link.ask("leave")
            for link in self._links:
                link.close()

    def _described(self) -> tuple[AvailableHost, ...]:
        places = find_addresses(self._links, self._launch.interface)
        hosts = []
        for link, (address, interface) in zip(self._links, places, strict=True):
            assert link.facts is not None
            facts = link.facts
            cores, fault = tuple(facts["cores"]), facts.get("gpu_fault", "")
            no_network = facts.get("private_network_fault", "")
            hosts.append(AvailableHost(facts["name"], address, interface, cores, facts["hardware"], fault, no_network))
        names = [host.name for host in hosts]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            asked = ", ".join(link.name for link, name in zip(self._links, names, strict=True) if name == twice)
            raise ValueError(f"launch: {asked} are one machine, which calls itself {twice}; name every machine once")
        return tuple(hosts)


def open_agents(launch: LaunchConfig, count: int, variables: Mapping[str, str] = os.environ) -> Agents:
    """Agents on the first `count` machines. Raises ValueError in one line: what is missing, and what to type."""
    launcher = launchers.launcher(launchers.way(launch, variables))
    names = launcher.machines(launch, variables)
    if count > len(names):
        raise ValueError(
            f"nodes={count}: {launcher.has.format(len(names))} ({', '.join(names)}); "
            f"type nodes={len(names)} or less, or {launcher.more.format(count)}"
        )

    def start(name: str) -> AgentConnection:
        return launchers.started(name, launcher.name, launch)

    return Agents([start(name) for name in names[:count]], launch, start)


def _needs(job: Job) -> tuple[str, ...]:
    """Equal for jobs that need the same of a machine."""
    env, settings = job.environment, job.template.settings
    return (env.name, env.python, *env.argv_prefix, settings.dataset, settings.data_dir, settings.framework)
