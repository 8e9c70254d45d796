"""The charts over devices: time to target, what a speedup is made of, where the time goes, cost; published, predicted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from suite.results.columns import Result, Timed, records, timed
from suite.results.combine import grouped
from suite.results.names import accelerator_name, short_title
from suite.results.price import Prices
from suite.results.ratios import chains, families, ratio
from suite.results.render.html import charts
from suite.results.render.html.charts import Point, groups
from suite.results.scores import merged_labels
from suite.results.targets import same_targets, targets_told
from suite.results.text import clean
from suite.results.views.overview import is_reference
from suite.results.views.scaling import MEASURED, PREDICTION, Forecast

_MAX_CURVES = 12  # Curves of ours, and as many published ones, of one figure
_MAX_BARS = 40
Curve = list[Timed]  # The results of one experiment on several numbers of devices


def scaling_charts(
    ours: Sequence[Result], published: Sequence[Result] = (), looks: charts.Looks | None = None
) -> list[charts.Chart]:
    """Time to target over devices, one chart for each group with several numbers of devices.

    `published` results of the same workload are drawn beside reference runs on GPUs; with them one number of devices is enough.
    """
    looks, figures = charts.looks(ours, published) if looks is None else looks, []
    for members in groups(ours):
        drawn = _curves(members)
        beside = _curves(row for row in published if row.workload == members[0].workload and is_reference(members[0]))
        if drawn and (beside or any(len(curve) > 1 for curve in drawn)):
            figures += _scaling_chart(drawn, beside, looks)
    return figures


def _curves(results: Iterable[Result]) -> list[Curve]:
    """Results with times, one on each number of devices of a curve; those of several first."""
    return sorted((chain for family in families(timed(results)) for chain in chains(family)), key=len, reverse=True)


def _scaling_chart(mine: list[Curve], beside: list[Curve], looks: charts.Looks) -> list[charts.Chart]:
    drawn, ours = mine[:_MAX_CURVES], [row.devices for curve in mine for row in curve]

    def distance(curve: Curve) -> float:
        return min(abs(math.log(row.devices / count)) for row in curve for count in ours)

    curves = [*drawn, *sorted(beside, key=distance)[:_MAX_CURVES]]  # of many those on numbers of devices like ours
    unit, scale = charts.time_unit(max(row.seconds_maximum or row.seconds for curve in curves for row in curve))
    series = [_line(curve, looks, [_time(row, scale) for row in curve], drawn) for curve in curves]
    left_out = len(mine) + len(beside) - len(curves)
    return _chart(
        "time to target over devices",
        drawn,
        ("devices", f"{unit} to target (dotted: ideal)"),
        series,
        note=f"{left_out:,} more curves are not drawn; the tables have them" if left_out else "",
        kind="scaling",
    )


def _line(
    curve: Curve, looks: charts.Looks, points: Sequence[Point], ours: Sequence[Curve] | None = None
) -> charts.Series:
    """A curve over devices; one that was trained to another target than all of `ours` says so."""
    look, first = looks[charts.key_of(curve[0])], curve[0]
    known = [same_targets(first.targets, one[0].targets, first.workload) for one in ours or ()]
    other = f", target {targets_told(first.targets, first.workload)}" if known and not {None, True} & {*known} else ""
    return charts.Series(
        f"{look.curve}{charts.short(other)}", look.slot, (tuple(points),), look.published, look.curve_style
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


def speedup_charts(results: Sequence[Result], looks: charts.Looks | None = None) -> list[charts.Chart]:
    """What speedups over the fewest devices are made of: faster epochs, and fewer or more of them."""
    looks, made = charts.looks(results) if looks is None else looks, []
    parts = {"speedup": charts.WHOLE, "from faster epochs": charts.FACTORS[0], "from fewer epochs": charts.FACTORS[1]}
    for members in groups(results):
        curves = [curve for curve in _curves(members) if len(curve) > 1]
        found: list[tuple[str, Result, tuple[float | None, ...]]] = []
        for curve in curves:
            for row in curve[1:]:
                one = ratio(curve[0], row, intervals=False)
                name = f"{looks[charts.key_of(row)].curve}, {one.places} dev"
                found.append((name, row, (one.total, one.throughput, one.efficiency)))
        kept = [one for one in found if None not in one[2]][:_MAX_BARS]
        series = [
            charts.Series(part, slot, tuple(charts.finite_points([(of[at], 0.0)], row) for _, row, of in kept),
                          names=tuple(name for name, _, _ in kept), style=at)
            for at, (part, slot) in enumerate(parts.items())
        ]  # fmt: skip
        axes = ("", "times, over the fewest devices")
        made += _chart("what the speedup is made of", curves, axes, series, kind="ratios") if kept else []
    return made


def parts_charts(results: Sequence[Result], looks: charts.Looks | None = None) -> list[charts.Chart]:
    """Where the time of a run goes, the mean of each result's runs."""
    looks, made = charts.looks(results) if looks is None else looks, []
    slots = (*charts.PARTS, charts.OTHER_SLOT)
    parts = dict(zip(("training", "waiting for data", "evaluation", "the rest"), slots, strict=True))
    for members in groups(row for row in results if row.to_target and row.run_seconds and row.timed_seconds):
        shown = members[:_MAX_BARS]
        unit, scale = charts.time_unit(max(row.run_seconds or 0.0 for row in shown))
        values = [[one / len(row.runs) / scale for one in _parts(row)] for row in shown]
        names = tuple(looks[charts.key_of(row)].name for row in shown)
        series = []
        for at, (part, slot) in enumerate(parts.items()):
            points = (charts.finite_points([(of[at], 0.0)], row) for of, row in zip(values, shown, strict=True))
            series.append(charts.Series(part, slot, tuple(points), names=names, style=1))
        more = f"{len(members) - len(shown):,} more results are not drawn" if len(members) > len(shown) else ""
        made += _chart("where the time goes", [shown], ("", f"{unit} of a run"), series, kind="parts", note=more)
    return made


