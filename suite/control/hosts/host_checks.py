"""Check that the machines of a run match and can reach each other.

Machines match if they have the same environments, environment variables, and data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from suite.agent.messages import READ, ROUTE, RUN_COMMAND, CommandOutput, Request
from suite.common.paths import env_root
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.host_control import ConnectionLost
from suite.control.hosts.remote_host import carried_variables
from suite.environments.captured_command import last_line
from suite.environments.environment import Environment, describing_command, description_from
from suite.environments.venvs import MARKER
from suite.launch.network import LOOPBACK, is_loopback
from suite.launch.recorded_env import opens_run, recorded_variables
from workloads import files

T = TypeVar("T")

REQUEST_SECONDS = 120.0
"""Time limit in seconds for a machine's response. The machine may have to start an environment's
Python for the first time.
"""


def find_addresses(
    connections: Sequence[AgentConnection], interface: str | None
) -> list[tuple[str, str]]:
    """Return an address and its network interface for each machine.

    All other machines of the run can reach the machine at this address.

    Args:
        connections: Connections to the machines.
        interface: Network interface that all machines use. If None, each machine uses the interface
            with the route to the first machine.

    Raises:
        ValueError: A machine has no suitable address or interface.
    """
    if interface:
        return [(_address_of(connection, interface), interface) for connection in connections]
    if len(connections) == 1:
        return [(LOOPBACK, "")]
    first, second, *_ = connections
    assert first.facts is not None
    interfaces = {address: name for name, address in first.facts.addresses.items()}
    address = _seen_from(second, first, list(interfaces))
    if address not in interfaces:
        raise ValueError(
            f"machine {first.name}: {second.name} connects to {address}, but no interface of"
            f" {first.name} has this address (its addresses: {', '.join(interfaces) or 'none'})."
            " Set launch.interface=NAME"
        )
    addresses = [(address, interfaces[address])]
    for connection in connections[1:]:
        route = connection.call(ROUTE, to=address)
        if is_loopback(route.address) or not route.interface:
            raise ValueError(
                f"machine {connection.name} connects to {first.name} ({address}) from"
                f" {route.address}. The remaining machines cannot reach this"
                " address. Set launch.interface=NAME"
            )
        addresses.append((route.address, route.interface))
    return addresses


def _seen_from(second: AgentConnection, first: AgentConnection, addresses: Sequence[str]) -> str:
    """Resolve the name of machine `first` on machine `second`, and return the address.

    Args:
        second: Machine that resolves the name.
        first: Machine whose name is resolved.
        addresses: Addresses of `first`. If the name cannot be resolved and `first` has a single
            address, this address is returned.

    Raises:
        ValueError: The name cannot be resolved, or resolves to a loopback address.
    """
    name = first.name.rpartition("@")[2]
    try:
        address = second.call(ROUTE, to=name).peer
    except ValueError as error:
        if len(addresses) == 1:
            return addresses[0]
        raise ValueError(
            f"{error}: the host name {name} cannot be resolved there. Set launch.interface=NAME, or"
            " use host names that all machines can resolve"
        ) from None
    if is_loopback(address):
        raise ValueError(
            f"machine {first.name}: its name resolves to {address} on {second.name}, which is"
            f" {second.name} itself. Correct /etc/hosts on {second.name}, or set"
            " launch.interface=NAME"
        )
    return address


def _address_of(connection: AgentConnection, interface: str) -> str:
    """Return the address of a machine's network interface.

    Raises ValueError if the interface does not exist or has no address.
    """
    assert connection.facts is not None
    addresses = connection.facts.addresses
    if interface not in addresses:
        raise ValueError(
            f"launch.interface={interface}: machine {connection.name} has no such interface with an"
            f" address. Its interfaces: {', '.join(addresses) or 'none'}"
        )
    return addresses[interface]


def request_all(
    connections: Sequence[AgentConnection],
    request: Request[T],
    seconds: float = REQUEST_SECONDS,
    **order: Any,
) -> list[tuple[AgentConnection, T]]:
    """Send a request to all machines in parallel, and return each machine's response.

    Args:
        connections: Connections to the machines.
        request: The request.
        seconds: Time limit for the response of each machine.
        **order: Arguments of the request.

    Raises:
        ValueError: A machine is lost, or could not execute the request. The message names the
            machine.
    """
    pending = [connection.send_request(request, **order) for connection in connections]
    try:
        return [
            (connection, connection.get_response(sent, seconds))
            for connection, sent in zip(connections, pending, strict=True)
        ]
    except ConnectionLost as error:
        raise ValueError(str(error)) from None


def last_error_line(response: CommandOutput) -> str:
    """Return the last line of a failed command's standard error.

    If the standard error is empty, the exit code is returned as a string.
    """
    return last_line(response.errors) or f"exit code {response.code}"


def check_environments(
    connections: Sequence[AgentConnection],
    environment: Environment,
    versions: Mapping[str, str],
    env: Mapping[str, str],
    set_by_run: Collection[str] = (),
) -> None:
    """Check that an environment is the same on all machines.

    Args:
        connections: Connections to the machines.
        environment: The environment to check.
        versions: Package versions that all machines must have.
        env: Recorded environment variables of this machine. Variables that put a run into the open
            division must be the same on all machines.
        set_by_run: Names of variables that the run sets.

    Raises:
        ValueError: A machine differs from this machine. The message names the differing machine.
    """
    command = describing_command(environment, list(versions))
    for connection, response in request_all(
        connections,
        RUN_COMMAND,
        command=command,
        most_seconds=REQUEST_SECONDS,
        env=carried_variables(),
    ):
        if response.code != 0:
            raise ValueError(
                f"machine {connection.name}: environment {environment.name} does not work there:"
                f" {last_error_line(response)}"
            )
        try:
            description = description_from(response.output, environment)
        except ValueError as error:
            raise ValueError(
                f"machine {connection.name}: environment {environment.name} {error}"
            ) from None
        for name, expected in versions.items():
            version = description.versions.get(name)
            if version != expected:
                raise ValueError(
                    f"machine {connection.name}: environment {environment.name}: {name} is"
                    f" {version or 'missing'} there and {expected} on this machine. To make them"
                    f" equal, run: suite env create {environment.name}"
                )
        _check_variables(connection.name, recorded_variables(description.env, set_by_run), env)


def _check_variables(machine: str, remote: Mapping[str, str], local: Mapping[str, str]) -> None:
    """Compare the environment variables that can put a run into the open division.

    Raises ValueError if such a variable differs between the remote machine and this machine.
    """
    for name in sorted({*remote, *local}):
        if opens_run(name) and remote.get(name) != local.get(name):
            texts = (
                f"{name}={values[name]}" if name in values else "not set"
                for values in (remote, local)
            )
            raise ValueError(
                f"machine {machine}: environment variable {name}: {' there, '.join(texts)} on this"
                " machine. Set the same value on all machines"
            )


def check_same_lock(connections: Sequence[AgentConnection], environment: Environment) -> None:
    """Raise ValueError if an environment was created from different lock files.

    The error is also raised if some machines created the environment with a lock file and other
    machines without a lock file.
    """
    path = env_root() / environment.name / MARKER
    digests = {}
    for connection, response in request_all(connections, READ, path=str(path)):
        digests[connection.name] = json.loads(response.data)["digest"] if response.data else None
    if len(set(digests.values())) > 1:
        names = ", ".join(digests)
        raise ValueError(
            f"environment {environment.name} was not created from the same lock on {names}. "
            f"Run on each machine: suite env create {environment.name}"
        )


def check_same_data(connections: Sequence[AgentConnection], dataset: str, folder: str) -> None:
    """Raise ValueError if a prepared data set is missing or different on a machine.

    The manifest on each machine is compared with the local manifest.
    """
    path = os.path.join(folder, "manifest.json")
    expected = _fingerprint(files.read_bytes(path))
    for connection, response in request_all(connections, READ, path=path):
        if response.data is None:
            raise ValueError(
                f"machine {connection.name}: data set {dataset} is not in {folder}. Prepare"
                " it there, or share the folder"
            )
        if _fingerprint(response.data) != expected:
            raise ValueError(
                f"machine {connection.name}: data set {dataset} in {folder} differs from the data"
                " set of this machine. Prepare it there from the same files"
            )


def _fingerprint(manifest: bytes) -> Any:
    """Return the fingerprint in a manifest, or the manifest if it has no fingerprint."""
    try:
        content = json.loads(manifest)
    except (ValueError, RecursionError):
        return manifest
    return (content.get("fingerprint") if isinstance(content, dict) else None) or content
