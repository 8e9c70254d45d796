"""The charts of a results table: quality, throughput, data wait and telemetry of its runs, over epochs or time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.html.charts import (
    MAX_PATHS,
    Chart,
    Points,
    Series,
    downsample,
    downsample_mean,
    evenly_chosen,
    finite_points,
    slots_and_styles,
)
from suite.results.html.labels import row_labels, run_labels
from suite.results.html.theme import framework_slots
from suite.results.logs.collect import Run
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import telemetry
from suite.results.names import workload_name
from suite.results.score.groups import Row
from suite.results.targets import bleu_scale, metric_name
from suite.results.text import clean

_TELEMETRY_RUNS = 3
"""Runs of a series whose telemetry is drawn."""
SHORT_SECONDS = 120.0
"""Shorter runs are drawn in seconds, longer ones in minutes."""
_SENSORS: Mapping[str, tuple[str, str]] = {
    "run_cpu_percent": ("CPU used by the run", "% of all CPUs"),
    "gpu_percent": ("GPU in use", "% of time, mean over devices"),
    "gpu_power_watts": ("GPU power", "W, all devices"),
    "gpu_memory_bytes": ("GPU memory in use", "GB, all devices"),
}
"""Sensor (docs/telemetry.md) to title and unit of its figure."""


def file_name(*parts: str) -> str:
    """The stem of a file name: lower-case letters, digits and `-` only, so that no name can lead out of a folder."""
    words = (re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-")[:40] for part in parts)
    return "-".join(word for word in words if word) or "figure"


@dataclass(frozen=True)
class _Curve:
    """How the runs of a row are drawn."""

    name: str
    slot: int
    style: int


def table_charts(table: Sequence[Row], number: int, slots: Mapping[str, int] | None = None) -> list[Chart]:
    """All charts of one table; what was not recorded has none. `number` of the table makes file names unique.

    `slots`: the colour of each framework on the page (theme.framework_slots).
    """
    frameworks = [row.group.framework for row in table]
    placed = slots_and_styles(frameworks, framework_slots(frameworks) if slots is None else slots)
    curves = [_Curve(name, slot, style) for name, (slot, style) in zip(row_labels(table), placed, strict=True)]
    return [
        *_quality_charts(table, curves, number),
        *_rate_charts(table, curves, number),
        *_telemetry_charts(table, curves, number),
    ]


# --- quality ------------------------------------------------------------------------------------------------------------


def _quality_charts(table: Sequence[Row], curves: Sequence[_Curve], number: int) -> Iterator[Chart]:
    unit, scale = _time_unit(table)
    for metric in _metrics(table):

        def over_epochs(record: RunRecord, metric: str = metric) -> Points:
            values = _shown_values(record, metric)
            return finite_points((_epoch(record, index), value) for index, value in enumerate(values))

        def over_time(record: RunRecord, metric: str = metric) -> Points:
            values = _shown_values(record, metric)
            return finite_points(
                (item.seconds / scale, value) for item, value in zip(record.evaluations, values, strict=True)
            )

        logged = [_by_metric(row.group.targets, row.group.workload).get(metric) for row in table]
        targets = {None if value is None else value * bleu_scale(metric, value) for value in logged}
        target = next(iter(targets)) if len(targets) == 1 else None
        shown = finite_points([(0.0, target)])
        for x_label, points in (("epochs", over_epochs), (unit, over_time)):
            series, note = _series(table, curves, points)
            if series:
                yield Chart(
                    name=file_name(f"{number:02d}", _workload(table), clean(metric, 30), "over", x_label),
                    title=f"{_workload(table)}: {clean(metric, 30)} over {'epochs' if x_label == 'epochs' else 'time'}",
                    labels=run_labels(table),
                    x_label=x_label,
                    y_label=clean(metric, 30),
                    series=series,
                    target=shown[0][1] if shown else None,
                    target_label=f"target {target:.6g}" if target is not None else "",
                    note=note,
                )


def _shown_values(record: RunRecord, metric: str) -> list[float | None]:
    """The values of all evaluations, BLEU in points."""
    values = [_by_metric(item.values, record.benchmark).get(metric) for item in record.evaluations]
    target = _by_metric(record.targets, record.benchmark).get(metric)
    scale = bleu_scale(metric, target, [value for value in values if value is not None])
    return [None if value is None else value * scale for value in values]


def _by_metric(values: Mapping[str, float], workload: str) -> dict[str, float]:
    return {metric_name(metric, workload_name(workload)): value for metric, value in values.items()}


def _metrics(table: Sequence[Row]) -> list[str]:
    """Metrics with a target, then those without; at most three."""
    targets = dict.fromkeys(metric for row in table for metric in row.group.targets)
    logged = dict.fromkeys(
        metric for record in _records(table) for evaluation in record.evaluations[:3] for metric in evaluation.quality
    )
    scores = dict.fromkeys(
        metric for record in _records(table) for evaluation in record.evaluations[:3] for metric in evaluation.scores
    )
    names = {**{name: None for name in targets if name in logged}, **({} if targets else logged), **scores}
    return list(dict.fromkeys(metric_name(name, _workload(table)) for name in names))[:3]


def _epoch(record: RunRecord, index: int) -> float | None:
    evaluation = record.evaluations[index]
    return float(evaluation.epochs_begun) if record.format == "MLPv0.5.0" else evaluation.epoch


def _workload(table: Sequence[Row]) -> str:
    return clean(workload_name(table[0].group.workload) or "unknown workload", 40)


def _records(table: Sequence[Row]) -> list[RunRecord]:
    return [run.reading.record for row in table for run in row.attempts if run.reading is not None]


def _time_unit(table: Sequence[Row]) -> tuple[str, float]:
    longest = max((item.seconds for record in _records(table) for item in record.evaluations), default=0.0)
    return ("seconds", 1.0) if longest < SHORT_SECONDS else ("minutes", 60.0)


def _series(
    table: Sequence[Row], curves: Sequence[_Curve], points: Callable[[RunRecord], Points]
) -> tuple[tuple[Series, ...], str]:
    """(one series for each row that has a curve, a note on curves left out)."""
    series, left_out = [], 0
    for row, curve in zip(table, curves, strict=True):
        paths = [downsample(points(run.reading.record)) for run in row.attempts if run.reading is not None]
        drawn = evenly_chosen(paths)
        left_out += sum(1 for path in paths if path) - len(drawn)
        if drawn:
            series.append(Series(curve.name, curve.slot, drawn, style=curve.style))
    return tuple(series), _left_out(left_out)


def _left_out(count: int) -> str:
    return f"{count:,} more runs are not drawn (at most {MAX_PATHS} of one colour)" if count else ""


# --- throughput and waiting ---------------------------------------------------------------------------------------------


def _rate_charts(table: Sequence[Row], curves: Sequence[_Curve], number: int) -> Iterator[Chart]:
    unit, scale = _time_unit(table)
    sample_unit = clean(table[0].group.sample_unit or "samples", 30)

    def rates(record: RunRecord) -> Points:
        return finite_points((seconds / scale, rate) for seconds, rate, _ in blocks(record))

    def waits(record: RunRecord) -> Points:
        return finite_points(
            (seconds / scale, None if wait is None else 100 * wait) for seconds, _, wait in blocks(record)
        )

    kinds = (
        ("throughput", f"{sample_unit}/s, training alone", rates),
        ("data wait", "% of training time", waits),
    )
    for title, y_label, points in kinds:
        series, note = _series(table, curves, points)
        if series:
            yield Chart(
                name=file_name(f"{number:02d}", _workload(table), title),
                title=f"{_workload(table)}: {title} over time",
                labels=run_labels(table),
                x_label=unit,
                y_label=y_label,
                series=series,
                from_zero=True,
                note=note,
            )


def blocks(record: RunRecord) -> list[tuple[float, float | None, float | None]]:
    """(seconds since run_start, samples/s, fraction of training time spent waiting for data) of each evaluation block.

    The time is that of the evaluation which the log writes just before a block's figures; where there is none, the training
    and evaluation seconds so far.
    """
    rates, seconds_so_far, previous_line = [], 0.0, 0
    for item in sorted(record.throughput, key=lambda item: item.line):
        seconds_so_far += (item.train_seconds or 0.0) + (item.evaluation_seconds or 0.0)
        within = [one.seconds for one in record.evaluations if previous_line < one.line < item.line]
        wait = (
            item.data_wait_seconds / item.train_seconds
            if item.data_wait_seconds is not None and item.train_seconds
            else None
        )
        rates.append((within[-1] if within else seconds_so_far, item.samples_per_second, wait))
        previous_line = item.line
    return rates


# --- the machine --------------------------------------------------------------------------------------------------------


def _telemetry_charts(table: Sequence[Row], curves: Sequence[_Curve], number: int) -> Iterator[Chart]:
    recorded: dict[str, list[Series]] = {sensor: [] for sensor in _SENSORS}
    unit, scale = _time_unit(table)
    left_out = 0
    for row, curve in zip(table, curves, strict=True):
        recordings = [
            recording for run in _evenly_chosen_runs(row.attempts) if (recording := telemetry(_folder(run))) is not None
        ]
        left_out += max(0, len(row.attempts) - _TELEMETRY_RUNS) if recordings else 0
        for sensor in _SENSORS:
            size = 1e9 if sensor.endswith("_bytes") else 1.0
            paths = [
                downsample_mean(
                    finite_points(
                        (second / scale, _divided(value, size))
                        for second, value in zip(one.seconds, values, strict=True)
                    )
                )
                for one in recordings
                if (values := one.series.get(sensor)) is not None
            ]
            if any(paths):
                drawn = evenly_chosen(paths)
                recorded[sensor].append(Series(curve.name, curve.slot, drawn, style=curve.style))
    for sensor, series in recorded.items():
        title, y_label = _SENSORS[sensor]
        if series:
            yield Chart(
                name=file_name(f"{number:02d}", _workload(table), title),
                title=f"{_workload(table)}: {title}",
                labels=run_labels(table),
                x_label=unit,
                y_label=y_label,
                series=tuple(series),
                from_zero=True,
                note=f"{left_out:,} more runs are not drawn (at most {_TELEMETRY_RUNS} of one colour)"
                if left_out
                else "",
            )


def _evenly_chosen_runs(runs: Sequence[Run]) -> list[Run]:
    if len(runs) <= _TELEMETRY_RUNS:
        return list(runs)
    return [runs[round(index * (len(runs) - 1) / (_TELEMETRY_RUNS - 1))] for index in range(_TELEMETRY_RUNS)]


def _folder(run: Run) -> Path:
    return run.path if run.reading is None and run.path.is_dir() else run.path.parent


def _divided(value: float | None, size: float) -> float | None:
    return None if value is None else value / size
