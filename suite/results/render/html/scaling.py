"""The charts of time to target against devices: measured, published and predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from suite.results.columns import rows
from suite.results.identity import Row
from suite.results.names import WORKLOAD_TITLES
from suite.results.published import ARTICLE
from suite.results.ratios import chains, families, ratio
from suite.results.render.html import plots
from suite.results.scores import merged_labels
from suite.results.text import clean
from suite.results.views.overview import PROFILES
from suite.results.views.scaling import MEASURED, PREDICTION, Forecast

MAX_TOGETHER = 6  # Curves of all workloads in one figure: more would tangle
_MAX_CURVES = 12  # Curves of ours, and as many published ones, of one figure


def scaling_charts(
    ours: Sequence[Row], published: Sequence[Row] = (), slots: Mapping[str, int] | None = None
) -> list[plots.Chart]:
    """One chart for each profile (they never mix) that has results on several numbers of devices.

    `published` results of the same workloads are drawn too; with them one number of devices is enough. More than MAX_TOGETHER
    curves are spread over one chart for each workload. `slots`: the colour of each framework on the page.
    """
    slots = plots.framework_slots(row.framework for row in ours) if slots is None else slots
    charts = []
    for profile in sorted({row.profile for row in ours}, key=lambda name: (PROFILES.get(name, 3), name)):
        mine = _curves(row for row in ours if row.profile == profile)
        workloads = sorted({curve[0].workload for curve in mine})
        theirs = _curves(row for row in published if row.workload in workloads)
        together = len(mine) + len(theirs) <= MAX_TOGETHER
        for members in [workloads] if together else [[name] for name in workloads]:
            drawn, beside = ([one for one in each if one[0].workload in members] for each in (mine, theirs))
            if drawn and (beside or any(len(curve) > 1 for curve in drawn)):
                charts += _scaling_chart(profile, drawn, beside, slots)
    return charts


def _curves(results: Iterable[Row]) -> list[list[Row]]:
    """Results with times, one on each number of devices of a curve; those of several first."""
    timed = [row for row in results if row.to_target and row.seconds and row.devices]
    return sorted((chain for family in families(timed) for chain in chains(family)), key=len, reverse=True)


def _scaling_chart(
    profile: str, mine: Sequence[Sequence[Row]], beside: Sequence[Sequence[Row]], slots: Mapping[str, int]
) -> list[plots.Chart]:
    drawn, ours = mine[:_MAX_CURVES], [row.devices for curve in mine for row in curve]

    def distance(curve: Sequence[Row]) -> float:
        return min(abs(math.log(row.devices / count)) for row in curve for count in ours)

    curves = [*drawn, *sorted(beside, key=distance)[:_MAX_CURVES]]  # of many those on numbers of devices like ours
    firsts, workloads = [curve[0] for curve in curves], list(dict.fromkeys(curve[0].workload for curve in curves))
    unit, scale = plots.time_unit(max(row.seconds_maximum or row.seconds for curve in curves for row in curve))
    paths = ([plots.finite_points((float(row.devices), row.seconds / scale) for row in curve)] for curve in curves)
    frameworks = [row.framework if place < len(drawn) else "" for place, row in enumerate(firsts)]
    plain = plots.series_of(zip(_names(firsts, len(workloads) > 1), frameworks, paths, strict=True), slots)
    times, speedups = list[plots.Series](), list[plots.Series]()
    for curve, one in zip(curves, plain, strict=True):
        several = [row for row in curve if row.runs_successful > 1 and row.seconds_minimum]
        ends = ((row.devices, row.seconds_minimum / scale, row.seconds_maximum / scale) for row in several)
        times.append(replace(one, published=len(times) >= len(drawn), ranges=tuple(ends)))
        ratios = ((row.devices / curve[0].devices, ratio(curve[0], row, intervals=False).total) for row in curve)
        if len(curve) > 1:
            speedups.append(replace(times[-1], paths=(plots.finite_points(ratios),), ranges=()))
    left_out, whose = len(mine) + len(beside) - len(curves), workloads if len(workloads) == 1 else []
    return plots.charts(
        ("00", profile, "time to target over devices", *whose),
        f"Time to target, {clean(whose[0], 40) if whose else 'all workloads'}",
        merged_labels(row for curve in drawn for row in curve),
        ("devices", f"{unit} to target (dotted: ideal)"),
        times,
        note=f"{left_out:,} more curves are not drawn; the tables have them" if left_out else "",
        kind="scaling",
        inset=tuple(speedups),
    )


def _names(firsts: Sequence[Row], several: bool) -> list[str]:
    """A different name for each curve: frameworks, of others who submitted it; then in what else they differ."""
    rounds, frameworks = ({getattr(row, name) for row in firsts} for name in ("round", "framework"))
    names = []
    for row in firsts:
        who = row.framework if len(frameworks) > 1 else ""
        if not row.profile:
            whose = (row.round if len(rounds) > 1 else "", row.submitter, row.system)
            who = "DGX-1 article" if row.round == ARTICLE else " ".join(filter(None, whose))
        names.append(clean(", ".join(filter(None, (row.workload if several else "", who))), 200))
    named = zip(plots.distinct(names, firsts, ("devices", "nodes")), firsts, strict=True)
    return [name or row.framework for name, row in named]


def workload_charts(results: Iterable[Row]) -> list[plots.Chart]:
    """Time to target of published results over accelerators as points, one chart for each workload."""
    slots, of_workload = plots.framework_slots(()), dict[str, list[Row]]()
    for row in results:
        of_workload.setdefault(row.benchmark, []).extend([row] if row.chips and row.minutes else [])
    charts = []
    for workload, members in of_workload.items():
        points: dict[str, list[plots.Points]] = {}
        for row in sorted(members, key=lambda row: (row.chips, row.minutes)):
            name = row.framework if row.framework in slots else "other frameworks"
            points.setdefault(name, []).append(((float(row.chips), row.minutes),))
        curves = plots.series_of(((name, name, paths) for name, paths in sorted(points.items())), slots)
        series = [replace(one, style=slots.get(one.label, len(slots))) for one in curves]  # no two have one marker
        if len(members) > 1:
            title, axes = WORKLOAD_TITLES.get(workload, clean(workload, 40)), ("accelerators", "minutes to target")
            charts += plots.charts(("00", workload), title, ["published"], axes, series, kind="powers")
    return charts


def forecast_charts(forecast: Forecast, number: int) -> list[plots.Chart]:
    """Time over devices with bounds, or the rate where there is no time; and what each device does over one of the fewest."""
    forecast_rows, first = [vars(row) for row in rows(forecast.table)], forecast.results[0]
    timed = all(row["seconds_per_epoch"] is not None for row in forecast_rows)
    times = ("seconds_per_epoch", "seconds per epoch") if timed else ("training_samples_per_second", "samples/s")
    labels, note = [first.profile, *merged_labels(forecast.results)], " ".join([forecast.how, *forecast.notes[:1]])
    charts = []
    for name, y_label in (times, ("scaling_efficiency", "work of a device over the fewest")):
        series = []
        for kind, slot in ((MEASURED, plots.OTHER_SLOT), (PREDICTION, 0)):  # measured: grey and hollow, as published
            points = [row for row in forecast_rows if row["kind"] == kind and row[name]]
            path = plots.finite_points((float(row["devices"]), row[name]) for row in points)
            ends = ((float(row["devices"]), row.get(f"{name}_low"), row.get(f"{name}_high")) for row in points)
            ranges = tuple((x, low, high) for x, low, high in ends if low and high)
            series += [plots.Series(kind, slot, (path,), kind == MEASURED, ranges)] if path else []
        stem, axes = (f"forecast-{number:02d}", first.workload, y_label), ("devices", y_label)
        charts += plots.charts(stem, forecast.title, ["prediction", *labels], axes, series, note=note, kind="powers")
    return charts
