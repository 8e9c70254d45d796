"""The machines of a run: which devices and cores each has, and where their processes meet.

Values only: nothing here probes a port or starts a process.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from suite.common.runspec import Host, RunSpec
from suite.launch.network import LOOPBACK, is_loopback
from workloads.api import Json


@dataclass(frozen=True)
class AvailableHost:
    """A machine that runs may take, as its agent describes it."""

    name: str
    """As `platform.node()` says there."""
    address: str
    """Where the others reach it."""
    interface: str
    """The network interface that has this address."""
    cores: tuple[int, ...]
    """CPU cores that processes may use there."""
    hardware: Mapping[str, Json]
    """What `suite.machine.devices.hardware` gives there."""
    gpu_fault: str = ""
    """Why its GPUs cannot be used, if one does not answer; `hardware` has none then."""
    private_network_fault: str = ""
    """Why it cannot make a private network for a run (suite/launch/private_network.py); empty: it can."""


@dataclass(frozen=True)
class Rendezvous:
    """The hosts of a run with the TCP ports that their processes listen on."""

    hosts: tuple[Host, ...]
    ports: tuple[int, ...]
    """One per replica, free on that replica's host."""
    server_port: int = 0
    """Free on the first host, for a parameter server; 0: there is none."""

    @property
    def master_address(self) -> str:
        """Where replica 0 is reached: all processes meet there."""
        return self.hosts[0].address

    @property
    def master_port(self) -> int:
        """The port on which they meet."""
        return self.ports[0]

    @property
    def server_endpoint(self) -> str:
        """`address:port` of a parameter server."""
        return f"{self.master_address}:{self.server_port}"

    @property
    def endpoints(self) -> list[str]:
        """`address:port` of every replica, in global order."""
        addresses = [host.address for host in self.hosts for _ in host.replicas]
        return [f"{address}:{port}" for address, port in zip(addresses, self.ports, strict=True)]


def hosts_of(run: RunSpec) -> tuple[Host, ...]:
    """The hosts of a run in the order of their replicas; where it names none, this machine with all devices.

    Raises ValueError if they do not fit together or the run's devices.
    """
    devices = run.settings.devices
    if not run.hosts:
        return (Host(platform.node(), LOOPBACK, 0, tuple(range(devices)), run.cores),)
    _check(run.hosts, devices)
    return run.hosts


def spread(nodes: Sequence[AvailableHost], devices: int, on_cpu: bool) -> tuple[Host, ...]:
    """The hosts of `devices` that are dealt out to the nodes in order, equally many to each.

    The processes of a host that is alone meet inside it.
    """
    local = tuple(range(devices // len(nodes)))
    if len(nodes) == 1:
        nodes = [replace(nodes[0], address=LOOPBACK, interface="")]
    return tuple(
        Host(node.name, node.address, number * len(local), local, node.cores if on_cpu else (), node.interface)
        for number, node in enumerate(nodes)
    )


def _check(hosts: Sequence[Host], devices: int) -> None:
    names = [host.name for host in hosts]
    if len(set(names)) < len(names):
        raise ValueError(f"hosts {', '.join(names)}: one is named twice; give every machine once")
    if list(itertools.chain.from_iterable(host.replicas for host in hosts)) != list(range(devices)):
        numbers = ", ".join(f"{host.name} {list(host.replicas)}" for host in hosts)
        raise ValueError(
            f"hosts: {numbers}: the devices must be numbered from 0 to {devices - 1} in the order of the hosts"
        )
    if len({len(host.replicas) for host in hosts}) > 1:
        counts = ", ".join(f"{host.name} {len(host.replicas)}" for host in hosts)
        raise ValueError(f"hosts: {counts} device(s): the number must be the same on every host")
    for host in hosts:
        if len(hosts) > 1 and is_loopback(host.address):
            raise ValueError(
                f"host {host.name}: {host.address} is reached from that machine alone; give its address on the network"
            )
