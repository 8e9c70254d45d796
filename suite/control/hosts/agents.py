"""The machines of a command: agents on all of them before the first run, what each says of itself, and what must be equal."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from suite.agent.message_stream import Message, unpacked
from suite.common.paths import env_root
from suite.common.run_config import LaunchConfig
from suite.control.caches import COMMAND_SECONDS
from suite.control.hosts import launchers
from suite.control.hosts.connection import AgentConnection, ConnectionLost
from suite.control.hosts.remote_host import carried_variables, own_variables
from suite.control.interrupts import signals_held
from suite.environments.answers import last_line
from suite.environments.environment import Environment, describing_command, description_from
from suite.environments.venvs import MARKER
from suite.launch.base import variables_set_by_run
from suite.launch.hosts import AvailableHost
from suite.launch.network import LOOPBACK, is_loopback
from suite.launch.recorded_env import opens_run, recorded_variables
from suite.plan.jobs import Job
from workloads import files

REQUEST_SECONDS = 120.0
"""How long a machine may take to start an environment's Python, maybe for the first time."""
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
            _check_environments(self._links, job.environment, versions, template.environment_variables, set_by_run)
            _same_lock(self._links, job.environment)
            settings = job.template.settings
            if settings.data_dir:
                _same_data(self._links, settings.dataset, settings.data_dir)

    def clear(self, job: Job) -> tuple[bool, list[str]]:
        """Clear the caches of a job's machines: whether that worked on all, and what stayed.

        Raises ValueError, naming the machine, if what was asked for does not work there.
        """
        settings = job.template.settings
        asked = {"system": dataclasses.asdict(job.system), "dataset": settings.dataset, "folder": settings.data_dir}
        words = [sys.executable, "-m", "suite.control.caches", json.dumps(asked)]
        order = {"command": words, "most_seconds": CLEAR_SECONDS, "variables": own_variables()}
        cleared, said = True, []
        for link, answer in _asked(self._links[: settings.nodes], "ask", CLEAR_SECONDS, **order):
            if answer["code"] != 0:
                raise ValueError(f"machine {link.name}: {_last(answer)}")
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
        places = _addressed(self._links, self._launch.interface)
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


def _addressed(links: Sequence[AgentConnection], interface: str | None) -> list[tuple[str, str]]:
    """(address, interface) of each machine as the others reach it. Raises ValueError."""
    if interface:
        return [(_address_of(link, interface), interface) for link in links]
    if len(links) == 1:
        return [(LOOPBACK, "")]
    first, second, *_ = links
    assert first.facts is not None
    own: Mapping[str, str] = {address: name for name, address in first.facts["addresses"].items()}
    address = _seen_from(second, first, list(own))
    if address not in own:
        raise ValueError(
            f"machine {first.name}: {second.name} reaches it as {address}, which none of its interfaces has "
            f"({', '.join(own) or 'none with an address'}); type launch.interface=NAME"
        )
    addresses = [(address, own[address])]
    for link in links[1:]:
        there = link.call("route", to=address)
        if is_loopback(there["address"]) or not there["interface"]:
            raise ValueError(
                f"machine {link.name} reaches {first.name} ({address}) from {there['address']}, which no other machine "
                f"reaches; type launch.interface=NAME"
            )
        addresses.append((there["address"], there["interface"]))
    return addresses


def _seen_from(second: AgentConnection, first: AgentConnection, own: Sequence[str]) -> str:
    """Where a machine's name leads on another one; the only address that it has where the name says nothing there."""
    name = first.name.rpartition("@")[2]
    try:
        address = str(second.call("route", to=name)["peer"])
    except ValueError as error:
        if len(own) == 1:
            return own[0]
        raise ValueError(f"{error}: {name} is not known there; type launch.interface=NAME, or names that are") from None
    if is_loopback(address):
        raise ValueError(
            f"machine {first.name}: its name leads to {address} on {second.name}, which is that machine itself; "
            f"mend /etc/hosts there, or type launch.interface=NAME"
        )
    return address


def _address_of(link: AgentConnection, interface: str) -> str:
    assert link.facts is not None
    addresses: Mapping[str, str] = link.facts["addresses"]
    if interface not in addresses:
        raise ValueError(
            f"launch.interface={interface}: machine {link.name} has no such interface with an address; "
            f"it has: {', '.join(addresses) or 'none'}"
        )
    return addresses[interface]


