"""Checks that the machines of a run have the same environments, variables, and data, and can reach each other."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from suite.agent.message_stream import Message, unpacked
from suite.common.paths import env_root
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.host_control import ConnectionLost
from suite.control.hosts.remote_host import carried_variables
from suite.environments.answers import last_line
from suite.environments.environment import Environment, describing_command, description_from
from suite.environments.venvs import MARKER
from suite.launch.network import LOOPBACK, is_loopback
from suite.launch.recorded_env import opens_run, recorded_variables
from workloads import files

REQUEST_SECONDS = 120.0
"""How long a machine may take to start an environment's Python, maybe for the first time."""


def find_addresses(links: Sequence[AgentConnection], interface: str | None) -> list[tuple[str, str]]:
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


def ask_all(
    links: Sequence[AgentConnection], do: str, seconds: float = REQUEST_SECONDS, **order: Any
) -> list[tuple[AgentConnection, Message]]:
    """What each machine answers to one order, all at once. Raises ValueError with the machine's name."""
    numbers = [link.ask(do, **order) for link in links]
    try:
        return [(link, link.answer(number, seconds)) for link, number in zip(links, numbers, strict=True)]
    except ConnectionLost as error:
        raise ValueError(str(error)) from None


def last_error_line(answer: Message) -> str:
    """The last line of what a command that failed said."""
    return last_line(answer["errors"]) or f"exit code {answer['code']}"


def check_environments(
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
    for link, answer in ask_all(
        links, "ask", command=command, most_seconds=REQUEST_SECONDS, variables=carried_variables()
    ):
        if answer["code"] != 0:
            raise ValueError(
                f"machine {link.name}: environment {environment.name} does not answer there: {last_error_line(answer)}"
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


def check_same_lock(links: Sequence[AgentConnection], environment: Environment) -> None:
    """Environments that were made from locks were made from the same one."""
    path = env_root() / environment.name / MARKER
    digests = {}
    for link, answer in ask_all(links, "read", path=str(path)):
        digests[link.name] = json.loads(unpacked(answer["data"]))["digest"] if answer["data"] else None
    if len(set(digests.values())) > 1:
        names = ", ".join(digests)
        raise ValueError(
            f"environment {environment.name} was not made from the same lock on {names}; "
            f"type on each: suite env create {environment.name}"
        )


def check_same_data(links: Sequence[AgentConnection], dataset: str, folder: str) -> None:
    """The manifests of a prepared data set are equal."""
    path = os.path.join(folder, "manifest.json")
    expected = _fingerprint(files.read_bytes(path))
    for link, answer in ask_all(links, "read", path=path):
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
