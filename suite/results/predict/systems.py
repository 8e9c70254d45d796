"""Interconnects: bandwidth and latency inside and between nodes, and what an all-reduce or a parameter server takes on them.

`systems.yaml` and a user's file describe systems; `study=allreduce` measures links, which take the place of described ones.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from suite.common.paths import expand_user
from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.predict.fits import LinkFit, fit_link
from workloads.api import GradientTraffic
from workloads.api.yaml_files import read_yaml

_SHIPPED = Path(__file__).with_name("systems.yaml")
_GB = 1e9


@dataclass(frozen=True)
class Interconnect:
    """One level of an interconnect: of one port bandwidth, of one step of a ring latency, ports that move parts at once."""

    bytes_per_second: float
    latency_seconds: float
    ports: int = 1

    def ring(self, members: int, gradients: GradientTraffic) -> tuple[float, float]:
        """Seconds of bandwidth and of latency, which every bucket pays, of an all-reduce by a ring."""
        hops, bandwidth = 2 * (members - 1), self.bytes_per_second * self.ports
        return hops / members * gradients.size_bytes / bandwidth, hops * self.latency_seconds * gradients.buckets


class Traffic(NamedTuple):
    """Where the seconds of one all-reduce go: bandwidth inside and between nodes, latency, and cost of each tensor."""

    inside: float = 0.0
    between: float = 0.0
    latency: float = 0.0
    tensors: float = 0.0

    @property
    def seconds(self) -> float:
        return sum(self)


@dataclass(frozen=True)
class System:
    """Nodes of equal devices."""

    name: str
    title: str
    devices_per_node: int
    inside: Interconnect
    between: Interconnect | None  # none: one node only
    seconds_per_tensor: float = 0.0
    """What every gradient tensor costs besides its bytes; 0 where small tensors travel together."""
    host: Interconnect | None = (
        None  # A parameter server on the host, through which all gradients go, in place of rings
    )

    def all_reduce(self, devices: int, gradients: GradientTraffic) -> Traffic:
        """Time to sum gradients over `devices`, by rings; through the host if there is a parameter server.

        Over several nodes: reduce-scatter in the node, a ring over the nodes for each port, all-gather in the node.
        Raises ValueError for more devices than one node holds if nothing connects nodes.
        """
        if devices < 2:
            return Traffic()
        tensors = self.seconds_per_tensor * gradients.tensors
        if self.host is not None:
            seconds = gradients.size_bytes * devices / self.host.bytes_per_second
            return Traffic(seconds, 0.0, self.host.latency_seconds * gradients.buckets, tensors)
        inside, latency = self.inside.ring(min(devices, self.devices_per_node), gradients)
        if devices <= self.devices_per_node:
            return Traffic(inside, 0.0, latency, tensors)
        if self.between is None:
            raise ValueError(f"{self.name}: {devices} devices on one node of {self.devices_per_node}; give `between`")
        between, more = self.between.ring(-(-devices // self.devices_per_node), gradients)
        return Traffic(inside, between, latency + more, tensors)


def find_system(name: str) -> System:
    """A system by its name, or from a file like `systems.yaml` with one entry. Raises ValueError (one line) otherwise."""
    if name in systems():
        return systems()[name]
    path = expand_user(name)
    if not path.is_file():
        near = difflib.get_close_matches(name, systems(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"--system {name[:80]}: neither a file nor one of {', '.join(systems())}{hint}")
    listed = systems(path)
    if len(listed) != 1:
        raise ValueError(
            f"--system {name}: {len(listed)} systems in it ({', '.join(listed)[:80]}); give a file with one"
        )
    return next(iter(listed.values()))


@functools.cache
def systems(path: Path = _SHIPPED) -> Mapping[str, System]:
    """The systems of a file, else those that come with the suite. Raises ValueError (one line), OSError."""
    content = read_yaml(path)
    try:
        if not isinstance(content, dict):
            raise ValueError("give NAME: with title, devices_per_node, inside and between below it")
        return {str(name): _system(str(name), entry) for name, entry in content.items()}
    except ValueError as error:
        raise ValueError(f"{path}: no description of a system ({' '.join(str(error).split())[:160]})") from None


def _system(name: str, entry: Any) -> System:
    known, links = {"devices_per_node": (None, 1.0), "us_per_tensor": (0.0, 0.0)}, ("inside", "between", "host")
    devices, each = _numbers(name, entry, known, ("title", *links))
    inside, between, host = (_link(f"{name}.{level}", entry[level]) if entry.get(level) else None for level in links)
    if inside is None:
        raise ValueError(f"{name}: give inside: {{gb_per_second: …, latency_us: …}}")
    return System(name, str(entry.get("title", name)), int(devices), inside, between, each * 1e-6, host)


def _link(name: str, entry: Any) -> Interconnect:
    known = {"gb_per_second": (None, 1e-6), "latency_us": (0.0, 0.0), "ports": (1.0, 1.0)}
    bandwidth, latency, ports = _numbers(name, entry, known, ("source",))
    return Interconnect(bandwidth * _GB, latency * 1e-6, int(ports))


def _numbers(name: str, entry: Any, known: Mapping[str, Any], others: tuple[str, ...]) -> list[float]:
    """The numbers of an entry; `known`: to the default (None: must be given) and the least. Raises ValueError."""
    unknown = [key for key in entry if key not in {*known, *others}] if isinstance(entry, dict) else [entry]
    if not isinstance(entry, dict) or unknown:
        raise ValueError(f"{name}: {str(unknown[0])[:40]} is not known; allowed: {', '.join([*known, *others])}")
    values = {key: entry.get(key, default) for key, (default, _) in known.items()}
    for key, value in values.items():
        least = known[key][1]
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1e9:
            raise ValueError(f"{name}: {key} is {str(value)[:20]}; give a number from {least:g} on")
    return [float(value or 0.0) for value in values.values()]


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
        figures = f"α {self.fit.alpha_seconds * 1e6:.3g} µs, B {self.fit.bytes_per_second / _GB:.3g} GB/s"
        return f"all-reduces measured on {', '.join(map(str, self.devices))} devices: {figures}"


def _place(row: Result) -> tuple[str, ...]:
    return row.framework, row.system, row.device_name or row.device


def measured_links(results: Iterable[Result]) -> list[MeasuredLink]:
    """A link for each framework, system, kind of device and way that all-reduces in fp32, as of gradients, were timed on."""
    summed = (row for row in results if row.all_reduces and row.precision == "fp32" and row.devices is not None)
    groups = grouped(summed, lambda row: (_place(row), row.link, (row.nodes or 1) > 1, row.device == "cpu"))
    return [
        MeasuredLink(place, asked, several, on_cpu, tuple(sorted({row.devices or 0 for row in members})), fit)
        for (place, asked, several, on_cpu), members in groups.items()
        if (fit := fit_link(sums for row in members for sums in row.all_reduces)) is not None
    ]


def link_of(row: Result, links: Iterable[MeasuredLink]) -> MeasuredLink | None:
    """The link between the devices of a result; of several the one within a machine, then the one nobody asked for."""
    same = [link for link in links if link.place == _place(row)]
    return min(same, key=lambda link: (link.several_machines, link.asked != "auto"), default=None)


def with_link(system: System | None, link: MeasuredLink) -> System:
    """A system with the measured link in place of its own: between its nodes if several machines were measured, else in a node.

    Without a system: as many devices as wanted on one such link, which nobody measured beyond `link.devices`.
    """
    measured = Interconnect(link.fit.bytes_per_second, link.fit.alpha_seconds)
    if system is None:
        return System("measured", link.text, 1_000_000, measured, None)
    inside, between = (system.inside, measured) if link.several_machines else (measured, system.between)
    return replace(system, title=f"{system.title}; {link.text}", inside=inside, between=between)
