"""Charts of studies and of all-reduce measurements.

The charts show curves over a numeric key, bars for non-numeric keys, and validation loss over time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.experiment_key import label
from suite.results.logs.all_reduce import AllReduceTime, bus_bandwidth
from suite.results.logs.record import RunRecord
from suite.results.render.html import charts
from suite.results.render.html.curve_charts import quality
from suite.results.render.text_table import cell_text
from suite.results.settings_difference import named_apart
from suite.results.text import clean, devices_text
from suite.results.views.all_reduce_view import row_names
from suite.results.views.study_columns import (
    STUDY_COLUMNS,
    StudyContext,
    StudyLine,
    batch_per_device,
    column_names,
    column_value,
)
from suite.results.views.study_view import StudyResult

_MAX_BARS = 40
_MAX_MISSING = 12
"""Maximum number of unmeasured study lines that a note lists."""
_LOSSES = ("eval_loss", "loss")
"""Metrics of validation loss. The charts show the first of these metrics that the log contains."""
Member = tuple[StudyLine, Result, charts.Look]
"""A tuple (measured line of a study, its result, its styles)."""


def study_charts(study: StudyResult, looks: charts.Looks) -> list[charts.Chart]:
    """Return the charts of a study, or an empty list if no line was measured.

    Args:
        study: A study with the results of its lines.
        looks: Styles of the results on the page. A line of a study may contain only some of the
            runs of such a result.
    """
    if not study.measured or not study.keys:
        return []
    looks_of_lines = _looks_of_lines(study, looks)
    kind, context = study.figure.get("kind"), StudyContext(study.measured)
    if kind == "curves":
        curves = _loss_charts(study, looks_of_lines)
        if curves:
            return curves
    for name in (str(study.figure.get("y")), *column_names(study.table.get("columns"))):
        if name in STUDY_COLUMNS and any(
            column_value(name, line, context) is not None for line in study.measured
        ):
            is_numeric = all(_number(line, study.keys[0]) is not None for line in study.lines)
            draw = _line_charts if kind == "lines" and is_numeric else _bar_charts
            return draw(study, name, looks_of_lines)
    return []


def _looks_of_lines(study: StudyResult, looks: charts.Looks) -> list[charts.Look]:
    """Return the styles of each measured line.

    If several labels would be equal, the values of the lines' keys are added.
    """
    all_looks = {**charts.looks(study.results), **looks}
    found = [all_looks[result.key] for result in study.results]
    modes = [line.values.get("mode") for line in study.measured]
    if len({(look.of_result, mode) for look, mode in zip(found, modes, strict=True)}) == len(found):
        return found
    common = _common_keys(study)
    names = named_apart(study.results, [_other_values(line, *common) for line in study.measured])
    renamed = []
    for look, name in zip(found, names, strict=True):
        style = look.of_result._replace(label=charts.short(name) or look.of_result.label)
        renamed.append(replace(look, of_result=style))
    return renamed


def _charts(
    study: StudyResult,
    axes: tuple[str, str],
    title_end: str,
    marks: Sequence[charts.Mark],
    **options: Any,
) -> list[charts.Chart]:
    """Return the chart of a quantity of a study.

    Args:
        study: The study.
        axes: Labels of the axes. The second label is the quantity.
        title_end: Text that follows the quantity in the title.
        marks: Marks of the chart.
        options: Further fields of the chart.
    """
    labels = ["small version"] if study.size == "ci" else []
    return charts.charts(
        f"{study.name}: {axes[1]}{title_end}", study.results, axes, marks, labels=labels, **options
    )


def _number(line: StudyLine, key: str) -> float | None:
    """Return a line's value of a study key as a number.

    A batch size is converted to samples per device.
    """
    number = re.search(r"(\d+(?:\.\d+)?)$", line.values[key])
    if number is None:
        return None
    return (
        batch_per_device(line.result)
        if key == "batch" and line.result is not None
        else float(number[1])
    )


def _other_values(line: StudyLine, *keys: str) -> str:
    """Return a line's values of all study keys except `keys` as text."""
    return ", ".join(
        _value_text(key, text) for key, text in line.values.items() if key not in keys and text
    )


def _value_text(key: str, text: str) -> str:
    """Return a value, preceded by the name of its key if the value alone would be unclear.

    Unclear values are numbers, `all`, `true`, and `false`.
    """
    if key == "gpus" and text.isdigit() and len(text) < 6:
        return devices_text(int(text))
    is_unclear = text in ("all", "true", "false") or re.fullmatch(r"[\d.e+-]+", text)
    return clean(f"{label(key.rpartition('.')[2])} {text}" if is_unclear else text, 24)


def _common_keys(study: StudyResult) -> list[str]:
    """Return the study keys that have the same value in all lines.

    Labels omit these keys. The list is empty for a study with a single line.
    """
    if len(study.lines) < 2:
        return []
    return [key for key in study.keys if len({line.values[key] for line in study.lines}) == 1]


