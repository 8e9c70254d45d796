"""Forecasts as tables for a terminal and as CSV, each figure marked as measured or as a prediction."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from suite.results.names import WORKLOAD_TITLES
from suite.results.predict.forecast import forecast, why_not_by_law
from suite.results.predict.law import LEVEL
from suite.results.predict.points import Forecast, Point, Range, Wanted
from suite.results.report.markdown import EMPTY, markdown_table, wrapped
from suite.results.report.report import NOT_VERIFIED
from suite.results.report.tables import Table
from suite.results.score.measurement import Measurement
from suite.results.score.price import cost_text
from suite.results.text import clean, csv_cell, devices_text, markdown_escape, time_text

LABEL = "prediction"
"""Stands beside every figure that was not measured."""


def forecasts_text(forecasts: Sequence[Forecast]) -> str:
    """All forecasts as Markdown that reads well in a terminal."""
    intro = (
        "Rows labelled `prediction` were not measured by anybody; how well such rows held: suite scaling --validate."
    )
    parts = ["# Predicted scaling", NOT_VERIFIED, intro]
    return wrapped("\n\n".join([*parts, *(text for one in forecasts for text in _section(one))])) + "\n"


def forecast_title(forecast: Forecast) -> str:
    """`Recommendation (NCF): pytorch on laptop (demo, cpu)`."""
    title = WORKLOAD_TITLES.get(forecast.workload, clean(forecast.workload, 40))
    tags = [tag for tag in dict.fromkeys((forecast.profile, *forecast.labels)) if tag and tag != "published"]
    labels = f" ({clean(', '.join(tags), 120)})" if tags else ""
    settings = f", {forecast.settings}" if forecast.settings else ""
    return f"{title}: {clean(forecast.series, 80)}{labels}{settings}"


def how_text(forecast: Forecast) -> str:
    """How it was made, and what its bounds are."""
    return f"By the {clean(forecast.method, 400)}. Bounds: {clean(forecast.bounds, 400)}."


def _section(forecast: Forecast) -> Iterator[str]:
    yield f"## {markdown_escape(forecast_title(forecast))}"
    yield markdown_escape(how_text(forecast))
    table = forecast_table(forecast)
    body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
    yield markdown_table(table.header, body, table.right_aligned, keys=2)
    if table.footer:
        yield "\n".join(f"- {markdown_escape(line)}" for line in table.footer)


def forecast_table(forecast: Forecast) -> Table:
    """A line for each point, without columns that say nothing; below it the best counts and the notes."""
    header = [
        "devices",
        "",
        "batch",
        "time per epoch",
        "samples/s",
        "epochs",
        "time to target",
        "device-hours",
        "per device",
    ]
    right = [True, False, True, True, True, True, True, True, True]
    body = [_cells(forecast, point) for point in forecast.points]
    if any(point.binds for point in forecast.points):
        header, right = [*header, "binds"], [*right, False]
        body = [[*cells, point.binds or EMPTY] for cells, point in zip(body, forecast.points, strict=True)]
    if forecast.price is not None:
        header, right = [*header, "cost"], [*right, True]
        costs = [forecast.cost(point) for point in forecast.points]
        body = [[*cells, EMPTY if cost is None else cost_text(cost)] for cells, cost in zip(body, costs, strict=True)]
    kept = [index for index in range(len(header)) if index < 3 or any(cells[index] != EMPTY for cells in body)]
    rows = tuple(tuple(cells[index] for index in kept) for cells in body)
    answers = tuple(clean(line, 400) for line in (*answer_lines(forecast), *forecast.notes))
    return Table(tuple(header[index] for index in kept), rows, tuple(right[index] for index in kept), answers)


def answer_lines(forecast: Forecast) -> Iterator[str]:
    """On how many of the listed devices the time to target is shortest, and on how many it costs least.

    Where the time of a listed count is not known, it is said that the answer is one of the others.
    """
    fastest, cheapest = forecast.fastest, forecast.cheapest
    if fastest is None or fastest.seconds is None or cheapest is None or cheapest.device_hours is None:
        return
    timed = {point.devices for point in forecast.points if point.seconds is not None}
    among = "" if timed == {point.devices for point in forecast.points} else ", of the counts with a known time"
    yield f"shortest time to target{among}: {devices_text(fastest.devices)}, {range_text(fastest.seconds)}{_label(fastest)}"
    cost = forecast.cost(cheapest)
    price = "" if cost is None else f", cost {cost_text(cost)}"
    hours = f"{cheapest.device_hours:.3g} a job{price}{_label(cheapest)}"
    yield f"fewest device-hours{among}: {devices_text(cheapest.devices)}, {hours}"


def prediction_note(family: Sequence[Measurement], devices: int) -> str:
    """One sentence on time with so many devices, by the law of published rows; empty where that law says nothing."""
    if why_not_by_law(family):
        return ""
    point = next(item for item in forecast(family, Wanted((devices,))).points if not item.measured)
    batch = f"{devices_text(devices)}, batch {point.batch_size_global:,.10g}"
    note = f"{LABEL}, not measured: {batch}: {range_text(point.seconds_per_epoch)} per epoch ({LEVEL:.0%} interval)"
    if point.seconds is None:
        return f"{note}; epochs to target at this batch are not known (suite scaling)"
    return f"{note}, {point.epochs.text} epochs, so {range_text(point.seconds)} to the target (suite scaling)"


def _label(point: Point) -> str:
    return "" if point.measured else f" ({LABEL})"


def _cells(forecast: Forecast, point: Point) -> list[str]:
    efficiency = forecast.efficiency(point)
    hours = point.device_hours
    rate = point.samples_per_second
    return [
        str(point.devices),
        "measured" if point.measured else LABEL,
        f"{point.batch_size_global:,.10g}",
        range_text(point.seconds_per_epoch),
        EMPTY if rate is None else _numbers(rate, lambda value: f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"),
        EMPTY
        if point.epochs.value is None
        else point.epochs.text
        if not point.measured
        else f"{point.epochs.value:.4g}",
        range_text(point.seconds),
        EMPTY if hours is None else f"{hours:.3g}",
        EMPTY if efficiency is None else f"{efficiency:.2f}",
    ]


def range_text(value: Range | None) -> str:
    """A time with its bounds: `3.2 s (2.8 s to 3.7 s)`; without bounds if it was measured; a dash for None."""
    return EMPTY if value is None else _numbers(value, time_text)


def _numbers(value: Range, text: object) -> str:
    assert callable(text)
    if value.low == value.high:
        return str(text(value.middle))
    return f"{text(value.middle)} ({text(value.low)} to {text(value.high)})"


_COLUMNS = (
    *("workload", "series", "settings", "profile", "labels", "kind", "devices", "batch_size_global", "batch_unit"),
    *("seconds_per_epoch", "seconds_per_epoch_low", "seconds_per_epoch_high"),
    *("samples_per_second", "samples_per_second_low", "samples_per_second_high"),
    *("epochs_to_target", "epochs_source", "seconds_to_target", "seconds_to_target_low", "seconds_to_target_high"),
    *("device_hours", "cost", "scaling_efficiency", "binds", "method", "bounds", "verification"),
)


def forecasts_csv(forecasts: Sequence[Forecast]) -> str:
    """One row for each point with raw numbers; units are in the column names."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_csv_row(forecast, point) for forecast in forecasts for point in forecast.points)
    return stream.getvalue()


