"""Interconnects: bandwidth and latency inside and between nodes, and what an all-reduce or a parameter server takes on them.

`systems.yaml` and a user's file describe systems; `study=allreduce` measures links, which take the place of described ones.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from suite.results.fits import LinkFit, fit_link
from suite.results.identity import Row
from workloads.api import GradientTraffic

_SHIPPED = Path(__file__).with_name("systems.yaml")
_GB = 1e9
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class Link:
    """One level of an interconnect: of one port bandwidth, of one step of a ring latency, ports that move parts at once."""

    bytes_per_second: float
    latency_seconds: float
    ports: int = 1


@dataclass(frozen=True)
class Traffic:
    """Where the seconds of one all-reduce go: bandwidth inside and between nodes, latency, and cost of each tensor."""

    inside: float = 0.0
    between: float = 0.0
    latency: float = 0.0
    tensors: float = 0.0

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
    between: Link | None  # none: one node only
    seconds_per_tensor: float = 0.0
    """What every gradient tensor costs besides its bytes; 0 where small tensors travel together."""
    host: Link | None = None  # A parameter server on the host, through which all gradients go, in place of rings

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
        if not isinstance(content, dict):
            raise ValueError("give NAME: with title, devices_per_node, inside and between below it")
        return {str(name): _system(str(name), entry) for name, entry in content.items()}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: no description of a system ({' '.join(str(error).split())[:160]})") from None


_LINKS = ("inside", "between", "host")


def _system(name: str, entry: object) -> System:
    values = _entry(name, entry, ("title", "devices_per_node", "us_per_tensor", *_LINKS))
    links = [None if values.get(key) is None else _link(f"{name}.{key}", values[key]) for key in _LINKS]
    devices = int(_number(name, values, "devices_per_node", None, least=1.0))
    if links[0] is None:
        raise ValueError(f"{name}: give inside: {{gb_per_second: …, latency_us: …}}")
    title, each = str(values.get("title", name)), _number(name, values, "us_per_tensor", 0.0) * 1e-6
    return System(name, title, devices, links[0], links[1], each, links[2])


def _link(name: str, entry: object) -> Link:
    values = _entry(name, entry, ("gb_per_second", "gb_per_second_per_port", "latency_us", "ports", "source"))
    key = "gb_per_second_per_port" if "gb_per_second_per_port" in values else "gb_per_second"
    bandwidth, latency = _number(name, values, key, None, least=1e-6), _number(name, values, "latency_us", 0.0)
    return Link(bandwidth * _GB, latency * 1e-6, int(_number(name, values, "ports", 1.0, least=1.0)))


def _entry(name: str, entry: object, allowed: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(entry, dict) or not entry.keys() <= set(allowed):
        unknown = [str(key) for key in entry if key not in allowed] if isinstance(entry, dict) else [str(entry)]
        raise ValueError(f"{name}: {unknown[0][:40]} is not known; allowed: {', '.join(allowed)}")
    return entry


def _number(name: str, entry: Mapping[str, object], key: str, default: float | None, least: float = 0.0) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1e9:
        raise ValueError(f"{name}: {key} is {str(value)[:20]}; give a number from {least:g} on")
    return float(value)


_GRADIENTS_IN = "fp32"
"""The precision in which all three frameworks sum gradients."""


@dataclass(frozen=True)
class MeasuredLink:
    """Latency and bandwidth between devices of one kind, in one framework."""

    place: tuple[str, ...]  # framework, system, kind of device
    asked: str  # `link` of the runs: `auto`, `no_p2p`, `network`
    several_machines: bool
    on_cpu: bool  # the cores that compute carry the bytes too, so nothing travels beside a backward pass
    devices: tuple[int, ...]
    fit: LinkFit

    @property
    def text(self) -> str:
        """`all-reduces measured on 2 devices: α 41 µs, B 1.9 GB/s`."""
        counts = ", ".join(map(str, self.devices))
        figures = f"α {self.fit.alpha_seconds * 1e6:.3g} µs, B {self.fit.bytes_per_second / _GB:.3g} GB/s"
        return f"all-reduces measured on {counts} devices: {figures}"


def _place(row: Row) -> tuple[str, ...]:
    return row.framework, row.system, row.device_name or row.device


def measured_links(results: Iterable[Row]) -> list[MeasuredLink]:
    """A link for each framework, system, kind of device and way that all-reduces in fp32 were timed on."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in results:
        if row.all_reduces and row.precision == _GRADIENTS_IN and row.devices is not None:
            groups.setdefault((_place(row), row.link, (row.nodes or 1) > 1), []).append(row)
    found = []
    for members in groups.values():
        first, fit = members[0], fit_link(sums for row in members for sums in row.all_reduces)
        counts, several = tuple(sorted({row.devices for row in members})), (first.nodes or 1) > 1
        if fit is not None:
            found.append(MeasuredLink(_place(first), first.link, several, first.device == "cpu", counts, fit))
    return found


def link_of(row: Row, links: Iterable[MeasuredLink]) -> MeasuredLink | None:
    """The link between the devices of a result; of several the one within a machine, then the one nobody asked for."""
    same = [link for link in links if link.place == _place(row)]
    return min(same, key=lambda link: (link.several_machines, link.asked != "auto"), default=None)


def with_link(system: System | None, link: MeasuredLink) -> System:
    """A system with the measured link in place of its own: between its nodes if several machines were measured, else in a node.

    Without a system: as many devices as wanted on one such link, which nobody measured beyond `link.devices`.
    """
    measured = Link(link.fit.bytes_per_second, link.fit.alpha_seconds)
    if system is None:
        return System("measured", link.text, 1_000_000, measured, None)
    inside, between = (system.inside, measured) if link.several_machines else (measured, system.between)
    return replace(system, title=f"{system.title}; {link.text}", inside=inside, between=between)
