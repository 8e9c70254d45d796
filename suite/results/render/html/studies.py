"""The figures of studies: curves over an axis of numbers, bars over one of names, validation loss; and of all-reduces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from suite.results.columns import Result, RunRow
from suite.results.identity import label, named_apart
from suite.results.logs.all_reduce import AllReduceTime, bus_bandwidth
from suite.results.logs.record import RunRecord
from suite.results.render.html import charts
from suite.results.render.tables import cell_text
from suite.results.scores import merged_labels
from suite.results.text import clean, devices_text
from suite.results.views.all_reduce import row_names
from suite.results.views.study import StudyResult
from suite.results.views.study_columns import COLUMNS, Context, Line, column_names, device_batch, value

_MOST_BARS = 40
_LOSSES = ("eval_loss", "loss")


def study_charts(result: StudyResult, number: int, slots: Mapping[str, int]) -> list[charts.Chart]:
    """The figures of one study; none where nothing was measured. `number` makes file names unique."""
    if not result.measured or not result.keys:
        return []
    kind, context = result.figure.get("kind"), Context(result.measured)
    if kind == "curves" and (curves := _over_time(result, number, slots)):
        return curves
    for name in (str(result.figure.get("y")), *column_names(result.table.get("columns"))):
        if name in COLUMNS and any(value(name, line, context) is not None for line in result.measured):
            numbers = all(_number(line, result.keys[0]) is not None for line in result.lines)
            return (_lines if kind == "lines" and numbers else _bars)(result, name, number, slots)
    return []


def _charts(
    result: StudyResult, number: int, axes: tuple[str, str], further: str, series: Sequence[charts.Series], **more: Any
) -> list[charts.Chart]:
    """The chart of one quantity of a study; `further`: what its title goes on with."""
    labels = [*merged_labels(result.rows), *(["small version"] if result.size == "ci" else [])]
    stem, title = (f"study-{number:02d}", result.name, axes[1], further), f"{result.name}: {axes[1]}{further}"
    return charts.charts(stem, title, labels, axes, series, **more)


def _number(line: Line, key: str) -> float | None:
    """The value of an axis as a number: of a batch the samples of a device."""
    number = re.search(r"(\d+(?:\.\d+)?)$", line.values[key])
    if number is None:
        return None
    return device_batch(line.row) if key == "batch" and line.row is not None else float(number[1])


def _rest(line: Line, *keys: str) -> str:
    """The values of the other keys; numbers and the like with what they are."""
    return ", ".join(_word(key, text) for key, text in line.values.items() if key not in keys and text)


def _word(key: str, text: str) -> str:
    if key == "gpus" and text.isdigit() and len(text) < 6:
        return devices_text(int(text))
    bare = text in ("all", "true", "false") or re.fullmatch(r"[\d.e+-]+", text)
    return clean(f"{label(key.rpartition('.')[2])} {text}" if bare else text, 24)


def _alike(result: StudyResult) -> list[str]:
    """The keys that have one value in all lines, which no label needs; none where there is one line."""
    several = len(result.lines) > 1
    return [key for key in result.keys if several and len({line.values[key] for line in result.lines}) == 1]


def _lines(result: StudyResult, y: str, number: int, slots: Mapping[str, int]) -> list[charts.Chart]:
    """One curve for each combination of the other keys."""
    context, x, alike = Context(result.measured), result.keys[0], _alike(result)
    curves: dict[tuple[str, str], list[charts.Point]] = {}
    for line, row in zip(result.measured, result.rows, strict=True):
        name = _rest(line, x, *alike) or row.framework
        place = _number(line, x), value(y, line, context)
        curves.setdefault((name, row.framework), []).extend(charts.finite_points([place], row))
    paths = ((*names, [tuple(sorted(points, key=lambda point: point[:2]))]) for names, points in curves.items())
    x_label = "samples of a device" if x == "batch" else label(x.rpartition(".")[2])
    series, note = charts.series_of(paths, slots), _missing(result)
    return _charts(result, number, (x_label, y), "", series, note=note, from_zero=True)


def _missing(result: StudyResult) -> str:
    missing = [f"{_rest(line)}: {line.shown}" for line in result.lines if line.row is None]
    return f"Not drawn: {'; '.join(missing[:12])}{' …' if len(missing) > 12 else ''}" if missing else ""


def _bars(result: StudyResult, y: str, number: int, slots: Mapping[str, int]) -> list[charts.Chart]:
    """One chart, of studies over modes one for each mode."""
    made, alike, context = [], _alike(result), Context(result.measured)
    for mode in dict.fromkeys(line.values.get("mode", "") for line in result.lines):
        bars = []
        for line in [line for line in result.lines if line.values.get("mode", "") == mode][:_MOST_BARS]:
            length = value(y, line, context)
            framework = line.values.get("framework") or (line.row.framework if line.row is not None else "")
            text = line.shown if line.row is None else cell_text("", length)
            name = _rest(line, "mode", *alike) or framework
            (bar,) = charts.series_of([(name, framework, [charts.finite_points([(length, 0.0)], line.row)])], slots)
            bars.append(replace(bar, text=text))
        made += _charts(result, number, ("", y), f", {label(mode)}" if mode else "", bars, kind="bars")
    return made


def _over_time(result: StudyResult, number: int, slots: Mapping[str, int]) -> list[charts.Chart]:
    """Validation loss over epochs and over seconds, one curve for each line; empty where it was not measured."""
    told = named_apart(result.rows, [_rest(line, *_alike(result)) for line in result.measured], fewest=True)
    names = [charts.short(text) for text in told]
    made, frameworks = [], [row.framework for row in result.rows]
    for x in ("epochs", "seconds"):
        paths = ([_path(run, x) for run in row.runs if run.record] for row in result.rows)
        series = charts.series_of(zip(names, frameworks, paths, strict=True), slots)
        made += _charts(result, number, (x, "validation loss"), f" over {x}", series, note=_missing(result))
    return made


def _path(run: RunRow, x_label: str) -> charts.Points:
    record = run.record or RunRecord()
    losses = [next((one.values[name] for name in _LOSSES if name in one.values), None) for one in record.evaluations]
    xs = [one.seconds if x_label == "seconds" else record.epochs_at(one) for one in record.evaluations]
    return charts.finite_points(zip(xs, losses, strict=True), run)


def all_reduce_charts(results: Sequence[Result], slots: Mapping[str, int]) -> list[charts.Chart]:
    """Bus bandwidth of all-reduces over their size, a curve for each framework, number of devices and link."""
    measured = [row for row in results if row.all_reduces]
    named = zip(measured, row_names(measured), strict=True)
    paths = ((name, row.framework, [_bandwidths(row, one) for one in row.all_reduces]) for row, name in named)
    series = charts.series_of(paths, slots)
    title, axes = "All-reduce: bus bandwidth over size", ("bytes", "bus bandwidth, GB/s")
    return charts.charts(["all-reduce", "bus bandwidth"], title, merged_labels(measured), axes, series, kind="powers")


def _bandwidths(row: Result, sums: AllReduceTime) -> charts.Points:
    sizes = ((one.size_bytes, one.median_seconds) for one in sums.sizes)
    rates = ((size, bus_bandwidth(size, seconds, sums.devices) / 1e9) for size, seconds in sizes)
    return charts.finite_points(rates, row)