def _csv_row(forecast: Forecast, point: Point) -> dict[str, object]:
    return {
        "workload": csv_cell(forecast.workload),
        "series": csv_cell(forecast.series),
        "settings": csv_cell(forecast.settings),
        "profile": csv_cell(forecast.profile),
        "labels": csv_cell("; ".join(forecast.labels)),
        "kind": "measured" if point.measured else LABEL,
        "devices": point.devices,
        "batch_size_global": f"{point.batch_size_global:.10g}",
        "batch_unit": csv_cell(forecast.unit),
        **_columns("seconds_per_epoch", point.seconds_per_epoch),
        **_columns("samples_per_second", point.samples_per_second),
        "epochs_to_target": point.epochs.value,
        "epochs_source": point.epochs.source,
        **_columns("seconds_to_target", point.seconds),
        "device_hours": point.device_hours,
        "cost": forecast.cost(point),
        "scaling_efficiency": forecast.efficiency(point),
        "binds": point.binds,
        "method": csv_cell(forecast.method),
        "bounds": csv_cell(forecast.bounds),
        "verification": NOT_VERIFIED,
    }


def _columns(name: str, value: Range | None) -> dict[str, object]:
    if value is None:
        return {}
    return {name: value.middle, f"{name}_low": value.low, f"{name}_high": value.high}
