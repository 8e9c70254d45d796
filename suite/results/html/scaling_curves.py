"""The charts of time to target against devices, with total speedup in the inset, from measurements."""

from __future__ import annotations

from collections.abc import Sequence

from suite.results.html.charts import ScalingChart, Series, finite_points
from suite.results.html.curves import file_name
from suite.results.score.measurement import Measurement, by_family
from suite.results.text import clean

_PROFILES = {"reference": 0, "demo": 1, "synthetic": 2}
_MAX_FAMILIES = 24
"""Curves of one figure."""
_DISTINGUISHING_FIELDS = ("workload", "framework", "system", "hardware", "batch_rule", "precision", "clock", "rules")


def scaling_charts(ours: Sequence[Measurement], published: Sequence[Measurement] = ()) -> list[ScalingChart]:
    """One chart for each profile (they never mix) that has measurements on several numbers of devices.

    `published` measurements of the same workloads are drawn too; with them one number of devices is enough.
    """
    charts = []
    for profile in sorted({item.profile for item in ours}, key=lambda name: (_PROFILES.get(name, 3), name)):
        timed = [item for item in ours if item.profile == profile and item.to_target and item.devices > 0]
        workloads = {item.workload for item in timed}
        beside = [item for item in published if item.to_target and item.devices > 0 and item.workload in workloads]
        families = by_family(timed)
        if any(len({item.devices for item in family}) > 1 for family in families) or (timed and beside):
            charts.append(_chart(profile, families, by_family(beside)))
    return charts


def _chart(
    profile: str, families: Sequence[Sequence[Measurement]], beside: Sequence[Sequence[Measurement]]
) -> ScalingChart:
    drawn = [_fastest_per_device_count(family) for family in families[:_MAX_FAMILIES]]
    theirs = [_fastest_per_device_count(family) for family in beside[:_MAX_FAMILIES]]
    names = _curve_labels([family[0] for family in drawn])
    several = len({family[0].workload for family in (*drawn, *theirs)}) > 1
    their_names = [_published_name(family[0], several) for family in theirs]
    left_out = len(families) + len(beside) - len(drawn) - len(theirs)
    named = [
        *((family, name, slot, False) for slot, (family, name) in enumerate(zip(drawn, names, strict=True))),
        *((family, name, slot, True) for slot, (family, name) in enumerate(zip(theirs, their_names, strict=True))),
    ]
    labels = dict.fromkeys(label for family in families for item in family for label in item.labels)
    workloads = list(dict.fromkeys(family[0].workload for family in drawn))
    what = clean(workloads[0], 40) if len(workloads) == 1 else "all workloads"
    return ScalingChart(
        name=file_name("00", profile, "time to target over devices"),
        title=f"Time to target, {what}",
        labels=tuple(clean(label, 60) for label in sorted(labels)[:6]),
        times=tuple(_times(*one) for one in named if _times(*one).paths[0]),
        speedups=tuple(_speedups(*one) for one in named if len({item.devices for item in one[0]}) > 1),
        note=f"{left_out:,} more curves are not drawn" if left_out > 0 else "",
    )


def _fastest_per_device_count(family: Sequence[Measurement]) -> list[Measurement]:
    """The fastest on each number of devices, where several settings were tried."""
    fastest: dict[int, Measurement] = {}
    for item in family:
        held = fastest.get(item.devices)
        if held is None or (item.score.seconds or 0.0) < (held.score.seconds or 0.0):
            fastest[item.devices] = item
    return [fastest[devices] for devices in sorted(fastest)]


def _curve_labels(firsts: Sequence[Measurement]) -> list[str]:
    """A label for each curve, made of the fields in which it differs from the others."""
    names = [name for name in _DISTINGUISHING_FIELDS[:2] if len({getattr(item, name) for item in firsts}) > 1]
    texts = [_label(item, names) for item in firsts]
    for name in _DISTINGUISHING_FIELDS[2:]:
        if len(set(texts)) < len(texts) and len({getattr(item, name) for item in firsts}) > 1:
            names.append(name)
            texts = [_label(item, names) for item in firsts]
    return [
        text if texts.count(text) == 1 else f"{text} ({index})".strip() for index, text in enumerate(texts, start=1)
    ]


def _label(item: Measurement, names: Sequence[str]) -> str:
    shown = [_value_text(item, name) for name in names] or [item.framework or item.workload]
    return clean(", ".join(text for text in shown if text), 60)


def _value_text(item: Measurement, name: str) -> str:
    value = str(getattr(item, name))
    return f"batch {value}" if name == "batch_rule" and value else value


def _published_name(item: Measurement, several: bool) -> str:
    who = "DGX-1 article" if "article" in item.labels else f"{item.origin} {item.submitter} {item.system}"
    return clean(f"{item.workload}, {who}" if several else who, 60)


def _times(family: Sequence[Measurement], name: str, slot: int, published: bool) -> Series:
    points = finite_points((float(item.devices), (item.score.seconds or 0.0) / 60) for item in family)
    ranges = tuple(
        (float(item.devices), item.score.seconds_minimum / 60, item.score.seconds_maximum / 60)
        for item in family
        if item.score.seconds_minimum and item.score.seconds_maximum and item.score.runs_successful > 1
    )
    return Series(name, slot, (tuple(point for point in points if point[1] > 0),), published, ranges)


def _speedups(family: Sequence[Measurement], name: str, slot: int, published: bool) -> Series:
    """Total speedup against the ratio of devices, both relative to the fewest devices."""
    base = family[0]
    ratios = (
        (item.devices / base.devices, (base.score.seconds or 0.0) / item.score.seconds if item.score.seconds else None)
        for item in family
    )
    return Series(name, slot, (finite_points(ratios),), published)
