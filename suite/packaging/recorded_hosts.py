"""Nodes of a run, as recorded in `run.json` and in each node's `topology.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from suite.common.run_folder import machine_folder
from suite.packaging.untrusted import Recorded
from suite.results.logs.record import RunRecord

_NODES_LIMIT = 10_000


@dataclass(frozen=True)
class RecordedHost:
    """A recorded machine of a run. Unrecorded properties are empty."""

    name: str
    """Name of the machine. The string is empty if the run used a single machine."""
    interface: str
    """Network interface through which the other nodes reach this machine, such as `eth0` or
    `ib0`.
    """
    topology: Recorded
    hardware: Recorded


def recorded_hosts(record: RunRecord) -> list[RecordedHost]:
    """Return the nodes of a run, ordered like the run's devices.

    The list always contains at least one node.
    """
    folder = record.path.parent
    run = Recorded.read(folder / "run.json")
    hardware, hosts = run.part("hardware"), run.parts("hosts", _NODES_LIMIT)
    if len(hosts) < 2:
        return [RecordedHost("", "", Recorded.read(folder / "topology.json"), hardware)]
    parts = hardware.parts("nodes", len(hosts))
    parts += [Recorded({})] * (len(hosts) - len(parts))
    nodes = []
    for host, part in zip(hosts, parts, strict=True):
        name = host.text("name")
        topology = Recorded.read(machine_folder(folder, name, len(hosts)) / "topology.json")
        nodes.append(RecordedHost(name, host.text("interface"), topology, part))
    return nodes


def hosts_note(nodes: Sequence[RecordedHost], device: str) -> str:
    """Return a note about the nodes, such as `2 nodes: a (16 x CPU X, …), b (…)`.

    Nodes with the same hardware share a description, as in `2 nodes (…): a, b`.
    """
    texts = [_hardware_text(node, device) for node in nodes]
    names = [node.name or "unnamed" for node in nodes]
    if len(set(texts)) == 1:
        return f"{len(nodes)} nodes{f' ({texts[0]})' if texts[0] else ''}: {', '.join(names)}"
    each = (f"{name} ({text or 'unknown'})" for name, text in zip(names, texts, strict=True))
    return f"{len(nodes)} nodes: {', '.join(each)}"


def networking(node: RecordedHost) -> str:
    """Describe the network interface and the InfiniBand ports of a node.

    An example is `eth0, 25000 Mbit/s, driver mlx5_core`.
    """
    network = node.topology.part("network")
    named = (
        item
        for item in network.parts("interfaces")
        if node.interface and item.text("name") == node.interface
    )
    chosen = next(named, Recorded({}))
    speed, driver = chosen.count("megabits_per_second"), chosen.text("driver")
    parts = [
        node.interface,
        f"{speed} Mbit/s" if speed else "",
        f"driver {driver}" if driver else "",
    ]
    for port in network.parts("infiniband", 100):
        parts.append(" ".join(filter(None, map(port.text, ("device", "link_layer", "rate")))))
    return ", ".join(filter(None, parts))


def _hardware_text(node: RecordedHost, device: str) -> str:
    part = node.hardware
    cores = part.count("cpu_cores")
    parts = [part.text("cpu_model"), f"{cores} cores" if cores else "", part.gib("memory_bytes")]
    if device != "cpu":
        models = Counter(gpu.text("name") or "GPU" for gpu in part.parts("gpus"))
        parts += [f"{count} x {name}" for name, count in models.items()]
    return ", ".join(filter(None, [*parts, networking(node)]))
