"""Links as measured by `study=allreduce`: they take the place of a described system's figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from suite.results.predict.systems import Link, System
from suite.results.score.groups import Row
from suite.results.score.link_fit import LinkFit, fit_link
from suite.results.score.measurement import Measurement

_GRADIENTS_IN = "fp32"
"""The precision in which all three frameworks sum gradients."""
_ANY_NUMBER = 1_000_000


@dataclass(frozen=True)
class MeasuredLink:
    """Latency and bandwidth between devices of one kind, in one framework."""

    framework: str
    system: str
    hardware: str
    asked: str
    """`link` of the runs: `auto`, `no_p2p`, `network`."""
    several_machines: bool
    on_cpu: bool
    """The cores that compute carry the bytes too, so nothing travels beside a backward pass."""
    devices: tuple[int, ...]
    labels: tuple[str, ...]
    fit: LinkFit

    @property
    def text(self) -> str:
        """`all-reduces measured on 2 devices: α 41 µs, B 1.9 GB/s`."""
        counts = ", ".join(map(str, self.devices))
        figures = f"α {self.fit.alpha_seconds * 1e6:.3g} µs, B {self.fit.bytes_per_second / 1e9:.3g} GB/s"
        return f"all-reduces measured on {counts} devices: {figures}"


def measured_links(rows: Iterable[Row]) -> list[MeasuredLink]:
    """A link for each framework, system, kind of device and way that all-reduces in fp32 were timed on."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        group = row.group
        if row.all_reduces and group.precision == _GRADIENTS_IN and group.devices is not None:
            place = (group.framework, group.system, group.device_name or group.device, group.link)
            groups.setdefault((*place, (group.nodes or 1) > 1), []).append(row)
    return [link for members in groups.values() for link in [_link(members)] if link is not None]


def _link(rows: Sequence[Row]) -> MeasuredLink | None:
    fit, group = fit_link(sums for row in rows for sums in row.all_reduces), rows[0].group
    if fit is None:
        return None
    return MeasuredLink(
        framework=group.framework,
        system=group.system,
        hardware=group.device_name or group.device,
        asked=group.link,
        several_machines=(group.nodes or 1) > 1,
        on_cpu=group.device == "cpu",
        devices=tuple(sorted({row.group.devices or 0 for row in rows})),
        labels=tuple(dict.fromkeys(label for row in rows for label in row.labels)),
        fit=fit,
    )


def link_of(item: Measurement, links: Sequence[MeasuredLink]) -> MeasuredLink | None:
    """The link between the devices of a measurement; of several the one within a machine, then the one nobody asked for."""
    same = [
        link
        for link in links
        if (link.framework, link.system, link.hardware) == (item.framework, item.system, item.hardware)
    ]
    return min(same, key=lambda link: (link.several_machines, link.asked != "auto"), default=None)


def with_link(system: System | None, link: MeasuredLink) -> System:
    """A system with the measured link in place of its own: between its nodes if several machines were measured, else in a node.

    Without a system: as many devices as wanted on one such link, which nobody measured beyond `link.devices`.
    """
    measured = Link(link.fit.bytes_per_second, link.fit.alpha_seconds, source=link.text)
    if system is None:
        return System("measured", link.text, _ANY_NUMBER, measured, None)
    title = f"{system.title}; {link.text}"
    if link.several_machines:
        return replace(system, title=title, between=measured)
    return replace(system, title=title, inside=measured)