def _needs(job: Job) -> tuple[str, ...]:
    """Equal for jobs that need the same of a machine."""
    env, settings = job.environment, job.template.settings
    return (env.name, env.python, *env.argv_prefix, settings.dataset, settings.data_dir, settings.framework)


def _asked(
    links: Sequence[AgentConnection], do: str, seconds: float = REQUEST_SECONDS, **order: Any
) -> list[tuple[AgentConnection, Message]]:
    """What each machine answers to one order, all at once. Raises ValueError with the machine's name."""
    numbers = [link.ask(do, **order) for link in links]
    try:
        return [(link, link.answer(number, seconds)) for link, number in zip(links, numbers, strict=True)]
    except ConnectionLost as error:
        raise ValueError(str(error)) from None


def _last(answer: Message) -> str:
    """The last line of what a command that failed said."""
    return last_line(answer["errors"]) or f"exit code {answer['code']}"


def _check_environments(
    links: Sequence[AgentConnection],
    environment: Environment,
    versions: Mapping[str, str],
    variables: Mapping[str, str],
    set_by_run: Collection[str] = (),
) -> None:
    """Raise ValueError, naming the machine, unless an environment is the same on all machines.

    Args:
        links: The machines.
        environment: The environment.
        versions: Versions of packages that all machines must have.
        variables: Recorded variables: those that make a run open must have the same values on all machines.
        set_by_run: Names of variables that the run sets itself.
    """
    command = describing_command(environment, list(versions))
    for link, answer in _asked(
        links, "ask", command=command, most_seconds=REQUEST_SECONDS, variables=carried_variables()
    ):
        if answer["code"] != 0:
            raise ValueError(
                f"machine {link.name}: environment {environment.name} does not answer there: {_last(answer)}"
            )
        try:
            description = description_from(answer["output"], environment)
        except ValueError as error:
            raise ValueError(f"machine {link.name}: environment {environment.name} {error}") from None
        for name, expected in versions.items():
            version = description.versions.get(name)
            if version != expected:
                raise ValueError(
                    f"machine {link.name}: {name} is {version or 'missing'} in environment {environment.name}, "
                    f"here it is {expected}; make them equal: suite env create {environment.name}"
                )
        _check_variables(link.name, recorded_variables(description.variables, set_by_run), variables)


def _check_variables(machine: str, there: Mapping[str, str], here: Mapping[str, str]) -> None:
    for name in sorted({*there, *here}):
        if opens_run(name) and there.get(name) != here.get(name):
            texts = (f"{name}={values[name]}" if name in values else "not set" for values in (there, here))
            raise ValueError(
                f"machine {machine}: environment variable {name}: {' there, and here '.join(texts)}; "
                f"set it alike on all machines"
            )


def _same_lock(links: Sequence[AgentConnection], environment: Environment) -> None:
    """Environments that were made from locks were made from the same one."""
    path = env_root() / environment.name / MARKER
    digests = {}
    for link, answer in _asked(links, "read", path=str(path)):
        digests[link.name] = json.loads(unpacked(answer["data"]))["digest"] if answer["data"] else None
    if len(set(digests.values())) > 1:
        names = ", ".join(digests)
        raise ValueError(
            f"environment {environment.name} was not made from the same lock on {names}; "
            f"type on each: suite env create {environment.name}"
        )


def _same_data(links: Sequence[AgentConnection], dataset: str, folder: str) -> None:
    """The manifests of a prepared data set are equal."""
    path = os.path.join(folder, "manifest.json")
    expected = _fingerprint(files.read_bytes(path))
    for link, answer in _asked(links, "read", path=path):
        if answer["data"] is None:
            raise ValueError(
                f"machine {link.name}: data set {dataset} is not in {folder}; prepare it there, or share it"
            )
        if _fingerprint(unpacked(answer["data"])) != expected:
            raise ValueError(
                f"machine {link.name}: data set {dataset} in {folder} is not the one of this machine; "
                f"prepare it there from the same files"
            )


def _fingerprint(manifest: bytes) -> Any:
    """Return the fingerprint in a manifest of this or another machine; all of the manifest if it has none."""
    try:
        content = json.loads(manifest)
    except (ValueError, RecursionError):
        return manifest
    return (content.get("fingerprint") if isinstance(content, dict) else None) or content
