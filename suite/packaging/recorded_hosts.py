"""The nodes of a run, as `run.json` and each node's `topology.json` have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.common.run_folder import machine_folder
from suite.packaging.untrusted import (
    as_count,
    as_list,
    as_object,
    clean_text,
    count_text,
    gib_text,
    json_file_object,
)
from suite.results.logs.record import RunRecord
from workloads.api import Json

_NODES_LIMIT = 10_000


@dataclass(frozen=True)
class RecordedHost:
    """One machine of a run; what was not recorded is empty."""

    name: str
    """Empty for the only machine of a run."""
    interface: str
    """Where the other nodes reach it: `eth0`, `ib0`."""
    topology: Mapping[str, Json]
    hardware: Mapping[str, Json]


def recorded_hosts(record: RunRecord) -> list[RecordedHost]:
    """The nodes of a run in the order of their devices, at least one."""
    folder = record.path.parent
    run = json_file_object(folder / "run.json")
    hardware = as_object(run.get("hardware"))
    hosts = [as_object(host) for host in as_list(run.get("hosts"))[:_NODES_LIMIT]]
    if len(hosts) < 2:
        return [RecordedHost("", "", json_file_object(folder / "topology.json"), hardware)]
    parts = [as_object(part) for part in as_list(hardware.get("nodes"))]
    parts += [{} for _ in hosts[len(parts) :]]
    nodes = []
    for host, part in zip(hosts, parts[: len(hosts)], strict=True):
        name = clean_text(host.get("name"))
        topology = json_file_object(machine_folder(folder, name, len(hosts)) / "topology.json")
        nodes.append(RecordedHost(name, clean_text(host.get("interface")), topology, part))
    return nodes


def hosts_note(nodes: Sequence[RecordedHost], device: str) -> str:
    """`2 nodes: a (16 x CPU X, …), b (…)`; nodes that are alike are told once: `2 nodes (…): a, b`."""
    texts = [_hardware_text(node, device) for node in nodes]
    names = [node.name or "unnamed" for node in nodes]
    if len(set(texts)) == 1:
        return f"{len(nodes)} nodes{f' ({texts[0]})' if texts[0] else ''}: {', '.join(names)}"
    each = (f"{name} ({text or 'unknown'})" for name, text in zip(names, texts, strict=True))
    return f"{len(nodes)} nodes: {', '.join(each)}"


def networking(node: RecordedHost) -> str:
    """The interface that leads to the other nodes, `eth0, 25000 Mbit/s, driver mlx5_core`, and InfiniBand's ports."""
    network = as_object(node.topology.get("network"))
    interfaces = [as_object(item) for item in as_list(network.get("interfaces"))[:1000]]
    own = next((item for item in interfaces if node.interface and item.get("name") == node.interface), {})
    speed, driver = as_count(own.get("megabits_per_second")), clean_text(own.get("driver"))
    parts = [node.interface] if node.interface else []
    parts += [f"{speed} Mbit/s"] if speed else []
    parts += [f"driver {driver}"] if driver else []
    for port in map(as_object, as_list(network.get("infiniband"))[:100]):
        words = (clean_text(port.get(key)) for key in ("device", "link_layer", "rate"))
        parts.append(" ".join(word for word in words if word))
    return ", ".join(part for part in parts if part)


def _hardware_text(node: RecordedHost, device: str) -> str:
    part = node.hardware
    cores = as_count(part.get("cpu_cores"))
    words = [clean_text(part.get("cpu_model"))] + ([f"{cores} cores"] if cores else [])
    words.append(gib_text(part.get("memory_bytes")))
    if device != "cpu":
        models: dict[str, int] = {}
        for gpu in as_list(part.get("gpus"))[:1000]:
            name = clean_text(as_object(gpu).get("name")) or "GPU"
            models[name] = models.get(name, 0) + 1
        words += [f"{count_text(count)} x {name}" for name, count in models.items()]
    words.append(networking(node))
    return ", ".join(word for word in words if word)
