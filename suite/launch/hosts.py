"""Hosts of a run with their devices, cores, and addresses.

The processes of a run communicate through the addresses of the hosts. This module only defines data
structures. This module neither probes ports nor starts processes.
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
    """A machine that is available for runs, as its agent describes it."""

    name: str
    """Name of the machine, as `platform.node()` returns it."""
    address: str
    """Address at which all other hosts reach the machine."""
    interface: str
    """Name of the network interface that has the address."""
    cores: tuple[int, ...]
    """CPU cores that processes are allowed to use on the machine."""
    hardware: Mapping[str, Json]
    """Hardware of the machine, as `suite.machine.devices.hardware` returns it."""
    gpu_fault: str = ""
    """Reason why the machine's GPUs cannot be used, if a GPU does not respond.

    If the string is not empty, `hardware` lists no GPUs.
    """
    private_network_fault: str = ""
    """Reason why the machine cannot create a private network for a run
    (suite/launch/private_network.py).

    The string is empty if a private network can be created.
    """


@dataclass(frozen=True)
class Rendezvous:
    """Hosts of a run, with the TCP ports on which their processes listen."""

    hosts: tuple[Host, ...]
    ports: tuple[int, ...]
    """TCP port for each replica. The port is free on the replica's host."""
    server_port: int = 0
    """Free port on the first host for a parameter server. The port is 0 if the run has no
    server.
    """

    @property
    def master_address(self) -> str:
        """Return the address of the host with replica 0, to which all processes connect."""
        return self.hosts[0].address

    @property
    def master_port(self) -> int:
        """Return the port of replica 0, to which all processes connect."""
        return self.ports[0]

    @property
    def server_endpoint(self) -> str:
        """Return the address of the parameter server as `address:port`."""
        return f"{self.master_address}:{self.server_port}"

    @property
    def endpoints(self) -> list[str]:
        """Return the address of each replica as `address:port`, ordered by replica id."""
        addresses = [host.address for host in self.hosts for _ in host.replicas]
        return [f"{address}:{port}" for address, port in zip(addresses, self.ports, strict=True)]


def hosts_of(run: RunSpec) -> tuple[Host, ...]:
    """Return the hosts of a run, ordered by their replicas.

    If the specification contains no hosts, the only host is this machine with all devices.

    Raises:
        ValueError: The hosts are inconsistent with each other or with the number of devices of the
            run.
    """
    devices = run.settings.devices
    if not run.hosts:
        return (Host(platform.node(), LOOPBACK, 0, tuple(range(devices)), run.cores),)
    _check(run.hosts, devices)
    return run.hosts


def assign_devices(nodes: Sequence[AvailableHost], devices: int, on_cpu: bool) -> tuple[Host, ...]:
    """Split the devices of a run evenly across nodes, and return the hosts.

    If the run has a single host, its processes communicate over the loopback interface.

    Args:
        nodes: Machines of the run.
        devices: Number of devices of the run, which is a multiple of the number of nodes.
        on_cpu: True if the devices are CPU cores. The returned hosts then list the cores of their
            nodes.
    """
    local = tuple(range(devices // len(nodes)))
    if len(nodes) == 1:
        nodes = [replace(nodes[0], address=LOOPBACK, interface="")]
    return tuple(
        Host(
            node.name,
            node.address,
            number * len(local),
            local,
            node.cores if on_cpu else (),
            node.interface,
        )
        for number, node in enumerate(nodes)
    )


def _check(hosts: Sequence[Host], devices: int) -> None:
    names = [host.name for host in hosts]
    if len(set(names)) < len(names):
        raise ValueError(f"hosts {', '.join(names)}: a host is listed twice. List each host once")
    if list(itertools.chain.from_iterable(host.replicas for host in hosts)) != list(range(devices)):
        numbers = ", ".join(f"{host.name} {list(host.replicas)}" for host in hosts)
        raise ValueError(
            f"hosts: {numbers}: the devices must be numbered from 0 to {devices - 1} in the order"
            " of the hosts"
        )
    if len({len(host.replicas) for host in hosts}) > 1:
        counts = ", ".join(f"{host.name} {len(host.replicas)}" for host in hosts)
        raise ValueError(
            f"hosts: {counts} devices: the number of devices must be the same on every host"
        )
    for host in hosts:
        if len(hosts) > 1 and is_loopback(host.address):
            raise ValueError(
                f"host {host.name}: only the host itself can reach {host.address}. Set its address"
                " on the network"
            )
