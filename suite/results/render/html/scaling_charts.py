"""Charts whose x axis is the number of devices.

The charts show time to target, factors of a speedup, components of the time, cost, published
results, and predictions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from suite.results.columns import Result, with_time
from suite.results.combine import grouped
from suite.results.names import accelerator_name
from suite.results.predict.predictions import MEASURED, PREDICTION, Prediction
from suite.results.price import Prices
from suite.results.render.html import charts
from suite.results.render.html.charts import Chart, Looks, Mark, Point, Style, groups
from suite.results.scores import merged_labels
from suite.results.series import Series, all_series
from suite.results.targets import same_targets, target_text
from suite.results.text import clean
from suite.results.views.overview import is_reference

_MAX_CURVES = 12
"""Maximum number of curves of suite results in a figure. The same limit applies to curves of
published results.
"""
_MAX_BARS = 40
_PARTS = ("setup", "training", "waiting for data", "evaluation", "other")


def scaling_charts(
    results: Sequence[Result], published: Sequence[Result], looks: Looks
) -> list[Chart]:
    """Return a chart of time to target over devices for each group of results.

    Groups with a single device count have no chart.

    Args:
        results: Results of this suite.
        published: Published results. If a group has reference runs on GPUs, the published results
            of the same workload are also drawn. In this case, a single device count is sufficient
            for a chart.
        looks: Styles of all results.
    """
    figures = []
    for members in groups(results):
        curves, first = _curves(members), members[0]
        published_curves = _curves(
            result
            for result in published
            if result.workload == first.workload and is_reference(first)
        )
        if not curves or not (published_curves or len(curves[0]) > 1):
            continue
        counts = [result.device_count for curve in curves for result in curve]
        published_curves.sort(key=partial(_distance, counts=counts))
        drawn = [*curves[:_MAX_CURVES], *published_curves[:_MAX_CURVES]]
        unit, scale = charts.time_unit(
            max(
                result.seconds_maximum or result.target_seconds
                for curve in drawn
                for result in curve
            )
        )
        left_out = len(curves) + len(published_curves) - len(drawn)
        note = f"{left_out:,} more curves are not drawn. The tables have them." if left_out else ""
        point = partial(_time_point, scale=scale)
        y_label = f"{unit} to target (dotted: ideal)"
        figures += _over_devices(
            "time to target over devices", drawn, y_label, looks, point, note=note, kind="scaling"
        )
    return figures


def _distance(curve: Series[Result], counts: Sequence[int]) -> float:
    """Return the distance between the device counts of a curve and `counts`.

    The distance is the logarithm of the ratio of two device counts.
    """
    return min(abs(math.log(result.device_count / count)) for result in curve for count in counts)


def cost_charts(results: Sequence[Result], prices: Prices, looks: Looks) -> list[Chart]:
    """Return charts of the cost of each result over devices."""

    def point(result: Result) -> Point:
        return Point(float(result.device_count), prices.cost(result) or 0.0, result)

    figures = []
    for members in groups(results):
        curves = _curves(result for result in members if prices.cost(result) is not None)[
            :_MAX_CURVES
        ]
        figures += _over_devices("cost of a result", curves, "cost", looks, point, kind="powers")
    return figures


def _curves(results: Iterable[Result]) -> list[Series[Result]]:
    """Return the series of results that have times to target, longest series first."""
    return sorted(all_series(with_time(results)), key=len, reverse=True)


def _time_point(result: Result, scale: float) -> Point:
    low, high = result.seconds_minimum, result.seconds_maximum
    has_range = low and high and result.runs_successful > 1
    ends = (low / scale, high / scale) if has_range and low and high else (None, None)
    return Point(float(result.device_count), result.target_seconds / scale, result, *ends)


def _over_devices(
    quantity: str,
    curves: Sequence[Series[Result]],
    y_label: str,
    looks: Looks,
    point: Callable[[Result], Point],
    **options: Any,
) -> list[Chart]:
    """Return a chart of a quantity over devices, with a curve for each series.

    The label of a series includes the target if the target differs from the targets of all suite
    series.
    """
    marks: list[Mark] = []
    firsts = [curve.fewest for curve in curves if curve.fewest.profile]
    for number, curve in enumerate(curves):
        style, first = looks[curve.fewest.key].of_curve, curve.fewest
        agreements = {
            same_targets(first.targets, suite_result.targets, first.workload)
            for suite_result in firsts
        }
        if agreements == {False}:
            target = charts.short(
                f", target {target_text(first.targets, first.workload, first.falling_metrics)}"
            )
            style = style._replace(label=f"{style.label}{target}")
        marks += [(style, number, point(result)) for result in curve]
    named = [result for curve in curves if curve.fewest.profile or not firsts for result in curve]
    return charts.charts(
        charts.titled(named, quantity), named, ("devices", y_label), marks, **options
    )


def speedup_charts(results: Sequence[Result], looks: Looks) -> list[Chart]:
    """Return a chart of the factors of each speedup.

    The factors are the time per epoch, the number of epochs, and the setup time if the logs contain
    it.
    """
    figures = []
    for members in groups(results):
        bars = []
        speedups = [
            speedup
            for curve in _curves(members)
            for result in curve
            if (speedup := curve.speedup(result))
        ]
        complete = [
            speedup
            for speedup in speedups
            if None not in (speedup.total, speedup.throughput, speedup.efficiency)
        ]
        names = ["speedup", "from faster epochs", "from fewer epochs"]
        if any(speedup.setup is not None for speedup in complete):
            names.append("from setup")
        for speedup in complete:
            values = (speedup.total, speedup.throughput, speedup.efficiency, speedup.setup)[
                : len(names)
            ]
            name = f"{looks[speedup.after.key].of_curve.label}, {speedup.places} dev"
            bars.append((name, speedup.after, values))
        slots = dict(zip(names, (*charts.OF_SPEEDUPS, charts.OF_SETUP), strict=False))
        figures += _bars_of_parts(
            "factors of the speedup", bars, slots, "times, over the fewest devices", "ratios"
        )
    return figures


def parts_charts(results: Sequence[Result], looks: Looks) -> list[Chart]:
    """Return a chart of the components of each time to target.

    Only results whose logs contain the components are included.
    """
    slots = dict(zip(_PARTS, (charts.OF_SETUP, *charts.PARTS, charts.OTHER_SLOT), strict=True))
    figures = []
    for members in groups(
        result for result in results if result.to_target and result.parts is not None
    ):
        unit, scale = charts.time_unit(max(result.seconds or 0.0 for result in members[:_MAX_BARS]))
        bars = []
        for result in members:
            assert result.parts is not None
            values = [seconds / scale for seconds in result.parts]
            bars.append((looks[result.key].of_result.label, result, values))
        figures += _bars_of_parts("parts of the time", bars, slots, f"{unit} to target", "parts")
    return figures


def _bars_of_parts(
    quantity: str,
    bars: Sequence[tuple[str, Result, Sequence[float | None]]],
    slots: Mapping[str, int],
    y_label: str,
    kind: str,
) -> list[Chart]:
    """Return a chart with a line for each bar.

    Args:
        quantity: Quantity in the title.
        bars: For each bar, the name, the result, and a value for each component.
        slots: Maps the label of each component to its color slot.
        y_label: Label of the value axis.
        kind: `ratios` or `parts`.
    """
    shown = bars[:_MAX_BARS]
    styles = [
        Style(part, slot, position if kind == "ratios" else 1)
        for position, (part, slot) in enumerate(slots.items())
    ]
    marks = [
        (style, name, point)
        for name, result, values in shown
        for style, value in zip(styles, values, strict=True)
        for point in charts.finite_points([(value, 0.0)], result)
    ]
    note = f"{len(bars) - len(shown):,} more are not drawn." if len(bars) > len(shown) else ""
    results = [result for _, result, _ in shown]
    return charts.charts(
        charts.titled(results, quantity), results, ("", y_label), marks, kind=kind, note=note
    )


def workload_charts(
    published: Iterable[Result], suite_results: Sequence[Result] = ()
) -> list[Chart]:
    """Return a chart of time to target over accelerators for each workload.

    The chart shows a point for each result. An accelerator has the same color and shape in all
    charts.

    Args:
        published: Published results.
        suite_results: Results of this suite. Reference results are drawn in front of the published
            results. Results with a different target have a separate label.
    """
    listed = with_time((*published, *filter(is_reference, suite_results)))
    counts = Counter(
        accelerator_name(result.device_name) for result in listed if not result.profile
    )
    most_common = counts.most_common(len(charts.HUES) * charts.SHAPES)
    positions = {name: position for position, (name, _) in enumerate(most_common)}

    def style_of(result: Result, published_members: Sequence[Result]) -> Style:
        if result.profile:
            agreements = {
                same_targets(result.targets, member.targets, result.workload)
                for member in published_members
            }
            is_different = agreements == {False}
            label = "this suite, different target" if is_different else "this suite"
            return Style(label, charts.WHOLE, int(is_different))
        accelerator = accelerator_name(result.device_name)
        if accelerator not in positions:
            return Style("other accelerators", charts.OTHER_SLOT)
        shape, hue = divmod(positions[accelerator], len(charts.HUES))
        return Style(clean(accelerator, 30), charts.HUES[hue], shape)

    figures = []
    for members in grouped(listed, lambda result: result.workload).values():
        if len(members) < 2:
            continue
        published_members = [result for result in members if not result.profile]
        suite_members = [result for result in members if result.profile]
        styles = {result.key: style_of(result, published_members) for result in members}
        frequency = Counter(styles.values())
        published_members.sort(key=lambda result: -frequency[styles[result.key]])
        marks = [
            (
                styles[result.key],
                result.key,
                Point(float(result.device_count), result.target_seconds / 60, result),
            )
            for result in (*published_members, *suite_members)
        ]
        labels = ["published", *(f"this suite: {label}" for label in merged_labels(suite_members))]
        axes = ("accelerators", "minutes to target")
        figures += charts.charts(
            charts.titled(members), (), axes, marks, labels=labels, kind="points"
        )
    return figures


def prediction_charts(prediction: Prediction) -> list[Chart]:
    """Return charts of time per epoch and scaling efficiency over devices.

    If the times per epoch are unknown, the first chart shows throughput.
    """
    rows, profile = prediction.rows, prediction.results[0].profile
    has_times = all(row.seconds_per_epoch is not None for row in rows)
    quantity = (
        ("seconds_per_epoch", "seconds per epoch")
        if has_times
        else ("training_samples_per_second", "samples/s")
    )
    options = {
        "labels": (PREDICTION, *filter(None, [profile])),
        "note": " ".join([prediction.how, *prediction.notes[:1]]),
        "kind": "powers",
    }
    styles = {  # Measured points are drawn in gray and hollow, like published results.
        MEASURED: Style(MEASURED, charts.OTHER_SLOT, published=True),
        PREDICTION: Style(PREDICTION, charts.PARTS[0]),
    }
    figures = []
    for name, y_label in (quantity, ("scaling_efficiency", "scaling efficiency")):
        marks: list[Mark] = []
        for kind, style in styles.items():
            for row in rows:
                value = getattr(row, name)
                if row.kind == kind and value:
                    low, high = (
                        getattr(row, f"{name}_{end}", None) or None for end in ("low", "high")
                    )
                    ends = (None, None) if None in (low, high) else (low, high)
                    marks.append((style, 0, Point(float(row.devices), value, None, *ends)))
        figures += charts.charts(
            prediction.title, prediction.results, ("devices", y_label), marks, **options
        )
    return figures
