"""Charts over epochs or time for the runs in a results table.

The charts show quality, throughput, waiting for data, and telemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from suite.results.columns import Result
from suite.results.logs.record import RunRecord, Throughput
from suite.results.logs.recorded_telemetry import RecordedTelemetry, telemetry
from suite.results.names import workload_name
from suite.results.render.html import charts
from suite.results.targets import bleu_scale, metric_name, metric_title
from suite.results.text import clean

_TELEMETRY_RUNS = 3
"""Maximum number of runs per result whose telemetry is drawn."""
_SENSORS: Mapping[str, tuple[str, str]] = {
    "run_cpu_percent": ("CPU used by the run", "% of all CPUs"),
    "gpu_percent": ("GPU in use", "% of time, mean over devices"),
    "gpu_power_watts": ("GPU power", "W, all devices"),
    "gpu_memory_bytes": ("GPU memory in use", "GB, all devices"),
}
"""Title and unit of the figure of each telemetry sensor (docs/reference/telemetry.md)."""
Points = Iterable[tuple[float | None, float | None]]


class Quantity(NamedTuple):
    """A quantity for which the charts show a curve for each run."""

    title: str
    axes: tuple[str, str]
    """Labels of the x axis and the y axis."""
    points: Callable[[RunRecord], Points]
    """Function that returns the points of the curve from the record of a run."""
    options: Mapping[str, Any]
    """Further fields of the chart."""


class TableCharts(NamedTuple):
    """Charts for the runs in a results table.

    Quantities that were not recorded have no chart.
    """

    quality: list[charts.Chart]
    """Charts of quality over epochs and over time."""
    rates: list[charts.Chart]
    """Charts of throughput, waiting for data, and telemetry."""


def table_charts(results: Sequence[Result], looks: charts.Looks) -> TableCharts:
    """Return the charts for the results in a table."""
    longest = max(
        (item.seconds for record in _records(results) for item in record.evaluations), default=0.0
    )
    time = charts.time_unit(longest)
    runs = sum(len(result.attempts) for result in results)
    max_paths = charts.MAX_PATHS if runs <= charts.MAX_CURVES else 1

    def draw(quantities: Iterable[Quantity]) -> list[charts.Chart]:
        found: list[charts.Chart] = []
        for quantity in quantities:
            marks: list[charts.Mark] = []
            for result in results:
                marks += _marks(result, quantity, looks[result.key], max_paths)
            title = charts.titled(results, quantity.title)
            note = _band_note(marks, max_paths)
            found += charts.charts(
                title, results, quantity.axes, marks, note=note, **quantity.options
            )
        return found

    unit = clean(results[0].sample_unit or "samples", 30)
    return TableCharts(
        draw(_qualities(results, *time)), draw((*_rates(unit, *time), *_telemetry(results, *time)))
    )


def _band_note(marks: Sequence[charts.Mark], max_paths: int) -> str:
    """Return the caption that explains the bands of a chart.

    The caption is empty if the chart has no bands.
    """
    bands = len({style for style, _, point in marks if point.low is not None})
    if not bands:
        return ""
    curves = (
        "the median" if bands > charts.MAX_BANDS else "the median, the minimum, and the maximum"
    )
    runs = "several" if max_paths == 1 else f"more than {max_paths}"
    return f"For results with {runs} runs: {curves}, up to the point that half of the runs reached"


def _marks(
    result: Result, quantity: Quantity, look: charts.Look, max_paths: int
) -> Iterator[charts.Mark]:
    """Yield the points of the curves of a result's runs.

    If the result has more than `max_paths` runs, the function yields the points of the median with
    its band.
    """
    paths = []
    for run in result.attempts:
        if run.record is not None:
            path = charts.finite_points(quantity.points(run.record), run)
            if path:
                paths.append(path)
    if len(paths) > max_paths:
        paths = [charts.band(paths, result)]
    for number, path in enumerate(paths):
        for point in charts.evenly(path, charts.MAX_POINTS):
            yield look.of_result, number, point


def _records(results: Sequence[Result]) -> list[RunRecord]:
    return [run.record for result in results for run in result.attempts if run.record is not None]


def _qualities(results: Sequence[Result], unit: str, scale: float) -> Iterator[Quantity]:
    for metric in _metrics(results):
        targets: charts.Points = ()
        for result in results:
            target = _by_metric(result.targets, result.workload).get(metric)
            if target is not None:
                targets += charts.finite_points(
                    [(0.0, target * bleu_scale(metric, target))], result
                )
        title = metric_title(clean(metric, 30))
        for x, x_label, divisor in (("epochs", "epochs", None), ("time", unit, scale)):
            points = partial(quality, (metric,), divisor)
            yield Quantity(f"{title} over {x}", (x_label, title), points, {"targets": targets})


def quality(metrics: Sequence[str], scale: float | None, record: RunRecord) -> Points:
    """Return a point for each evaluation of a run. The y coordinate is the quality.

    BLEU is in percentage points.

    Args:
        metrics: Metrics in order of preference. The first of these metrics that an evaluation
            contains is drawn.
        scale: Length of the time unit in seconds. If None, the x coordinate is the epoch.
        record: The record of the run.
    """
    values = []
    for item in record.evaluations:
        by_metric = _by_metric(item.values, record.benchmark)
        values.append(next((by_metric[metric] for metric in metrics if metric in by_metric), None))
    target = _by_metric(record.targets, record.benchmark).get(metrics[0])
    factor = bleu_scale(metrics[0], target, [value for value in values if value is not None])
    for item, value in zip(record.evaluations, values, strict=True):
        yield (
            item.seconds / scale if scale else record.epochs_at(item),
            None if value is None else value * factor,
        )


def _by_metric(values: Mapping[str, float], workload: str) -> dict[str, float]:
    return {metric_name(metric, workload_name(workload)): value for metric, value in values.items()}


def _metrics(results: Sequence[Result]) -> list[str]:
    """Return at most three metrics.

    Metrics with a target precede metrics without a target.
    """
    first = [item for record in _records(results) for item in record.evaluations[:3]]
    targets = dict.fromkeys(metric for result in results for metric in result.targets)
    logged = dict.fromkeys(metric for item in first for metric in item.quality)
    scores = [metric for item in first for metric in item.scores]
    names = [*(name for name in targets if name in logged), *(() if targets else logged), *scores]
    return list(
        dict.fromkeys(metric_name(name, workload_name(results[0].workload)) for name in names)
    )[:3]


def _rates(samples: str, unit: str, scale: float) -> Iterator[Quantity]:
    options = {"from_zero": True}
    throughput = partial(_points_of_blocks, lambda block: block.samples_per_second, scale)
    yield Quantity(
        "throughput over time", (unit, f"{samples}/s, training only"), throughput, options
    )
    waiting = partial(_points_of_blocks, _waiting_percent, scale)
    yield Quantity("data wait over time", (unit, "% of training time"), waiting, options)


def _waiting_percent(block: Throughput) -> float | None:
    if block.data_wait_seconds is None or not block.train_seconds:
        return None
    return 100 * block.data_wait_seconds / block.train_seconds


def _points_of_blocks(
    value: Callable[[Throughput], float | None], scale: float, record: RunRecord
) -> Points:
    return (
        (block.seconds / scale, value(block))
        for block in record.throughput
        if block.seconds is not None
    )


def _telemetry(results: Sequence[Result], unit: str, scale: float) -> Iterator[Quantity]:
    recorded: dict[Path, RecordedTelemetry | None] = {}
    for result in results:
        for run in charts.evenly(result.attempts, _TELEMETRY_RUNS):
            if run.record is not None:
                recorded[run.record.path] = telemetry(run.record.path.parent)
    for sensor, (title, y_label) in _SENSORS.items():
        yield Quantity(
            title, (unit, y_label), partial(_samples, recorded, sensor, scale), {"from_zero": True}
        )


def _samples(
    recorded: Mapping[Path, RecordedTelemetry | None], sensor: str, scale: float, record: RunRecord
) -> Points:
    """Return the points of a telemetry sensor over time.

    The tuple is empty if the run has no telemetry.
    """
    telemetry_of_run = recorded.get(record.path)
    if telemetry_of_run is None:
        return ()
    y_scale = 1e9 if sensor.endswith("_bytes") else 1.0
    samples = zip(telemetry_of_run.seconds, telemetry_of_run.series.get(sensor, ()), strict=False)
    values = ((x / scale, None if y is None else y / y_scale) for x, y in samples)
    return ((point.x, point.y) for point in charts.downsample_mean(charts.finite_points(values)))
