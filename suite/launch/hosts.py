"""The machines of a run: which devices and cores each has, how Python is reached there, and where their processes meet.

Values only: nothing here probes a port or starts a process.
"""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from suite.common.runspec import RunSpec
from suite.launch.network import LOOPBACK, is_loopback
from workloads.api import Json


class Interpreter(Protocol):
    """How Python is reached on a host; `suite.environments.environment.Environment` is one."""

    @property
    def argv_prefix(self) -> tuple[str, ...]:
        """What stands before every command: `("docker", "run", …)`."""
        ...

    def command(self, *args: str | os.PathLike[str]) -> list[str]:
        """The argv that runs Python with `args`."""
        ...

    def map_path(self, path: str | os.PathLike[str]) -> str:
        """The path as that Python sees it."""
        ...

    def of_process(self, folder: Path, name: str, variables: Mapping[str, str]) -> Interpreter:
        """The same for process `name` of the run in `folder`, which is told `variables`."""
        ...

    def ending(self, folder: Path, names: Sequence[str]) -> list[str]:
        """The argv that ends what outlives these processes of that run; empty: nothing does."""
        ...


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

    def record(self, first_replica: int, count: int, on_cpu: bool) -> dict[str, Json]:
        """What `run.json` holds of it as the host of `count` devices."""
        host = Host(
            self.name,
            self.address,
            range(first_replica, first_replica + count),
            tuple(range(count)),
            self.cores if on_cpu else (),
            interface=self.interface,
        )
        return host.record()


@dataclass(frozen=True)
class Host:
    """One machine of a run."""

    name: str
    """As `platform.node()` says there."""
    address: str
    """Where the other hosts reach it: a name or an IPv4 address, without a port."""
    replicas: range
    """The global numbers of its devices."""
    devices: tuple[int, ...]
    """The local numbers of its devices, in the order of `replicas`; on a GPU machine those inside CUDA_VISIBLE_DEVICES."""
    cores: tuple[int, ...]
    """CPU cores that its devices share (`device=cpu`), else empty."""
    environment: Interpreter | None = None
    """None: as a worker sees it, which starts nothing."""
    interface: str = ""
    """The network interface that has the address; empty for a host that is alone."""

    @property
    def is_here(self) -> bool:
        """True on that machine itself."""
        return self.name == platform.node()

    @property
    def shows_processes(self) -> bool:
        """True if the ids of its workers are ids here: neither on another machine nor inside a container."""
        return self.is_here and self.environment is not None and not self.environment.argv_prefix

    def record(self) -> dict[str, Json]:
        """What `run.json` holds of it; `hosts_of` is the inverse."""
        return {
            "name": self.name,
            "address": self.address,
            "first_replica": self.replicas.start,
            "devices": list(self.devices),
            "cores": list(self.cores),
            **({"interface": self.interface} if self.interface else {}),
        }


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


def hosts_of(run: RunSpec, environment: Interpreter | None = None) -> tuple[Host, ...]:
    """The hosts that `run.hosts` names, in the order of their replicas; without any, this machine with all devices.

    Raises ValueError if they do not fit together or the run's devices.
    """
    devices = run.settings.devices
    if not run.hosts:
        return (Host(platform.node(), LOOPBACK, range(devices), tuple(range(devices)), run.cores, environment),)
    hosts = tuple(_from_record(record, environment) for record in run.hosts)
    _check(hosts, devices)
    return hosts


def spread(nodes: Sequence[AvailableHost], devices: int, on_cpu: bool) -> tuple[dict[str, Json], ...]:
    """Records of the hosts of `devices` that are dealt out to the nodes in order, equally many to each.

    The processes of a host that is alone meet inside it.
    """
    each = devices // len(nodes)
    if len(nodes) == 1:
        nodes = [replace(nodes[0], address=LOOPBACK, interface="")]
    return tuple(node.record(number * each, each, on_cpu) for number, node in enumerate(nodes))


def recorded(run: RunSpec) -> RunSpec:
    """The run with its hosts spelled out: a worker in a container knows its machine by another name."""
    return replace(run, hosts=tuple(host.record() for host in hosts_of(run)))


def _from_record(record: Mapping[str, Json], environment: Interpreter | None) -> Host:
    first, devices = record["first_replica"], tuple(record["devices"])
    replicas = range(first, first + len(devices))
    cores, interface = tuple(record["cores"]), record.get("interface", "")
    return Host(record["name"], record["address"], replicas, devices, cores, environment, interface)


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
