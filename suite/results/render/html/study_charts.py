"""The figures of studies: curves over an axis of numbers, bars over one of names, validation loss; and of all-reduces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.identity import label
from suite.results.logs.all_reduce import AllReduceTime, bus_bandwidth
from suite.results.logs.record import RunRecord
from suite.results.render.html import charts
from suite.results.render.html.curves import quality
from suite.results.render.text_table import cell_text
from suite.results.settings_difference import named_apart
from suite.results.text import clean, devices_text
from suite.results.views.all_reduce import row_names
from suite.results.views.study import StudyResult
from suite.results.views.study_columns import COLUMNS, Context, Line, column_names, device_batch, value

_MOST_BARS = 40
_LOSSES = ("eval_loss", "loss")


def study_charts(result: StudyResult, looks: charts.Looks) -> list[charts.Chart]:
    """The figures of one study; none where nothing was measured. `looks`: of the page's results, of which a cell may hold a
    part alone."""
    if not result.measured or not result.keys:
        return []
    looks = {**charts.looks(result.rows), **looks}
    own = [looks[row.key] for row in result.rows]
    modes = [line.values.get("mode") for line in result.measured]
    if len({*zip((look.of_result for look in own), modes, strict=True)}) < len(own):
        texts = named_apart(result.rows, [_rest(line, *_alike(result)) for line in result.measured])
        own = [
            replace(look, of_result=look.of_result._replace(label=charts.short(text) or look.of_result.label))
            for look, text in zip(own, texts, strict=True)
        ]
    kind, context = result.figure.get("kind"), Context(result.measured)
    if kind == "curves" and (curves := _over_time(result, own)):
        return curves
    for name in (str(result.figure.get("y")), *column_names(result.table.get("columns"))):
        if name in COLUMNS and any(value(name, line, context) is not None for line in result.measured):
            numbers = all(_number(line, result.keys[0]) is not None for line in result.lines)
            return (_lines if kind == "lines" and numbers else _bars)(result, name, own)
    return []


def _charts(
    result: StudyResult, axes: tuple[str, str], further: str, marks: Sequence[charts.Mark], **more: Any
) -> list[charts.Chart]:
    """The chart of one quantity of a study; `further`: what its title goes on with."""
    labels = ["small version"] if result.size == "ci" else []
    return charts.charts(f"{result.name}: {axes[1]}{further}", result.rows, axes, marks, labels=labels, **more)


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


def _lines(result: StudyResult, y: str, looks: Sequence[charts.Look]) -> list[charts.Chart]:
    """One curve for each combination of the other keys, called as all of its results are."""
    context, x = Context(result.measured), result.keys[0]
    marks, styles = list[charts.Mark](), dict[str, charts.Style]()
    by_rest = grouped(zip(result.measured, result.rows, looks, strict=True), lambda one: _rest(one[0], x))
    for rest, members in by_rest.items():
        of_curve, words = members[0][2].of_curve, [look.of_result.label.split(", ") for _, _, look in members]
        name = ", ".join(word for word in words[0] if all(word in each for each in words))
        name = charts.short(rest) if name in ("", *(one.label for one in styles.values())) else name
        taken = sum(one.slot == of_curve.slot for one in styles.values())
        style = of_curve if name == of_curve.label else of_curve._replace(label=name or of_curve.label, style=taken)
        styles[rest] = style
        points = (charts.finite_points([(_number(line, x), value(y, line, context))], row) for line, row, _ in members)
        marks += [(style, 0, point) for point in sorted(chain(*points), key=lambda point: point[:2])]
    x_label = "samples of a device" if x == "batch" else label(x.rpartition(".")[2])
    return _charts(result, (x_label, y), "", marks, note=_missing(result), from_zero=True)


def _missing(result: StudyResult) -> str:
    missing = [f"{_rest(line)}: {line.shown}" for line in result.lines if line.row is None]
    return f"Not drawn: {'; '.join(missing[:12])}{' …' if len(missing) > 12 else ''}" if missing else ""


def _bars(result: StudyResult, y: str, looks: Sequence[charts.Look]) -> list[charts.Chart]:
    """One chart, of studies over modes one for each mode."""
    made, alike, context = [], _alike(result), Context(result.measured)
    look_of = {id(line): look for line, look in zip(result.measured, looks, strict=True)}
    for mode, lines in grouped(result.lines, lambda line: line.values.get("mode", "")).items():
        bars = list[charts.Mark]()
        for line in lines[:_MOST_BARS]:
            name = charts.short(_rest(line, "mode", *alike)) or line.values.get("framework", "")
            look = look_of.get(id(line))
            style = charts.Style(*look.of_result[:2]) if look else charts.Style(name, charts.OTHER_SLOT)
            length = value(y, line, context) if look else None
            point = *charts.finite_points([(length, 0.0)], line.row), charts.Point(0.0, 0.0)
            bars.append((style, cell_text("", length) if look else line.shown, point[0]))
        made += _charts(result, ("", y), f", {label(mode)}" if mode else "", bars, kind="bars")
    return made


def _over_time(result: StudyResult, looks: Sequence[charts.Look]) -> list[charts.Chart]:
    """Validation loss over epochs and over seconds, one curve for each line; empty where it was not measured."""
    made = list[charts.Chart]()
    for x, scale in (("epochs", None), ("seconds", 1.0)):
        marks = [
            (look.of_result, run.path, point)
            for look, row in zip(looks, result.rows, strict=True)
            for run in row.runs
            for point in charts.finite_points(quality(_LOSSES, scale, run.record or RunRecord()), run)
        ]
        made += _charts(result, (x, "validation loss"), f" over {x}", marks, note=_missing(result))
    return made


def all_reduce_charts(results: Sequence[Result]) -> list[charts.Chart]:
    """Bus bandwidth of all-reduces over their size, a curve for each framework, number of devices and link."""
    measured = [row for row in results if row.all_reduces]
    slots = charts.framework_slots(row.framework for row in measured)
    marks = list[charts.Mark]()
    for style, (row, name) in enumerate(zip(measured, row_names(measured), strict=True)):
        look = charts.Style(charts.short(name), slots.get(row.framework, charts.OTHER_SLOT), style)
        marks += [(look, at, point) for at, one in enumerate(row.all_reduces) for point in _bandwidths(row, one)]
    title, axes = "All-reduce: bus bandwidth over size", ("bytes", "bus bandwidth, GB/s")
    return charts.charts(title, measured, axes, marks, kind="powers")


def _bandwidths(row: Result, sums: AllReduceTime) -> charts.Points:
    sizes = ((one.size_bytes, one.median_seconds) for one in sums.sizes)
    rates = ((size, bus_bandwidth(size, seconds, sums.devices) / 1e9) for size, seconds in sizes)
    return charts.finite_points(rates, row)
