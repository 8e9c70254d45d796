"""Interconnects: bandwidth and latency inside and between nodes, and what an all-reduce or a parameter server takes on them."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from workloads.api import GradientTraffic

_SHIPPED = Path(__file__).with_name("systems.yaml")
_GB = 1e9
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class Link:
    """One level of an interconnect."""

    bytes_per_second: float
    """Of one port."""
    latency_seconds: float
    """Of one step of a ring."""
    ports: int = 1
    """Port groups that move different parts at once."""
    source: str = ""


@dataclass(frozen=True)
class Traffic:
    """Where the seconds of one all-reduce go."""

    inside: float = 0.0
    """Bandwidth inside nodes."""
    between: float = 0.0
    """Bandwidth between nodes."""
    latency: float = 0.0
    tensors: float = 0.0
    """Cost of each tensor."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.inside + self.between + self.latency + self.tensors


@dataclass(frozen=True)
class System:
    """Nodes of equal devices."""

    name: str
    title: str
    devices_per_node: int
    inside: Link
    between: Link | None
    """None: one node only."""
    seconds_per_tensor: float = 0.0
    """What every gradient tensor costs besides its bytes; 0 where small tensors travel together."""
    host: Link | None = None
    """A parameter server on the host, through which all gradients go, in place of rings."""

    def all_reduce(self, devices: int, gradients: GradientTraffic) -> Traffic:
        """Time to sum gradients over `devices`, by rings; through the host if there is a parameter server.

        Every bucket pays each latency. Over several nodes: reduce-scatter in the node, a ring over the nodes for each port,
        all-gather in the node.
        Raises ValueError for more devices than one node holds if nothing connects nodes.
        """
        if devices < 2:
            return Traffic()
        size, per_tensor = gradients.size_bytes, self.seconds_per_tensor * gradients.tensors
        if self.host is not None:
            return Traffic(
                inside=size * devices / self.host.bytes_per_second,
                latency=self.host.latency_seconds * gradients.buckets,
                tensors=per_tensor,
            )
        inside = self.inside.bytes_per_second * self.inside.ports
        local = min(devices, self.devices_per_node)
        hops = 2 * (local - 1)
        latency = hops * self.inside.latency_seconds * gradients.buckets
        traffic = Traffic(hops / local * size / inside, 0.0, latency, per_tensor)
        nodes = -(-devices // self.devices_per_node)
        if nodes == 1:
            return traffic
        if self.between is None:
            raise ValueError(
                f"{self.name}: {devices} devices, and it has one node of {self.devices_per_node}; give `between`"
            )
        hops = 2 * (nodes - 1)
        between = hops / nodes * size / (self.between.bytes_per_second * self.between.ports)
        latency += hops * self.between.latency_seconds * gradients.buckets
        return Traffic(traffic.inside, between, latency, per_tensor)

    def bisection_bytes_per_second(self, nodes: int) -> float:
        """What half of the nodes can send to the other half and receive at once, in a fat tree that blocks nothing."""
        return 0.0 if self.between is None else nodes * self.between.ports * self.between.bytes_per_second


@functools.cache
def systems() -> Mapping[str, System]:
    """The systems that come with the suite."""
    return _read(_SHIPPED)


def find_system(name: str) -> System:
    """A system by its name, or from a file like `systems.yaml` with one entry. Raises ValueError (one line) otherwise."""
    if name in systems():
        return systems()[name]
    path = Path(name).expanduser()
    if path.is_file():
        found = _read(path)
        if len(found) != 1:
            raise ValueError(
                f"--system {name}: {len(found)} systems in it ({', '.join(found)[:80]}); give a file with one"
            )
        return next(iter(found.values()))
    near = difflib.get_close_matches(name, systems(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"--system {name[:80]}: neither a file nor one of {', '.join(systems())}{hint}")


def _read(path: Path) -> dict[str, System]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ValueError("larger than 1 MiB")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not all(isinstance(entry, dict) for entry in content.values()):
            raise ValueError("give NAME: with title, devices_per_node, inside and between below it")
        return {str(name): _system(str(name), entry) for name, entry in content.items()}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: no description of a system ({' '.join(str(error).split())[:160]})") from None


_KEYS = ("title", "devices_per_node", "inside", "between", "host", "us_per_tensor")
_LINK_KEYS = ("gb_per_second", "gb_per_second_per_port", "latency_us", "ports", "source")


def _system(name: str, entry: Mapping[str, object]) -> System:
    _refuse_unknown(name, entry, _KEYS)
    inside, between, host = (_link(f"{name}.{key}", entry.get(key)) for key in ("inside", "between", "host"))
    if inside is None:
        raise ValueError(f"{name}: give inside: {{gb_per_second: …, latency_us: …}}")
    return System(
        name=name,
        title=str(entry.get("title", name)),
        devices_per_node=int(_number(name, entry, "devices_per_node", least=1.0)),
        inside=inside,
        between=between,
        seconds_per_tensor=_number(name, entry, "us_per_tensor", default=0.0) * 1e-6,
        host=host,
    )


def _link(name: str, entry: object) -> Link | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise ValueError(f"{name}: give {{gb_per_second: …, latency_us: …}}")
    _refuse_unknown(name, entry, _LINK_KEYS)
    key = "gb_per_second_per_port" if "gb_per_second_per_port" in entry else "gb_per_second"
    return Link(
        bytes_per_second=_number(name, entry, key, least=1e-6) * _GB,
        latency_seconds=_number(name, entry, "latency_us", default=0.0) * 1e-6,
        ports=int(_number(name, entry, "ports", default=1.0, least=1.0)),
        source=str(entry.get("source", "")),
    )


def _refuse_unknown(name: str, entry: Mapping[str, object], allowed: tuple[str, ...]) -> None:
    unknown = [str(key) for key in entry if key not in allowed]
    if unknown:
        raise ValueError(f"{name}: {unknown[0]} is not known; allowed: {', '.join(allowed)}")


def _number(
    name: str, entry: Mapping[str, object], key: str, default: float | None = None, least: float = 0.0
) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1e9:
        raise ValueError(f"{name}: {key} is {str(value)[:20]}; give a number from {least:g} on")
    return float(value)
