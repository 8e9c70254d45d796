"""Interconnects: bandwidth and latency within and between nodes.

The bandwidth and latency determine the time of an all-reduce or a parameter server.

`systems.yaml` and a user's file describe systems. `study=allreduce` measures links. Measured links
replace described links.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from suite.catalog.yaml_files import read_yaml
from suite.common.paths import expand_user
from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.predict.fits import LinkFit, fit_link
from workloads.api import GradientAllReduceInfo, allowed_text

_SHIPPED = Path(__file__).with_name("systems.yaml")
_GB = 1e9


@dataclass(frozen=True)
class Interconnect:
    """Level of an interconnect: between the devices of a node, or between nodes.

    An interconnect has a bandwidth per port, a latency per ring step, and a number of parallel
    ports.
    """

    bytes_per_second: float
    latency_seconds: float
    ports: int = 1

    def ring(self, members: int, gradients: GradientAllReduceInfo) -> tuple[float, float]:
        """Return the bandwidth time and the latency time of a ring all-reduce in seconds.

        The latency time is added for each bucket.
        """
        hops, bandwidth = 2 * (members - 1), self.bytes_per_second * self.ports
        return (
            hops / members * gradients.size_bytes / bandwidth,
            hops * self.latency_seconds * gradients.buckets,
        )


class Traffic(NamedTuple):
    """Components of an all-reduce in seconds.

    The components are the bandwidth time within and between nodes, the latency, and the cost per
    tensor.
    """

    inside: float = 0.0
    between: float = 0.0
    latency: float = 0.0
    tensors: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the time of the all-reduce."""
        return sum(self)


