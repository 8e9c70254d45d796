"""The charts of a results table: quality, throughput, data wait and telemetry of its runs, over epochs or time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.results.identity import Row
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import telemetry
from suite.results.names import workload_name
from suite.results.render.html import plots
from suite.results.scores import merged_labels
from suite.results.targets import bleu_scale, metric_name
from suite.results.text import clean

_TELEMETRY_RUNS = 3
"""Runs of a series whose telemetry is drawn."""
_SENSORS: Mapping[str, tuple[str, str]] = {
    "run_cpu_percent": ("CPU used by the run", "% of all CPUs"),
    "gpu_percent": ("GPU in use", "% of time, mean over devices"),
    "gpu_power_watts": ("GPU power", "W, all devices"),
    "gpu_memory_bytes": ("GPU memory in use", "GB, all devices"),
}
"""Sensor (docs/telemetry.md) to title and unit of its figure."""
PointsOf = Callable[[RunRecord], plots.Points]
Charts = list[plots.Chart]


@dataclass(frozen=True)
class _Table:
    """The results of a table as they are drawn."""

    results: Sequence[Row]
    number: int
    """Makes names of files unique."""
    names: Sequence[str]
    looks: Sequence[tuple[int, int]]
    """(slot, style) of each result."""
    unit: str
    scale: float
    """Seconds in `unit`."""

    @property
    def workload(self) -> str:
        return clean(workload_name(self.results[0].workload) or "unknown workload", 40)

    def chart(
        self, names: Sequence[str], title: str, x_label: str, y_label: str, points: PointsOf, **further: Any
    ) -> Charts:
        """The chart of a quantity of each run; none if nothing of it was recorded. `names`: of its file."""
        drawn = [[path for run in row.attempts if run.record and (path := points(run.record))] for row in self.results]
        if left_out := sum(max(0, len(paths) - plots.MAX_PATHS) for paths in drawn):
            further["note"] = f"{left_out:,} more runs are not drawn (at most {plots.MAX_PATHS} of one colour)"
        series = tuple(
            plots.Series(name, slot, tuple(plots.evenly(paths, plots.MAX_PATHS)), style=style)
            for paths, name, (slot, style) in zip(drawn, self.names, self.looks, strict=True)
            if paths
        )
        stem = plots.file_name(f"{self.number:02d}", self.workload, *names)
        labels, title = plots.shown_labels(merged_labels(self.results)), f"{self.workload}: {title}"
        return [plots.Chart(stem, title, labels, x_label, y_label, series, **further)] if series else []


def table_charts(results: Sequence[Row], number: int, slots: Mapping[str, int]) -> list[plots.Chart]:
    """All charts of one table; what was not recorded has none. `slots`: the colour of each framework on the page."""
    seconds = [item.seconds for record in _records(results) for item in record.evaluations]
    looks = plots.slots_and_styles([row.framework for row in results], slots)
    table = _Table(results, number, plots.result_names(results), looks, *plots.time_unit(max(seconds, default=0.0)))
    return [*_quality_charts(table), *_rate_charts(table), *_telemetry_charts(table)]


def _records(results: Sequence[Row]) -> list[RunRecord]:
    return [run.record for row in results for run in row.attempts if run.record is not None]


# --- quality ------------------------------------------------------------------------------------------------------------


def _quality_charts(table: _Table) -> Iterator[plots.Chart]:
    axes: tuple[tuple[str, str, Callable[[RunRecord, int], float | None]], ...] = (
        ("epochs", "epochs", _epoch),
        ("time", table.unit, lambda record, place: record.evaluations[place].seconds / table.scale),
    )
    for number, metric in enumerate(_metrics(table), start=1):
        logged = [_by_metric(row.targets, row.workload).get(metric) for row in table.results]
        targets = {None if value is None else value * bleu_scale(metric, value) for value in logged}
        known = plots.finite_points([(0.0, value) for value in targets]) if len(targets) == 1 else ()
        target, shown = known[0][1] if known else None, clean(metric, 30)
        for what, x_label, x_of in axes:

            def points(record: RunRecord, metric: str = metric, x_of: Any = x_of) -> plots.Points:
                values = enumerate(_shown_values(record, metric))
                found = plots.finite_points((x_of(record, place), value) for place, value in values)
                return tuple(plots.evenly(found, plots.MAX_POINTS))

            names = (shown, str(number) if number > 1 else "", "over", x_label)
            yield from table.chart(names, f"{shown} over {what}", x_label, shown, points, target=target)


def _shown_values(record: RunRecord, metric: str) -> list[float | None]:
    """The values of all evaluations, BLEU in points."""
    values = [_by_metric(item.values, record.benchmark).get(metric) for item in record.evaluations]
    target = _by_metric(record.targets, record.benchmark).get(metric)
    scale = bleu_scale(metric, target, [value for value in values if value is not None])
    return [None if value is None else value * scale for value in values]


def _by_metric(values: Mapping[str, float], workload: str) -> dict[str, float]:
    return {metric_name(metric, workload_name(workload)): value for metric, value in values.items()}


def _metrics(table: _Table) -> list[str]:
    """Metrics with a target, then those without; at most three."""
    first = [item for record in _records(table.results) for item in record.evaluations[:3]]
    targets = dict.fromkeys(metric for row in table.results for metric in row.targets)
    logged = dict.fromkeys(metric for item in first for metric in item.quality)
    scores = [metric for item in first for metric in item.scores]
    names = [*(name for name in targets if name in logged), *(() if targets else logged), *scores]
    return list(dict.fromkeys(metric_name(name, table.workload) for name in names))[:3]


def _epoch(record: RunRecord, index: int) -> float | None:
    evaluation = record.evaluations[index]
    return float(evaluation.epochs_begun) if record.format == "MLPv0.5.0" else evaluation.epoch


# --- throughput and waiting ---------------------------------------------------------------------------------------------


def _rate_charts(table: _Table) -> Iterator[plots.Chart]:
    unit = clean(table.results[0].sample_unit or "samples", 30)
    kinds = (("throughput", f"{unit}/s, training alone", 1, 1.0), ("data wait", "% of training time", 2, 100.0))
    for what, y_label, column, size in kinds:

        def points(record: RunRecord, column: int = column, size: float = size) -> plots.Points:
            known = ((one[0] / table.scale, one[column]) for one in blocks(record))
            found = plots.finite_points((x, None if y is None else y * size) for x, y in known)
            return tuple(plots.evenly(found, plots.MAX_POINTS))

        yield from table.chart([what], f"{what} over time", table.unit, y_label, points, from_zero=True)


def blocks(record: RunRecord) -> list[tuple[float, float | None, float | None]]:
    """(seconds since run_start, samples/s, fraction of training time spent waiting for data) of each evaluation block.

    The time is that of the evaluation which the log writes just before a block's figures; where there is none, the training
    and evaluation seconds so far.
    """
    rates, seconds_so_far, previous_line = [], 0.0, 0
    for item in sorted(record.throughput, key=lambda item: item.line):
        seconds_so_far += (item.train_seconds or 0.0) + (item.evaluation_seconds or 0.0)
        within = [one.seconds for one in record.evaluations if previous_line < one.line < item.line]
        known = item.data_wait_seconds is not None
        wait = (item.data_wait_seconds or 0.0) / item.train_seconds if known and item.train_seconds else None
        rates.append((within[-1] if within else seconds_so_far, item.samples_per_second, wait))
        previous_line = item.line
    return rates


# --- the machine --------------------------------------------------------------------------------------------------------


def _telemetry_charts(table: _Table) -> Iterator[plots.Chart]:
    drawn = [[run.record for run in plots.evenly(row.attempts, _TELEMETRY_RUNS) if run.record] for row in table.results]
    recorded = {one.path: found for each in drawn for one in each if (found := telemetry(one.path.parent)) is not None}
    left_out = sum(
        max(0, len(row.attempts) - _TELEMETRY_RUNS)
        for row, each in zip(table.results, drawn, strict=True)
        if any(one.path in recorded for one in each)
    )
    note = f"{left_out:,} more runs are not drawn (at most {_TELEMETRY_RUNS} of one colour)" if left_out else ""
    for sensor, (title, y_label) in _SENSORS.items():

        def points(record: RunRecord, sensor: str = sensor) -> plots.Points:
            found, size = recorded.get(record.path), 1e9 if sensor.endswith("_bytes") else 1.0
            sampled = zip(found.seconds, found.series.get(sensor, ()), strict=False) if found is not None else ()
            return plots.downsample_mean(
                plots.finite_points((x / table.scale, None if y is None else y / size) for x, y in sampled)
            )

        yield from table.chart([title], title, table.unit, y_label, points, from_zero=True, note=note)
