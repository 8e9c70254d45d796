"""The charts of a results table: quality, throughput, data wait and telemetry of its runs, over epochs or time."""

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

_TELEMETRY_RUNS = 3  # Runs of a series whose telemetry is drawn
_SENSORS: Mapping[str, tuple[str, str]] = {
    "run_cpu_percent": ("CPU used by the run", "% of all CPUs"),
    "gpu_percent": ("GPU in use", "% of time, mean over devices"),
    "gpu_power_watts": ("GPU power", "W, all devices"),
    "gpu_memory_bytes": ("GPU memory in use", "GB, all devices"),
}
"""Sensor (docs/telemetry.md) to title and unit of its figure."""
Points = Iterable[tuple[float | None, float | None]]
Quantity = tuple[str, tuple[str, str], Callable[[RunRecord], Points], dict[str, Any]]
"""Quantity, labels of the axes, points of a run, and further fields of the chart."""


class TableCharts(NamedTuple):
    """Charts of a table. A quantity that was not recorded has no chart."""

    quality: list[charts.Chart]  # Over epochs and over time
    rates: list[charts.Chart]  # Throughput, waiting for data, telemetry


def table_charts(results: Sequence[Result], looks: charts.Looks) -> TableCharts:
    """Return all charts of a table."""
    longest = max((item.seconds for record in _records(results) for item in record.evaluations), default=0.0)
    time = charts.time_unit(longest)
    most = charts.MAX_PATHS if sum(len(row.attempts) for row in results) <= charts.MAX_CURVES else 1

    def made(quantities: Iterable[Quantity]) -> list[charts.Chart]:
        found = []
        for what, axes, of, more in quantities:
            drawn = [mark for row in results for mark in _marks(row, of, looks[row.key], most)]
            banded = len({style for style, _, point in drawn if point.low is not None})
            told = "median" if banded > charts.MAX_BANDS else "median, least and most"
            runs = "several" if most == 1 else f"more than {most}"
            note = f"Of {runs} runs: {told}, while half of them last" if banded else ""
            found += charts.charts(charts.titled(results, what), results, axes, drawn, note=note, **more)
        return found

    unit = clean(results[0].sample_unit or "samples", 30)
    return TableCharts(made(_qualities(results, *time)), made((*_rates(unit, *time), *_telemetry(results, *time))))


def _marks(row: Result, of: Callable[[RunRecord], Points], look: charts.Look, most: int) -> Iterator[charts.Mark]:
    """Return the curves of a result's runs; the median with its band if there are more than `most` runs."""
    paths = [path for run in row.attempts if run.record and (path := charts.finite_points(of(run.record), run))]
    for number, path in enumerate([charts.band(paths, row)] if len(paths) > most else paths):
        yield from ((look.of_result, number, point) for point in charts.evenly(path, charts.MAX_POINTS))


def _records(results: Sequence[Result]) -> list[RunRecord]:
    return [run.record for row in results for run in row.attempts if run.record is not None]


def _qualities(results: Sequence[Result], unit: str, scale: float) -> Iterator[Quantity]:
    for metric in _metrics(results):
        targets = charts.Points()
        for row in results:
            value = _by_metric(row.targets, row.workload).get(metric)
            known = None if value is None else value * bleu_scale(metric, value)
            targets += charts.finite_points([(0.0, known)], row)
        shown = metric_title(clean(metric, 30))
        for what, x_label, divisor in (("epochs", "epochs", None), ("time", unit, scale)):
            yield f"{shown} over {what}", (x_label, shown), partial(quality, (metric,), divisor), {"targets": targets}


def quality(metrics: Sequence[str], scale: float | None, record: RunRecord) -> Points:
    """Return a function for the first of the metrics at each evaluation, over epochs or over time. BLEU is in points."""
    named = [_by_metric(item.values, record.benchmark) for item in record.evaluations]
    values = [next((one[metric] for metric in metrics if metric in one), None) for one in named]
    target = _by_metric(record.targets, record.benchmark).get(metrics[0])
    factor = bleu_scale(metrics[0], target, [value for value in values if value is not None])
    for item, value in zip(record.evaluations, values, strict=True):
        yield item.seconds / scale if scale else record.epochs_at(item), None if value is None else value * factor


def _by_metric(values: Mapping[str, float], workload: str) -> dict[str, float]:
    return {metric_name(metric, workload_name(workload)): value for metric, value in values.items()}


def _metrics(results: Sequence[Result]) -> list[str]:
    """Return at most three metrics. Metrics with a target come first."""
    first = [item for record in _records(results) for item in record.evaluations[:3]]
    targets = dict.fromkeys(metric for row in results for metric in row.targets)
    logged = dict.fromkeys(metric for item in first for metric in item.quality)
    scores = [metric for item in first for metric in item.scores]
    names = [*(name for name in targets if name in logged), *(() if targets else logged), *scores]
    return list(dict.fromkeys(metric_name(name, workload_name(results[0].workload)) for name in names))[:3]


def _rates(samples: str, unit: str, scale: float) -> Iterator[Quantity]:
    for what, y_label, of in (
        ("throughput", f"{samples}/s, training alone", lambda block: block.samples_per_second),
        ("data wait", "% of training time", _waiting_percent),
    ):
        yield f"{what} over time", (unit, y_label), partial(_of_blocks, of, scale), {"from_zero": True}


def _waiting_percent(block: Throughput) -> float | None:
    known = block.data_wait_seconds is not None and block.train_seconds
    return 100 * (block.data_wait_seconds or 0.0) / (block.train_seconds or 1.0) if known else None


def _of_blocks(of: Callable[[Throughput], float | None], scale: float, record: RunRecord) -> Points:
    return ((block.seconds / scale, of(block)) for block in record.throughput if block.seconds is not None)


def _telemetry(results: Sequence[Result], unit: str, scale: float) -> Iterator[Quantity]:
    runs = (run for row in results for run in charts.evenly(row.attempts, _TELEMETRY_RUNS))
    recorded = {one.path: telemetry(one.path.parent) for run in runs if (one := run.record)}
    for sensor, (title, y_label) in _SENSORS.items():
        yield title, (unit, y_label), partial(_sampled, recorded, sensor, scale), {"from_zero": True}


def _sampled(recorded: Mapping[Path, RecordedTelemetry | None], sensor: str, scale: float, record: RunRecord) -> Points:
    series, size = recorded.get(record.path), 1e9 if sensor.endswith("_bytes") else 1.0
    sampled = zip(series.seconds, series.series.get(sensor, ()), strict=False) if series is not None else ()
    values = ((x / scale, None if y is None else y / size) for x, y in sampled)
    return ((point.x, point.y) for point in charts.downsample_mean(charts.finite_points(values)))
