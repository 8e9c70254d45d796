"""The charts of time to target against devices: measured, published and predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from suite.results.columns import rows
from suite.results.identity import Row
from suite.results.names import WORKLOAD_TITLES
from suite.results.published import ARTICLE
from suite.results.ratios import chains, families, ratio
from suite.results.render.html import plots
from suite.results.render.html.figures import write_figures
from suite.results.scores import merged_labels
from suite.results.text import clean
from suite.results.views.overview import PROFILES
from suite.results.views.scaling import MEASURED, PREDICTION, Forecast

MAX_TOGETHER = 6
"""Curves of all workloads in one figure: more would tangle."""
_MAX_CURVES = 12
"""Curves of ours, and as many published ones, of one figure."""


# --- ours, and published ones beside them -------------------------------------------------------------------------------


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
                charts.append(_scaling_chart(profile, drawn, beside, slots))
    return charts


def _curves(results: Iterable[Row]) -> list[list[Row]]:
    """Results with times, one on each number of devices of a curve; those of several first."""
    timed = [row for row in results if row.to_target and row.seconds and row.devices]
    found = [chain for family in families(timed) for chain in chains(family)]
    return sorted(found, key=lambda curve: -len(curve))


def _scaling_chart(
    profile: str, mine: Sequence[Sequence[Row]], beside: Sequence[Sequence[Row]], slots: Mapping[str, int]
) -> plots.Chart:
    drawn, theirs = mine[:_MAX_CURVES], _nearest(beside, mine)[:_MAX_CURVES]
    curves, workloads = [*drawn, *theirs], list(dict.fromkeys(curve[0].workload for curve in (*drawn, *theirs)))
    unit, scale = plots.time_unit(max(row.seconds_maximum or row.seconds for curve in curves for row in curve))
    looks = plots.slots_and_styles([curve[0].framework for curve in drawn], slots)
    looks += [(plots.OTHER_SLOT, style) for style in range(len(theirs))]
    names, times, speedups = _names([curve[0] for curve in curves], len(workloads) > 1), [], []
    for place, (curve, name, (slot, style)) in enumerate(zip(curves, names, looks, strict=True)):
        published = place >= len(drawn)
        path = plots.finite_points((float(row.devices), row.seconds / scale) for row in curve)
        several = [row for row in curve if row.runs_successful > 1 and row.seconds_minimum]
        ranges = ((float(row.devices), row.seconds_minimum / scale, row.seconds_maximum / scale) for row in several)
        times += [plots.Series(name, slot, (path,), published, tuple(ranges), style)] if path else []
        ratios = ((row.devices / curve[0].devices, ratio(curve[0], row, intervals=False).total) for row in curve)
        if len(curve) > 1:
            speedups.append(plots.Series(name, slot, (plots.finite_points(ratios),), published, style=style))
    left_out, one = len(mine) + len(beside) - len(curves), len(workloads) == 1
    return plots.Chart(
        name=plots.file_name("00", profile, "time to target over devices", *(workloads if one else [])),
        title=f"Time to target, {clean(workloads[0], 40) if one else 'all workloads'}",
        labels=plots.shown_labels(merged_labels(row for curve in drawn for row in curve)),
        x_label="devices",
        y_label=f"{unit} to target (dotted: ideal)",
        series=tuple(times),
        note=f"{left_out:,} more curves are not drawn; the tables have them" if left_out else "",
        kind="scaling",
        inset=tuple(speedups),
    )


def _nearest(beside: Sequence[Sequence[Row]], mine: Sequence[Sequence[Row]]) -> list[Sequence[Row]]:
    """The published curves, those on numbers of devices like ours first: where not all can be drawn, these say most."""
    ours = [row.devices for curve in mine for row in curve]
    return sorted(beside, key=lambda curve: min(abs(math.log(row.devices / count)) for row in curve for count in ours))


def _names(firsts: Sequence[Row], several: bool) -> list[str]:
    """A different name for each curve: frameworks, of others who submitted it; then in what else they differ."""
    rounds, frameworks = ({getattr(row, name) for row in firsts} for name in ("round", "framework"))
    names = []
    for row in firsts:
        round_text = row.round if len(rounds) > 1 else ""
        whose = (
            "DGX-1 article" if row.round == ARTICLE else " ".join(filter(None, (round_text, row.submitter, row.system)))
        )
        who = whose if not row.profile else row.framework if len(frameworks) > 1 else ""
        names.append(clean(", ".join(filter(None, (row.workload if several else "", who))), 200))
    named = zip(plots.distinct(names, firsts, ("devices", "nodes")), firsts, strict=True)
    return [name or row.framework for name, row in named]


def write_scaling_figures(results: Sequence[Row], folder: Path) -> None:
    """The charts of the results as SVG and PNG in a new folder. Raises ValueError for one that is not empty."""
    write_figures(scaling_charts(results), folder)


# --- published results alone --------------------------------------------------------------------------------------------


def workload_charts(results: Iterable[Row]) -> list[plots.Chart]:
    """Time to target against accelerators as points, one chart for each workload, one colour for each framework.

    `results`: rows with the columns of logs/published/results.csv.
    """
    slots, charts, found = plots.framework_slots(()), [], list(results)
    for workload in dict.fromkeys(row.benchmark for row in found):
        members = [row for row in found if row.benchmark == workload and row.chips and row.minutes]
        points: dict[str, list[plots.Points]] = {}
        for row in sorted(members, key=lambda row: (row.chips, row.minutes)):
            name = row.framework if row.framework in slots else "other frameworks"
            points.setdefault(name, []).append(((float(row.chips), row.minutes),))
        series = tuple(
            plots.Series(name, slots.get(name, plots.OTHER_SLOT), tuple(paths), style=slots.get(name, len(slots)))
            for name, paths in sorted(points.items())
        )
        if len(members) > 1:
            title, axes = WORKLOAD_TITLES.get(workload, clean(workload, 40)), ("accelerators", "minutes to target")
            stem = plots.file_name("00", workload)
            charts.append(plots.Chart(stem, title, ("published",), *axes, series, kind="powers"))
    return charts


# --- predictions --------------------------------------------------------------------------------------------------------


def forecast_charts(forecast: Forecast, number: int) -> list[plots.Chart]:
    """Time over devices with bounds, or the rate where there is no time; and what each device does over one of the fewest."""
    found = list(rows(forecast.table))
    timed = all(row.seconds_per_epoch is not None for row in found)
    labels = plots.shown_labels(["prediction", forecast.results[0].profile, *merged_labels(forecast.results)])
    note = " ".join([forecast.how, *forecast.notes[:1]])
    charts = []
    times = ("seconds_per_epoch", "seconds per epoch") if timed else ("training_samples_per_second", "samples/s")
    for name, y_label in (times, ("scaling_efficiency", "work of a device over the fewest")):
        series = []
        for kind, slot in ((MEASURED, plots.OTHER_SLOT), (PREDICTION, 0)):  # measured: grey and hollow, as published
            points = [vars(row) for row in found if row.kind == kind and getattr(row, name)]
            path = plots.finite_points((float(row["devices"]), row[name]) for row in points)
            ends = ((float(row["devices"]), row.get(f"{name}_low"), row.get(f"{name}_high")) for row in points)
            ranges = tuple((x, low, high) for x, low, high in ends if low and high)
            series += [plots.Series(kind, slot, (path,), kind == MEASURED, ranges)] if path else []
        if series:
            stem = plots.file_name(f"forecast-{number:02d}", forecast.results[0].workload, y_label)
            shown = plots.Chart(stem, forecast.title, labels, "devices", y_label, tuple(series), note, kind="powers")
            charts.append(shown)
    return charts


def write_forecast_figures(forecasts: Sequence[Forecast], folder: Path) -> None:
    """The charts of predictions as SVG and PNG in a new folder. Raises ValueError for one that is not empty."""
    write_figures([chart for at, one in enumerate(forecasts, start=1) for chart in forecast_charts(one, at)], folder)
