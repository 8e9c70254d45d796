"""The charts over devices: time to target, what a speedup is made of, where the time goes, cost; published, predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suite.results.columns import Result, Timed, records, timed
from suite.results.combine import grouped
from suite.results.names import accelerator_name, short_title
from suite.results.price import Prices
from suite.results.published import ARTICLE
from suite.results.ratios import chains, families, ratio
from suite.results.render.html import charts
from suite.results.render.html.charts import Point
from suite.results.scores import merged_labels
from suite.results.text import clean
from suite.results.views.overview import is_reference, order_of
from suite.results.views.scaling import MEASURED, PREDICTION, Forecast

_MAX_CURVES = 12  # Curves of ours, and as many published ones, of one figure
_MAX_BARS = 40
Curve = list[Timed]  # The results of one experiment on several numbers of devices


def groups(results: Iterable[Result]) -> list[list[Result]]:
    """Results that may share axes: of one workload and profile, on CPUs or not; reference runs first."""

    kinds = grouped(results, lambda row: (order_of(row), row.workload))
    return [members for _, members in sorted(kinds.items(), key=lambda item: item[0])]


def scaling_charts(
    ours: Sequence[Result], published: Sequence[Result] = (), slots: Mapping[str, int] | None = None
) -> list[charts.Chart]:
    """Time to target over devices, one chart for each group with several numbers of devices.

    `published` results of the same workload are drawn beside reference runs on GPUs; with them one number of devices is enough.
    `slots`: the colour of each framework on the page.
    """
    slots = charts.framework_slots(row.framework for row in ours) if slots is None else slots
    figures = []
    for members in groups(ours):
        drawn = _curves(members)
        beside = _curves(row for row in published if row.workload == members[0].workload and is_reference(members[0]))
        if drawn and (beside or any(len(curve) > 1 for curve in drawn)):
            figures += _scaling_chart(drawn, beside, slots)
    return figures


def _curves(results: Iterable[Result]) -> list[Curve]:
    """Results with times, one on each number of devices of a curve; those of several first."""
    return sorted((chain for family in families(timed(results)) for chain in chains(family)), key=len, reverse=True)


def _scaling_chart(mine: list[Curve], beside: list[Curve], slots: Mapping[str, int]) -> list[charts.Chart]:
    drawn, ours = mine[:_MAX_CURVES], [row.devices for curve in mine for row in curve]

    def distance(curve: Curve) -> float:
        return min(abs(math.log(row.devices / count)) for row in curve for count in ours)

    curves = [*drawn, *sorted(beside, key=distance)[:_MAX_CURVES]]  # of many those on numbers of devices like ours
    unit, scale = charts.time_unit(max(row.seconds_maximum or row.seconds for curve in curves for row in curve))
    frameworks = [curve[0].framework if place < len(drawn) else "" for place, curve in enumerate(curves)]
    paths = ([tuple(_time(row, scale) for row in curve)] for curve in curves)
    series = charts.series_of(zip(_names(curves), frameworks, paths, strict=True), slots)
    left_out = len(mine) + len(beside) - len(curves)
    return _chart(
        "time to target over devices",
        drawn,
        ("devices", f"{unit} to target (dotted: ideal)"),
        (replace(one, published=place >= len(drawn)) for place, one in enumerate(series)),
        note=f"{left_out:,} more curves are not drawn; the tables have them" if left_out else "",
        kind="scaling",
    )


def _time(row: Timed, scale: float) -> Point:
    low, high = row.seconds_minimum, row.seconds_maximum
    ends = (low / scale, high / scale) if low and high and row.runs_successful > 1 else (None, None)
    return Point(float(row.devices), row.seconds / scale, row, *ends)


def _chart(
    what: str, curves: Sequence[Sequence[Result]], axes: tuple[str, str], series: Iterable[charts.Series], **more: Any
) -> list[charts.Chart]:
    """The chart of curves of one group."""
    first, labels = curves[0][0], merged_labels(row for curve in curves for row in curve)
    stem = ("00", first.profile, "cpu" if "cpu" in first.labels else "", what, first.workload)
    return charts.charts(stem, f"{short_title(clean(first.workload, 40))}: {what}", labels, axes, series, **more)


def _names(curves: Sequence[Curve]) -> list[str]:
    """A different name for each curve: frameworks, of others who submitted it; then in what else they differ."""
    firsts = [curve[0] for curve in curves]
    rounds, frameworks = ({getattr(row, name) for row in firsts} for name in ("round", "framework"))
    names = []
    for row in firsts:
        who = row.framework if len(frameworks) > 1 else ""
        if not row.profile:
            whose = (row.round if len(rounds) > 1 else "", row.submitter, row.system)
            who = "DGX-1 article" if row.round == ARTICLE else " ".join(filter(None, whose))
        names.append(clean(who, 200))
    named = zip(charts.distinct(names, firsts, ("devices", "nodes")), firsts, strict=True)
    return [name or clean(row.framework, 120) for name, row in named]


def speedup_charts(results: Sequence[Result]) -> list[charts.Chart]:
    """What speedups over the fewest devices are made of: faster epochs, and fewer or more of them."""
    made, parts = [], ("speedup", "from faster epochs", "from fewer epochs")
    for members in groups(results):
        curves = [curve for curve in _curves(members) if len(curve) > 1]
        found: list[tuple[str, Result, tuple[float | None, ...]]] = []
        for name, curve in zip(_names(curves), curves, strict=True):
            for row in curve[1:]:
                one = ratio(curve[0], row, intervals=False)
                found.append((f"{name}, {one.places} devices", row, (one.total, one.throughput, one.efficiency)))
        kept = [one for one in found if None not in one[2]][:_MAX_BARS]
        series = [
            charts.Series(part, slot, tuple(charts.finite_points([(of[at], 0.0)], row) for _, row, of in kept),
                          names=tuple(name for name, _, _ in kept))
            for at, (part, slot) in enumerate(zip(parts, (2, 0, 1), strict=True))
        ]  # fmt: skip
        axes = ("", "times, over the fewest devices")
        made += _chart("what the speedup is made of", curves, axes, series, kind="ratios") if kept else []
    return made


def parts_charts(results: Sequence[Result]) -> list[charts.Chart]:
    """Where the time of a run goes, the mean of each result's runs."""
    made, parts = [], {"training": 2, "waiting for data": 1, "evaluation": 0, "the rest": charts.OTHER_SLOT}
    for members in groups(row for row in results if row.to_target and row.run_seconds and row.timed_seconds):
        shown = members[:_MAX_BARS]
        unit, scale = charts.time_unit(max(row.run_seconds or 0.0 for row in shown))
        values = [[one / len(row.runs) / scale for one in _parts(row)] for row in shown]
        names = tuple(charts.result_names(shown))
        series = []
        for at, (part, slot) in enumerate(parts.items()):
            points = (charts.finite_points([(of[at], 0.0)], row) for of, row in zip(values, shown, strict=True))
            series.append(charts.Series(part, slot, tuple(points), names=names))
        more = f"{len(members) - len(shown):,} more results are not drawn" if len(members) > len(shown) else ""
        made += _chart("where the time goes", [shown], ("", f"{unit} of a run"), series, kind="parts", note=more)
    return made