@dataclass(frozen=True)
class System:
    """Nodes with identical devices."""

    name: str
    title: str
    devices_per_node: int
    inside: Interconnect
    between: Interconnect | None
    """Interconnect between nodes. None for a single node."""
    seconds_per_tensor: float = 0.0
    """Cost of a gradient tensor in addition to its bytes. The cost is 0 if small tensors are sent
    together.
    """
    host: Interconnect | None = None
    """Parameter server on the host that receives all gradients. None if rings are used instead."""

    def all_reduce(self, devices: int, gradients: GradientAllReduceInfo) -> Traffic:
        """Return the time to sum gradients over `devices`.

        The sum uses rings, or the host if the system has a parameter server.

        Over several nodes, the rings perform a reduce-scatter within each node, a ring over the
        nodes for each port, and an all-gather within each node.

        Raises:
            ValueError: The system has a single node with fewer devices.
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
            raise ValueError(
                f"{self.name}: {devices} devices on a node of {self.devices_per_node}. Add"
                " `between` to the system"
            )
        between, more = self.between.ring(-(-devices // self.devices_per_node), gradients)
        return Traffic(inside, between, latency + more, tensors)


def find_system(name: str) -> System:
    """Return a system by name, or from a file in the format of `systems.yaml`.

    The file must contain a single entry.

    Raises:
        ValueError: The system or file does not exist, or the file has several systems.
    """
    if name in systems():
        return systems()[name]
    if name in accelerators_without_links():
        accelerator = accelerators_without_links()[name]
        raise ValueError(
            f"--system {name}: the bandwidth between {accelerator} devices is not known. Set"
            " --system FILE with devices_per_node and inside, or leave out --system"
        )
    path = expand_user(name)
    if not path.is_file():
        matches = difflib.get_close_matches(name, systems(), n=1)
        hint = f". Did you mean {matches[0]}?" if matches else ""
        raise ValueError(
            f"--system {name[:80]}: expected a file or a system, {allowed_text(systems())}{hint}"
        )
    listed = systems(path)
    if len(listed) != 1:
        raise ValueError(
            f"--system {name}: expected a file with a single system, got {len(listed)}"
            f" ({', '.join(listed)[:80]})"
        )
    return next(iter(listed.values()))


@functools.cache
def systems(path: Path = _SHIPPED) -> Mapping[str, System]:
    """Return the systems in a file. The default is the file that the suite ships.

    Raises:
        ValueError: The file is not a valid description of systems.
        OSError: The file cannot be read.
    """
    content = read_yaml(path)
    try:
        if not isinstance(content, dict):
            raise ValueError(
                "expected entries NAME: with title, devices_per_node, inside, and between"
            )
        return {
            str(name): _system(str(name), entry)
            for name, entry in content.items()
            if not _has_only_peak(entry)
        }
    except ValueError as error:
        raise ValueError(
            f"{path}: invalid description of a system ({' '.join(str(error).split())[:160]})"
        ) from None


def _has_only_peak(entry: Any) -> bool:
    """Check whether an entry of a file has the peak of an accelerator, and no links."""
    return isinstance(entry, dict) and "peak" in entry and "inside" not in entry


@functools.cache
def accelerators_without_links() -> Mapping[str, str]:
    """Return the shipped entries without links: name to the kind of accelerator."""
    content: Any = read_yaml(_SHIPPED)
    return {
        str(name): str(entry["peak"]["accelerator"])
        for name, entry in content.items()
        if _has_only_peak(entry)
    }


@functools.cache
def bf16_peaks() -> Mapping[str, float]:
    """Return the dense BF16 peak in FLOP/s of each kind of accelerator with a known peak."""
    content: Any = read_yaml(_SHIPPED)
    peaks = [entry["peak"] for entry in content.values() if "peak" in entry]
    return {
        str(peak["accelerator"]): float(peak["bf16_tflops"]) * 1e12
        for peak in peaks
        if "bf16_tflops" in peak
    }


def _system(name: str, entry: Any) -> System:
    allowed, links = (
        {"devices_per_node": (None, 1.0), "us_per_tensor": (0.0, 0.0)},
        ("inside", "between", "host"),
    )
    devices, us_per_tensor = _numbers(name, entry, allowed, ("title", *links))
    inside, between, host = (
        _link(f"{name}.{level}", entry[level]) if entry.get(level) else None for level in links
    )
    if inside is None:
        raise ValueError(
            f"{name}: inside is missing. Add inside: {{gb_per_second: …, latency_us: …}}"
        )
    return System(
        name,
        str(entry.get("title", name)),
        int(devices),
        inside,
        between,
        us_per_tensor * 1e-6,
        host,
    )


def _link(name: str, entry: Any) -> Interconnect:
    allowed = {"gb_per_second": (None, 1e-6), "latency_us": (0.0, 0.0), "ports": (1.0, 1.0)}
    bandwidth, latency, ports = _numbers(name, entry, allowed, ("source",))
    return Interconnect(bandwidth * _GB, latency * 1e-6, int(ports))


def _numbers(
    name: str, entry: Any, allowed: Mapping[str, Any], text_keys: tuple[str, ...]
) -> list[float]:
    """Return the numbers of an entry.

    Args:
        name: Name of the entry for messages.
        entry: Content of the file.
        allowed: Default (None if the key is required) and minimum of each key.
        text_keys: Further keys of the entry, which have strings.

    Raises:
        ValueError: A key is unknown or missing, or a value is out of range.
    """
    unknown = (
        [key for key in entry if key not in {*allowed, *text_keys}]
        if isinstance(entry, dict)
        else [entry]
    )
    if not isinstance(entry, dict) or unknown:
        raise ValueError(
            f"{name}: unknown key {str(unknown[0])[:40]}, {allowed_text([*allowed, *text_keys])}"
        )
    values = {key: entry.get(key, default) for key, (default, _) in allowed.items()}
    for key, value in values.items():
        least = allowed[key][1]
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not least <= value <= 1e9
        ):
            raise ValueError(
                f"{name}: {key}={str(value)[:20]}: expected a number of at least {least:g}"
            )
    return [float(value or 0.0) for value in values.values()]


@dataclass(frozen=True)
class MeasuredLink:
    """Measured latency and bandwidth between devices of the same model, in one framework."""

    location: tuple[str, ...]
    """Framework, system, and device model."""
    transport: str
    """`transport` of the runs: `auto`, `no_p2p`, `network`."""
    several_machines: bool
    on_cpu: bool
    """True if the cores that compute also transfer the gradients. The all-reduce then does not
    overlap with the backward pass.
    """
    devices: tuple[int, ...]
    fit: LinkFit

    @property
    def text(self) -> str:
        """Return a summary such as `all-reduces measured on 2 devices: α 41 µs, B 1.9 GB/s`."""
        figures = (
            f"α {self.fit.alpha_seconds * 1e6:.3g} µs, B {self.fit.bytes_per_second / _GB:.3g} GB/s"
        )
        return f"all-reduces measured on {', '.join(map(str, self.devices))} devices: {figures}"


def _location(result: Result) -> tuple[str, ...]:
    return result.framework, result.system, result.device_name or result.device


def measured_links(results: Iterable[Result]) -> list[MeasuredLink]:
    """Return the links that can be fitted to the measured all-reduces in fp32.

    The list has one link per combination of framework, system, device model, and transport.
    """
    measured = [
        result
        for result in results
        if result.all_reduces and result.precision == "fp32" and result.devices
    ]

    def kind(result: Result) -> tuple[tuple[str, ...], str, bool, bool]:
        return _location(result), result.transport, (result.nodes or 1) > 1, result.device == "cpu"

    links = []
    for (location, transport, several_machines, on_cpu), members in grouped(measured, kind).items():
        fit = fit_link(times for result in members for times in result.all_reduces)
        if fit is not None:
            devices = tuple(sorted({result.device_count for result in members}))
            links.append(MeasuredLink(location, transport, several_machines, on_cpu, devices, fit))
    return links


def link_of(result: Result, links: Iterable[MeasuredLink]) -> MeasuredLink | None:
    """Return the link between the devices of a result, or None.

    Links within a machine have priority, followed by links with the default transport.
    """
    same_location = [link for link in links if link.location == _location(result)]
    return min(
        same_location,
        key=lambda link: (link.several_machines, link.transport != "auto"),
        default=None,
    )


def with_link(system: System | None, link: MeasuredLink) -> System:
    """Return a system with the measured link.

    The measured link replaces the interconnect between nodes if several machines were measured.
    Otherwise the measured link replaces the interconnect within nodes.

    Without a system, all devices are assumed to share this link, which was measured on at most
    `link.devices`.
    """
    measured = Interconnect(link.fit.bytes_per_second, link.fit.alpha_seconds)
    if system is None:
        return System("measured", link.text, 1_000_000, measured, None)
    inside, between = (
        (system.inside, measured) if link.several_machines else (measured, system.between)
    )
    return replace(system, title=f"{system.title}; {link.text}", inside=inside, between=between)
