"""Several machines and the network between them: up, unplugged, down."""

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
"""In the folder of machines: what `Machines.load` reads."""
UP_SECONDS = 15.0
INIT = Path(__file__).with_name("init.py")
PROJECT = Path(__file__).resolve().parents[2]
BURST = "32kb"
"""Of the token bucket, two of its packets: what fits the bucket costs no time.

191 of 200 Mbit/s and 906 of 1,000 arrive as payload (one trial, busy machine)."""
SEGMENTS = ("gso_max_size", "16384", "gso_max_segs", "11")
"""Packets that fit into the bucket."""


@dataclasses.dataclass(frozen=True)
class Machines:
    """A hub and nodes `node1`, `node2`, … that reach each other by name."""

    folder: Path
    hub: Machine
    nodes: tuple[Machine, ...]

    @property
    def all(self) -> tuple[Machine, ...]:
        """The hub first."""
        return (self.hub, *self.nodes)

    def __getitem__(self, name: str) -> Machine:
        """The machine of this name. Raises KeyError."""
        return {machine.name: machine for machine in self.all}[name]

    @classmethod
    @contextlib.contextmanager
    def up(cls, folder: Path, count: int, rate: str | None = None) -> Iterator[Machines]:
        """`count` nodes for the length of a `with`; they die with this process too.

        Arguments as of `make`.
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
        """Make a hub and `count` nodes, files in `folder`; each node sends at most `rate`, as `tc`
        writes it (`200mbit`).

        Raises FileNotFoundError for a missing program, AssertionError if a machine does not come
        up.
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
        made: list[Machine] = []
        try:
            for name, address in addresses.items():
                made.append(
                    _make_one(
                        folder, name, address, hosts, made[0].init if made else None, die_with_us
                    )
                )
            made[1:] = [
                dataclasses.replace(node, cores=_share(number, count))
                for number, node in enumerate(made[1:])
            ]
            machines = cls(folder, made[0], tuple(made[1:]))
            machines._connect(rate)
            write_atomically(folder / STATE, json.dumps([machine.record() for machine in made]))
        except BaseException:
            for machine in made:
                machine.power_off()
            for name in addresses:
                shutil.rmtree(folder / name, ignore_errors=True)
            raise
        return machines

    @classmethod
    def load(cls, folder: Path) -> Machines:
        """Those that another process made in `folder`. Raises OSError."""
        folder = folder.resolve()
        values = json.loads((folder / STATE).read_text())
        parts = (
            {**value, "folder": Path(value["folder"]), "cores": tuple(value["cores"])}
            for value in values
        )
        made = [Machine(**part) for part in parts]
        return cls(folder, made[0], tuple(made[1:]))

    def _connect(self, rate: str | None) -> None:
        """A bridge on the hub, to which a cable leads from each node."""
        _ip(self.hub, "link set lo up", "link add br0 type bridge", f"addr add {self.hub.address}/24 dev br0",
            "link set br0 up", *(
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
        """Take the node's cable out: nobody is told."""
        _ip(self.hub, f"link set to-{node.name} down")

    def plug(self, node: Machine) -> None:
        """Put the cable in again; it may take two seconds until others find the node."""
        _ip(self.hub, f"link set to-{node.name} up")

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Machine to its processes but process 1, of machines that have any."""
        found = {machine.name: machine.processes() for machine in self.all}
        return {name: processes for name, processes in found.items() if processes}

    def down(self) -> None:
        """End all processes of all machines, and remove what they wrote; logs of daemons stay.

        Can be called again.
        """
        for machine in (*self.nodes, self.hub):
            machine.power_off()
        for machine in self.all:
            shutil.rmtree(machine.folder, ignore_errors=True)
        (self.folder / STATE).unlink(missing_ok=True)


def _make_one(
    folder: Path, name: str, address: str, hosts: str, first: int | None, die_with_us: bool
) -> Machine:
    own = folder / name
    (own / "tmp").mkdir(parents=True)
    (own / "tmp").chmod(0o1777)
    (own / "hosts").write_text(hosts)
    paths = {"tmp": str(own / "tmp"), "hosts": str(own / "hosts"), "keep": _kept(folder)}
    known = {"name": name, **paths, "fed": die_with_us}
    words = [
        *needs.unshare_command(user=first is None),
        sys.executable,
        "-I",
        "-S",
        str(INIT),
        json.dumps(known),
    ]
    if first is not None and os.geteuid() != 0:
        # All machines of a plain user are in one user namespace, that of the first: else no cable
        # could join them.
        words = [
            needs.program("nsenter"),
            f"--target={first}",
            "--user",
            "--preserve-credentials",
            *words,
        ]
    holder = subprocess.Popen(
        words, stdin=subprocess.PIPE if die_with_us else subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, cwd="/", env=environment(), start_new_session=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stderr is not None
    if holder.stdout.readline() != "ready\n":
        raise AssertionError(f"{name} does not come up: {holder.stderr.read().strip()}")
    init = only_child(holder)
    return Machine(name, address, own, init.pid, init.create_time(), holder=holder)


def _share(number: int, count: int) -> tuple[int, ...]:
    """The cores of node `number` of `count`: its own, equally many for each, where there are
    enough; else all.
    """
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // count
    return tuple(cores[number * each : (number + 1) * each] or cores)


def _kept(folder: Path) -> list[str]:
    """What is below /tmp here and stays there on machines: the code, its Pythons, its data, the
    machines' own folder.
    """
    pythons = (Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix))
    wanted = (folder, PROJECT, *pythons, env_root(), data_root())
    below = sorted({str(path) for path in wanted if path.is_relative_to("/tmp") and path.exists()})
    return [path for path in below if not any(path.startswith(f"{other}/") for other in below)]


def _ip(machine: Machine, *lines: str) -> None:
    """Commands of `ip` in the machine's network."""
    _command([*machine.enter("net"), needs.program("ip"), "-batch", "-"], "\n".join(lines))


def _command(words: Sequence[str], text: str = "") -> None:
    done = subprocess.run(
        words, input=text, capture_output=True, text=True, check=False, env=environment()
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}\n{text}"
