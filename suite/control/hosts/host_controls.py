"""Create the `HostControl` of each machine of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.common.runspec import Host
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.host_control import HostControl
from suite.control.hosts.remote_host import RemoteHost
from suite.control.hosts.this_host import ThisHost
from suite.control.machine_records import MachineRecords
from suite.environments.environment import Environment

Links = Mapping[str, AgentConnection]
"""Maps the name of each machine to the connection to its agent.

The mapping is empty for a run on this machine only.
"""
NO_LINKS: Links = {}


def local_controls(
    hosts: Sequence[Host], folder: Path, environment: Environment
) -> list[HostControl]:
    """Return the controls of the hosts of a run without agents.

    If the run has several hosts, each host represents a share of this machine's devices.
    """
    return [ThisHost(host, folder, environment) for host in hosts]


def remote_control(
    connections: Links, host: Host, folder: Path, environment: Environment, records: MachineRecords
) -> HostControl:
    """Start a run on a machine with an agent, and return the machine's control.

    Raises ConnectionLost if the agent does not respond.
    """
    return RemoteHost(connections[host.name], host, environment, folder, records.folder_of(host))
