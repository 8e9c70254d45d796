"""The charts over devices: time to target, what a speedup is made of, where the time goes, cost; published, predicted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from suite.results.columns import Result, with_time
from suite.results.combine import grouped
from suite.results.names import accelerator_name
from suite.results.price import Prices
from suite.results.render.html import charts
from suite.results.render.html.charts import Chart, Looks, Mark, Point, Style, groups
from suite.results.scores import merged_labels
from suite.results.series import Series, all_series
from suite.results.targets import same_targets, targets_told
from suite.results.text import clean
from suite.results.views.overview import is_reference
from suite.results.views.scaling import MEASURED, PREDICTION, Forecast

_MAX_CURVES = 12  # Series of ours, and as many published ones, of one figure
_MAX_BARS = 40


def scaling_charts(ours: Sequence[Result], published: Sequence[Result], looks: Looks) -> list[Chart]:
    """Time to target over devices, one chart for each group with several numbers of devices.

    `published` results of the same workload are drawn beside reference runs on GPUs; with them one number of devices is enough.
    """
    figures = []
    for members in groups(ours):
        mine, first = _curves(members), members[0]
        beside = _curves(row for row in published if row.workload == first.workload and is_reference(first))
        if not mine or not (beside or len(mine[0]) > 1):
            continue
        counts = [row.device_count for curve in mine for row in curve]
        # of many those on numbers of devices like ours
        beside.sort(key=lambda curve: min(abs(math.log(row.device_count / count)) for row in curve for count in counts))
        curves = [*mine[:_MAX_CURVES], *beside[:_MAX_CURVES]]
        unit, scale = charts.time_unit(
            max(row.seconds_maximum or row.target_seconds for curve in curves for row in curve)
        )
        left_out, y_label = len(mine) + len(beside) - len(curves), f"{unit} to target (dotted: ideal)"
        note = f"{left_out:,} more curves are not drawn; the tables have them" if left_out else ""
        what, point = "time to target over devices", partial(_time, scale=scale)
        figures += _over_devices(what, curves, y_label, looks, point, note=note, kind="scaling")
    return figures


def cost_charts(results: Sequence[Result], prices: Prices, looks: Looks) -> list[Chart]:
    """What a result costs over devices."""

    def point(row: Result) -> Point:
        return Point(float(row.device_count), prices.cost(row) or 0.0, row)

    figures = []
    for members in groups(results):
        curves = _curves(row for row in members if prices.cost(row) is not None)[:_MAX_CURVES]
        figures += _over_devices("cost of a result", curves, "cost", looks, point, kind="powers")
    return figures


def _curves(results: Iterable[Result]) -> list[Series[Result]]:
    """Results with times, one on each number of devices of a curve; those of several first."""
    return sorted(all_series(with_time(results)), key=len, reverse=True)


def _time(row: Result, scale: float) -> Point:
    low, high = row.seconds_minimum, row.seconds_maximum
    ends = (low / scale, high / scale) if low and high and row.runs_successful > 1 else (None, None)
    return Point(float(row.device_count), row.target_seconds / scale, row, *ends)


def _over_devices(
    what: str,
    curves: Sequence[Series[Result]],
    y_label: str,
    looks: Looks,
    point: Callable[[Result], Point],
    **more: Any,
) -> list[Chart]:
    """A curve for each of `curves`, ours first; one that was trained to another target than all of ours says so."""
    marks, ours = list[Mark](), [curve.fewest for curve in curves if curve.fewest.profile]
    for number, curve in enumerate(curves):
        style, first = looks[curve.fewest.key].of_curve, curve.fewest
        if {same_targets(first.targets, one.targets, first.workload) for one in ours} == {False}:
            target = charts.short(f", target {targets_told(first.targets, first.workload)}")
            style = style._replace(label=f"{style.label}{target}")
        marks += [(style, number, point(row)) for row in curve]
    labelled = [row for curve in curves if curve.fewest.profile or not ours for row in curve]
    return charts.charts(charts.titled(labelled, what), labelled, ("devices", y_label), marks, **more)


def speedup_charts(results: Sequence[Result], looks: Looks) -> list[Chart]:
    """Return a chart of the factors of each speedup: time per epoch, number of epochs, and setup if the logs separate it."""
    made = []
    for members in groups(results):
        pairs = [(curve, result) for curve in _curves(members) for result in curve]
        speedups = [speedup for curve, result in pairs if (speedup := curve.speedup(result)) is not None]
        known = [one for one in speedups if None not in (one.total, one.throughput, one.efficiency)]
        names = ["speedup", "from faster epochs", "from fewer epochs"]
        if any(speedup.setup is not None for speedup in known):
            names.append("from setup")
        found = []
        for speedup in known:
            values = (speedup.total, speedup.throughput, speedup.efficiency, speedup.setup)[: len(names)]
            name = f"{looks[speedup.after.key].of_curve.label}, {speedup.places} dev"
            found.append((name, speedup.after, values))
        parts = dict(zip(names, (*charts.OF_SPEEDUPS, charts.OF_SETUP), strict=False))
        made += _in_parts("what the speedup is made of", found, parts, "times, over the fewest devices", "ratios")
    return made


def parts_charts(results: Sequence[Result], looks: Looks) -> list[Chart]:
    """Return a chart of the parts of each time to target, for results whose logs separate setup."""
    slots, made = (charts.OF_SETUP, *charts.PARTS, charts.OTHER_SLOT), []
    parts = dict(zip(("setup", "training", "waiting for data", "evaluation", "other"), slots, strict=True))
    for members in groups(result for result in results if result.to_target and result.parts is not None):
        unit, scale = charts.time_unit(max(result.seconds or 0.0 for result in members[:_MAX_BARS]))
        found = []
        for result in members:
            assert result.parts is not None
            values = [seconds / scale for seconds in result.parts]
            found.append((looks[result.key].of_result.label, result, values))
        made += _in_parts("where the time goes", found, parts, f"{unit} to target", "parts")
    return made


def _in_parts(
    what: str,
    found: Sequence[tuple[str, Result, Sequence[float | None]]],
    parts: Mapping[str, int],
    y_label: str,
    kind: str,
) -> list[Chart]:
    """A line for each (name, result, values), in which each of `parts` (label to colour) has one of the values."""
    shown = found[:_MAX_BARS]
    styles = [Style(part, slot, at if kind == "ratios" else 1) for at, (part, slot) in enumerate(parts.items())]
    marks = [
        (style, name, point)
        for name, row, values in shown
        for style, value in zip(styles, values, strict=True)
        for point in charts.finite_points([(value, 0.0)], row)
    ]
    note = f"{len(found) - len(shown):,} more are not drawn" if len(found) > len(shown) else ""
    rows = [row for _, row, _ in shown]
    return charts.charts(charts.titled(rows, what), rows, ("", y_label), marks, kind=kind, note=note)


def workload_charts(published: Iterable[Result], own: Sequence[Result] = ()) -> list[Chart]:
    """Time to target of published results over accelerators as points, one chart for each workload, an accelerator in one
    colour and shape in all of them; `own` reference results over them, those of another target by themselves."""
    listed, figures = with_time((*published, *filter(is_reference, own))), []
    counts = Counter(accelerator_name(row.device_name) for row in listed if not row.profile)
    common = {name: place for place, (name, _) in enumerate(counts.most_common(len(charts.HUES) * charts.SHAPES))}

    def style_of(row: Result, theirs: Sequence[Result]) -> Style:
        if row.profile:
            other = {same_targets(row.targets, one.targets, row.workload) for one in theirs} == {False}
            return Style("ours, another target" if other else "ours", charts.WHOLE, int(other))
        style, hue = divmod(common.get(kind := accelerator_name(row.device_name), -1), len(charts.HUES))
        if kind not in common:
            return Style("other accelerators", charts.OTHER_SLOT)
        return Style(clean(kind, 30), charts.HUES[hue], style)

    for members in grouped(listed, lambda row: row.workload).values():
        if len(members) < 2:
            continue
        theirs, ours = ([row for row in members if bool(row.profile) is one] for one in (False, True))
        styles = {row.key: style_of(row, theirs) for row in members}
        most = Counter(styles.values())
        theirs.sort(key=lambda row: -most[styles[row.key]])
        marks = [
            (styles[row.key], row.key, Point(float(row.device_count), row.target_seconds / 60, row))
            for row in (*theirs, *ours)
        ]
        labels = ["published", *(f"ours: {label}" for label in merged_labels(ours))]
        axes, title = ("accelerators", "minutes to target"), charts.titled(members)
        figures += charts.charts(title, (), axes, marks, labels=labels, kind="points")
    return figures


def forecast_charts(forecast: Forecast) -> list[Chart]:
    """Time over devices with bounds, or the rate where there is no time; and what each device does over one of the fewest."""
    rows, first = list(forecast.table), forecast.results[0]
    timed = all(row["seconds_per_epoch"] is not None for row in rows)
    times = ("seconds_per_epoch", "seconds per epoch") if timed else ("training_samples_per_second", "samples/s")
    labels, note = (PREDICTION, *filter(None, [first.profile])), " ".join([forecast.how, *forecast.notes[:1]])
    # measured: grey and hollow, as published
    styles = {
        MEASURED: Style(MEASURED, charts.OTHER_SLOT, published=True),
        PREDICTION: Style(PREDICTION, charts.PARTS[0]),
    }
    figures = []
    for name, y_label in (times, ("scaling_efficiency", "work of a device over the fewest")):
        marks, known = list[Mark](), [row for kind in styles for row in rows if row["kind"] == kind and row[name]]
        for row in known:
            low, high = (row.get(f"{name}_{end}") or None for end in ("low", "high"))
            ends = (None, None) if None in (low, high) else (low, high)
            marks.append((styles[row["kind"]], 0, Point(float(row["devices"]), row[name], None, *ends)))
        more = {"labels": labels, "note": note, "kind": "powers"}
        figures += charts.charts(forecast.title, forecast.results, ("devices", y_label), marks, **more)
    return figures
