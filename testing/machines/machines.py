"""Start, disconnect, and stop several virtual machines and their network."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from suite.common.paths import data_root, env_root
from suite.common.runspec import write_atomically
from testing.machines import needs
from testing.machines.machine import Machine, environment, only_child

NETWORK = ipaddress.ip_network("10.77.0.0/24")
HUB = "hub"
STATE = "machines.json"
"""Name of the state file in the machines' folder. `Machines.load` reads the state file."""
UP_SECONDS = 15.0
INIT = Path(__file__).with_name("init.py")
PROJECT = Path(__file__).resolve().parents[2]
BURST = "32kb"
"""Burst size of the token bucket, which corresponds to two packets. Data that fit into the
bucket are not delayed.

Payload was transferred at 191 of 200 Mbit/s and at 906 of 1,000 Mbit/s (one trial, busy
machine).
"""
SEGMENTS = ("gso_max_size", "16384", "gso_max_segs", "11")
"""Options of `ip link` that limit the size of packets, so that a packet fits into the token
bucket.
"""


@dataclasses.dataclass(frozen=True)
class Machines:
    """A hub and nodes `node1`, `node2`, ….

    Each machine can reach all other machines by name.
    """

    folder: Path
    hub: Machine
    nodes: tuple[Machine, ...]

    @property
    def all(self) -> tuple[Machine, ...]:
        """Return all machines, with the hub first."""
        return (self.hub, *self.nodes)

    def __getitem__(self, name: str) -> Machine:
        """Return the machine with this name.

        Raises KeyError if the machine does not exist.
        """
        return {machine.name: machine for machine in self.all}[name]

    @classmethod
    @contextlib.contextmanager
    def up(cls, folder: Path, count: int, rate: str | None = None) -> Iterator[Machines]:
        """Start `count` nodes for the duration of a `with` statement.

        If this process dies, the nodes also stop. The arguments are those of `make`.
        """
        machines = cls.make(folder, count, rate, die_with_us=True)
        try:
            yield machines
        finally:
            machines.down()

    @classmethod
    def make(
        cls, folder: Path, count: int, rate: str | None = None, die_with_us: bool = False
    ) -> Machines:
        """Start a hub and `count` nodes with their files in `folder`.

        Args:
            folder: Folder of the machines.
            count: Number of nodes.
            rate: Maximum send rate of each node, in the notation of `tc` (`200mbit`).
            die_with_us: True to stop the machines when this process dies.

        Raises:
            FileNotFoundError: A program is missing.
            AssertionError: A machine does not start.
        """
        folder = folder.resolve()
        addresses = {
            HUB: str(NETWORK[254]),
            **{f"node{n}": str(NETWORK[n]) for n in range(1, count + 1)},
        }
        hosts = "".join(
            f"{address} {name}\n"
            for name, address in {"localhost": "127.0.0.1", **addresses}.items()
        )
        created: list[Machine] = []
        try:
            for name, address in addresses.items():
                created.append(
                    _start_machine(
                        folder,
                        name,
                        address,
                        hosts,
                        created[0].init if created else None,
                        die_with_us,
                    )
                )
            created[1:] = [
                dataclasses.replace(node, cores=_share(number, count))
                for number, node in enumerate(created[1:])
            ]
            machines = cls(folder, created[0], tuple(created[1:]))
            machines._connect(rate)
            write_atomically(folder / STATE, json.dumps([machine.record() for machine in created]))
        except BaseException:
            for machine in created:
                machine.power_off()
            for name in addresses:
                shutil.rmtree(folder / name, ignore_errors=True)
            raise
        return machines

    @classmethod
    def load(cls, folder: Path) -> Machines:
        """Return the machines that were started in `folder`.

        Raises OSError if no machines were started in this folder.
        """
        folder = folder.resolve()
        values = json.loads((folder / STATE).read_text())
        parts = (
            {**value, "folder": Path(value["folder"]), "cores": tuple(value["cores"])}
            for value in values
        )
        machines = [Machine(**part) for part in parts]
        return cls(folder, machines[0], tuple(machines[1:]))

    def _connect(self, rate: str | None) -> None:
        """Create a bridge on the hub and connect each node to it."""
        _ip(self.hub, "link set lo up", "link add br0 type bridge",
            f"addr add {self.hub.address}/24 dev br0", "link set br0 up", *(
                line for node in self.nodes for line in (
                    f"link add to-{node.name} type veth peer name eth0 netns {node.init}",
                    f"link set to-{node.name} master br0 up",
                )
            ))  # fmt: skip
        for node in self.nodes:
            _ip(node, "link set lo up", f"addr add {node.address}/24 dev eth0", "link set eth0 up")
            if rate is not None:
                _ip(node, f"link set eth0 {' '.join(SEGMENTS)}")
                bucket = ["root", "tbf", "rate", rate, "burst", BURST, "latency", "20ms"]
                _command(
                    [
                        *node.enter("net"),
                        needs.program("tc"),
                        "qdisc",
                        "add",
                        "dev",
                        "eth0",
                        *bucket,
                    ]
                )

    def unplug(self, node: Machine) -> None:
        """Disconnect a node from the network. No process is notified."""
        _ip(self.hub, f"link set to-{node.name} down")

    def plug(self, node: Machine) -> None:
        """Reconnect a node to the network. The hub may need two seconds to reach the node."""
        _ip(self.hub, f"link set to-{node.name} up")

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Map the name of each machine to its processes, except process 1.

        Machines without such processes are omitted.
        """
        found = {machine.name: machine.processes() for machine in self.all}
        return {name: processes for name, processes in found.items() if processes}

    def down(self) -> None:
        """Stop all processes of all machines, and remove the machines' files.

        The logs of the daemons are kept. The method may be called repeatedly.
        """
        for machine in (*self.nodes, self.hub):
            machine.power_off()
        for machine in self.all:
            shutil.rmtree(machine.folder, ignore_errors=True)
        (self.folder / STATE).unlink(missing_ok=True)


def _start_machine(
    folder: Path, name: str, address: str, hosts: str, first: int | None, die_with_us: bool
) -> Machine:
    path = folder / name
    (path / "tmp").mkdir(parents=True)
    (path / "tmp").chmod(0o1777)
    (path / "hosts").write_text(hosts)
    paths = {"tmp": str(path / "tmp"), "hosts": str(path / "hosts"), "keep": _kept(folder)}
    options = {"name": name, **paths, "fed": die_with_us}
    argv = [
        *needs.unshare_command(user=first is None),
        sys.executable,
        "-I",
        "-S",
        str(INIT),
        json.dumps(options),
    ]
    if first is not None and os.geteuid() != 0:
        # Without root permissions, all machines share the user namespace of the first machine. In
        # separate user namespaces, the machines could not be connected.
        argv = [
            needs.program("nsenter"),
            f"--target={first}",
            "--user",
            "--preserve-credentials",
            *argv,
        ]
    holder = subprocess.Popen(
        argv, stdin=subprocess.PIPE if die_with_us else subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, cwd="/", env=environment(), start_new_session=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stderr is not None
    if holder.stdout.readline() != "ready\n":
        raise AssertionError(f"{name} did not start: {holder.stderr.read().strip()}")
    init = only_child(holder)
    return Machine(name, address, path, init.pid, init.create_time(), holder=holder)


def _share(number: int, count: int) -> tuple[int, ...]:
    """Return the host cores on which node `number` of `count` nodes runs.

    Each node has the same number of dedicated cores. If there are fewer cores than nodes, every
    node runs on all cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // count
    return tuple(cores[number * each : (number + 1) * each] or cores)


def _kept(folder: Path) -> list[str]:
    """Return the paths below /tmp that remain visible on the machines.

    The paths are this checkout, its Python environments, its data, and the folder of the machines.
    """
    pythons = (Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix))
    wanted = (folder, PROJECT, *pythons, env_root(), data_root())
    below = sorted({str(path) for path in wanted if path.is_relative_to("/tmp") and path.exists()})
    return [path for path in below if not any(path.startswith(f"{parent}/") for parent in below)]


def _ip(machine: Machine, *lines: str) -> None:
    """Run `ip` commands in the network namespace of a machine."""
    _command([*machine.enter("net"), needs.program("ip"), "-batch", "-"], "\n".join(lines))


def _command(words: Sequence[str], text: str = "") -> None:
    done = subprocess.run(
        words, input=text, capture_output=True, text=True, check=False, env=environment()
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}\n{text}"