def _line_charts(study: StudyResult, y: str, looks: Sequence[charts.Look]) -> list[charts.Chart]:
    """Return a chart over the study's first key.

    The chart has a curve for each combination of the other keys' values.
    """
    context, x = StudyContext(study.measured), study.keys[0]
    members: list[Member] = list(zip(study.measured, study.results, looks, strict=True))
    marks: list[charts.Mark] = []
    styles: list[charts.Style] = []
    for values, of_curve in grouped(members, lambda member: _other_values(member[0], x)).items():
        style = _curve_style(values, of_curve, styles)
        styles.append(style)
        points: list[charts.Point] = []
        for line, result, _ in of_curve:
            points += charts.finite_points(
                [(_number(line, x), column_value(y, line, context))], result
            )
        marks += [(style, 0, point) for point in sorted(points, key=lambda point: point[:2])]
    x_label = "samples per device" if x == "batch" else label(x.rpartition(".")[2])
    return _charts(study, (x_label, y), "", marks, note=_missing_note(study), from_zero=True)


def _curve_style(
    values: str, members: Sequence[Member], styles: Sequence[charts.Style]
) -> charts.Style:
    """Return the style of a curve.

    By default, the curve has the same label as its results in scaling charts.

    Args:
        values: Values of all study keys except the key on the x axis. These values become the label
            if the results have different labels, or if another curve already has the default label.
        members: The measured lines on the curve.
        styles: Styles of the previous curves.
    """
    look = members[0][2]
    labels = {member_look.of_curve.label for _, _, member_look in members}
    name = look.of_curve.label if len(labels) == 1 else ""
    if name in ("", *(style.label for style in styles)):
        name = charts.short(values) or members[0][1].framework
    if name == look.of_curve.label:
        return look.of_curve
    same_color = sum(style.slot == look.of_curve.slot for style in styles)
    return look.of_curve._replace(label=name or look.of_curve.label, style=same_color)


def _missing_note(study: StudyResult) -> str:
    """Return a note that lists the unmeasured lines with the reasons.

    The note is empty if all lines were measured.
    """
    missing = [
        f"{_other_values(line)}: {line.outcome}" for line in study.lines if line.result is None
    ]
    if not missing:
        return ""
    return (
        "Not drawn:"
        f" {'; '.join(missing[:_MAX_MISSING])}{' …' if len(missing) > _MAX_MISSING else ''}"
    )


def _bar_charts(study: StudyResult, y: str, looks: Sequence[charts.Look]) -> list[charts.Chart]:
    """Return a bar chart, or a bar chart for each mode if the study has several modes."""
    context, common = StudyContext(study.measured), _common_keys(study)
    remaining = iter(looks)
    members = [(line, next(remaining) if line.result is not None else None) for line in study.lines]
    drawn: list[charts.Chart] = []
    for mode, of_mode in grouped(members, lambda member: member[0].values.get("mode", "")).items():
        bars: list[charts.Mark] = []
        for line, look in of_mode[:_MAX_BARS]:
            if look is not None:
                style = charts.Style(*look.of_result[:2])
                length = column_value(y, line, context)
                text = cell_text("", length)
            else:
                name = charts.short(_other_values(line, "mode", *common)) or line.values.get(
                    "framework", ""
                )
                style, length, text = charts.Style(name, charts.OTHER_SLOT), None, line.outcome
            point, *_ = (
                *charts.finite_points([(length, 0.0)], line.result),
                charts.Point(0.0, 0.0),
            )
            bars.append((style, text, point))
        drawn += _charts(study, ("", y), f", {label(mode)}" if mode else "", bars, kind="bars")
    return drawn


def _loss_charts(study: StudyResult, looks: Sequence[charts.Look]) -> list[charts.Chart]:
    """Return charts of validation loss over epochs and over seconds.

    Each line of the study is a curve. The list is empty if the loss was not measured.
    """
    drawn: list[charts.Chart] = []
    for x, scale in (("epochs", None), ("seconds", 1.0)):
        marks: list[charts.Mark] = []
        for look, result in zip(looks, study.results, strict=True):
            for run in result.runs:
                points = charts.finite_points(
                    quality(_LOSSES, scale, run.record or RunRecord()), run
                )
                marks += [(look.of_result, run.path, point) for point in points]
        drawn += _charts(
            study, (x, "validation loss"), f" over {x}", marks, note=_missing_note(study)
        )
    return drawn


def all_reduce_charts(results: Sequence[Result]) -> list[charts.Chart]:
    """Return a chart of all-reduce bus bandwidth over message size.

    Each result is a curve.
    """
    measured = [result for result in results if result.all_reduces]
    slots = charts.framework_slots(result.framework for result in measured)
    marks: list[charts.Mark] = []
    for number, (result, name) in enumerate(zip(measured, row_names(measured), strict=True)):
        style = charts.Style(
            charts.short(name), slots.get(result.framework, charts.OTHER_SLOT), number
        )
        for index, times in enumerate(result.all_reduces):
            points = charts.finite_points(_bandwidths(times), result)
            marks += [(style, index, point) for point in points]
    title, axes = "All-reduce: bus bandwidth over size", ("bytes", "bus bandwidth, GB/s")
    return charts.charts(title, measured, axes, marks, kind="powers")


def _bandwidths(times: AllReduceTime) -> Iterator[tuple[float, float]]:
    """Yield pairs (message size in bytes, bus bandwidth in GB/s)."""
    for size in times.sizes:
        yield (
            size.size_bytes,
            bus_bandwidth(size.size_bytes, size.median_seconds, times.devices) / 1e9,
        )