def _parts(row: Result) -> tuple[float, float, float, float]:
    """Seconds of all runs: in steps, waiting for data, in evaluations, elsewhere."""
    waits, evaluates = row.data_wait_seconds or 0.0, row.evaluation_seconds or 0.0
    timed_seconds = row.timed_seconds or 0.0
    rest = max(0.0, (row.run_seconds or 0.0) * len(row.runs) - timed_seconds - evaluates)
    return timed_seconds - waits, waits, evaluates, rest


def cost_charts(results: Sequence[Result], prices: Prices, slots: Mapping[str, int]) -> list[charts.Chart]:
    """What a result costs over devices."""
    figures = []
    for members in groups(results):
        curves = _curves(row for row in members if prices.cost(row) is not None)[:_MAX_CURVES]
        paths = [[tuple(Point(float(row.devices), prices.cost(row) or 0.0, row) for row in curve)] for curve in curves]
        frameworks = [curve[0].framework for curve in curves]
        series = charts.series_of(zip(_names(curves), frameworks, paths, strict=True), slots)
        figures += _chart("cost of a result", curves, ("devices", "cost"), series, kind="powers") if curves else []
    return figures


def workload_charts(published: Iterable[Result], own: Sequence[Result] = ()) -> list[charts.Chart]:
    """Time to target of published results over accelerators as points, one chart for each workload; `own` reference results
    over them."""
    figures = []
    for workload, members in grouped(timed((*published, *filter(is_reference, own))), lambda row: row.workload).items():
        ours = [row for row in members if row.profile]
        kinds = grouped((row for row in members if not row.profile), lambda row: accelerator_name(row.device_name))
        named = sorted(kinds, key=lambda name: -len(kinds[name]))[: charts.COLOURS - 1]
        others = [row for name in kinds if name not in named for row in kinds[name]]
        listed = [*((clean(name, 30), kinds[name]) for name in named), ("other accelerators", others), ("ours", ours)]
        slots = [*range(len(named)), charts.OTHER_SLOT, charts.COLOURS - 1]
        series = [
            charts.Series(
                name, slot, tuple((Point(float(row.devices), row.seconds / 60, row),) for row in rows), style=slot
            )
            for (name, rows), slot in zip(listed, slots, strict=True)
            if rows
        ]
        if len(members) > 1:
            axes = ("accelerators", "minutes to target")
            labels = ["published", *(f"ours: {label}" for label in merged_labels(ours))]
            figures += charts.charts(
                ("00", workload), short_title(clean(workload, 40)), labels, axes, series, kind="points"
            )
    return figures


def forecast_charts(forecast: Forecast, number: int) -> list[charts.Chart]:
    """Time over devices with bounds, or the rate where there is no time; and what each device does over one of the fewest."""
    forecast_rows, first = records(forecast.table), forecast.results[0]
    timed = all(row["seconds_per_epoch"] is not None for row in forecast_rows)
    times = ("seconds_per_epoch", "seconds per epoch") if timed else ("training_samples_per_second", "samples/s")
    labels, note = [first.profile, *merged_labels(forecast.results)], " ".join([forecast.how, *forecast.notes[:1]])
    figures = []
    for name, y_label in (times, ("scaling_efficiency", "work of a device over the fewest")):
        series = []
        for kind, slot in ((MEASURED, charts.OTHER_SLOT), (PREDICTION, 0)):  # measured: grey and hollow, as published
            known = [row for row in forecast_rows if row["kind"] == kind and row[name]]
            ends = ((row.get(f"{name}_low") or None, row.get(f"{name}_high") or None) for row in known)
            path = tuple(
                Point(float(row["devices"]), row[name], None, *(end if None not in end else (None, None)))
                for row, end in zip(known, ends, strict=True)
            )
            series += [charts.Series(kind, slot, (path,), kind == MEASURED)] if path else []
        stem, axes = (f"forecast-{number:02d}", first.workload, y_label), ("devices", y_label)
        figures += charts.charts(stem, forecast.title, ["prediction", *labels], axes, series, note=note, kind="powers")
    return figures