def _parts(row: Result) -> tuple[float, float, float, float]:
    """Seconds of all runs: in steps, waiting for data, in evaluations, elsewhere."""
    waits, evaluates = row.data_wait_seconds or 0.0, row.evaluation_seconds or 0.0
    timed_seconds = row.timed_seconds or 0.0
    rest = max(0.0, (row.run_seconds or 0.0) * len(row.runs) - timed_seconds - evaluates)
    return timed_seconds - waits, waits, evaluates, rest


def cost_charts(results: Sequence[Result], prices: Prices, looks: charts.Looks | None = None) -> list[charts.Chart]:
    """What a result costs over devices."""
    looks, figures = charts.looks(results) if looks is None else looks, []
    for members in groups(results):
        curves = _curves(row for row in members if prices.cost(row) is not None)[:_MAX_CURVES]
        paths = [[Point(float(row.devices), prices.cost(row) or 0.0, row) for row in curve] for curve in curves]
        series = [_line(curve, looks, path) for curve, path in zip(curves, paths, strict=True)]
        figures += _chart("cost of a result", curves, ("devices", "cost"), series, kind="powers") if curves else []
    return figures


def workload_charts(published: Iterable[Result], own: Sequence[Result] = ()) -> list[charts.Chart]:
    """Time to target of published results over accelerators as points, one chart for each workload, an accelerator in one
    colour and shape in all of them; `own` reference results over them, those of another target by themselves."""
    listed, figures = timed((*published, *filter(is_reference, own))), []
    counts = Counter(accelerator_name(row.device_name) for row in listed if not row.profile)
    common = {name: place for place, (name, _) in enumerate(counts.most_common(charts.COLOURS * charts.SHAPES))}
    for workload, members in grouped(listed, lambda row: row.workload).items():
        theirs, ours = ([row for row in members if bool(row.profile) is one] for one in (False, True))

        def look(row: Timed, theirs: Sequence[Timed] = theirs) -> tuple[str, int, int]:
            if row.profile:
                other = {same_targets(row.targets, one.targets, row.workload) for one in theirs} == {False}
                return ("ours, another target" if other else "ours"), charts.WHOLE, int(other)
            style, slot = divmod(common.get(kind := accelerator_name(row.device_name), -1), charts.COLOURS)
            return (clean(kind, 30), slot, style) if kind in common else ("other accelerators", charts.OTHER_SLOT, 0)

        series = []
        for (label, slot, style), rows in sorted(grouped([*theirs, *ours], look).items(), key=lambda of: -len(of[1])):
            paths = tuple((Point(float(row.devices), row.seconds / 60, row),) for row in rows)
            series.append(charts.Series(label, slot, paths, style=style))
        series.sort(key=lambda one: one.slot == charts.WHOLE)  # ours are drawn last, over all others
        if len(members) > 1:
            axes, stem = ("accelerators", "minutes to target"), ("00", workload)
            labels = ["published", *(f"ours: {label}" for label in merged_labels(ours))]
            figures += charts.charts(stem, short_title(clean(workload, 40)), labels, axes, series, kind="points")
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
        for kind, slot in (
            (MEASURED, charts.OTHER_SLOT),
            (PREDICTION, charts.PARTS[0]),
        ):  # measured: grey and hollow, as published
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
