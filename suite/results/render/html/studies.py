"""The figures of studies: curves over an axis of numbers, bars over one of names, validation loss; and of all-reduces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from suite.results.identity import Row, label
from suite.results.logs.all_reduce import AllReduce, bus_bandwidth
from suite.results.logs.record import RunRecord
from suite.results.render.html import plots
from suite.results.scores import merged_labels
from suite.results.text import clean, devices_text, figure_text
from suite.results.views.all_reduce import row_names
from suite.results.views.study import StudyResult
from suite.results.views.study_columns import COLUMNS, Context, Line, column_names, device_batch, value

_MOST_BARS = 40
_LOSSES = ("eval_loss", "loss")


def study_charts(result: StudyResult, number: int, slots: Mapping[str, int]) -> list[plots.Chart]:
    """The figures of one study; none where nothing was measured. `number` makes file names unique."""
    if not result.measured or not result.keys:
        return []
    kind, wanted, context = result.figure.get("kind"), str(result.figure.get("y")), Context(result.measured)
    if kind == "curves" and (curves := _over_time(result, number, slots)):
        return curves
    names = [
        name
        for name in dict.fromkeys([wanted, *column_names(result.table.get("columns"))])
        if name in COLUMNS and any(value(name, line, context) is not None for line in result.measured)
    ]
    if not names:
        return []
    if kind == "lines" and all(_number(line, result.keys[0]) is not None for line in result.lines):
        return [_lines(result, names[0], number, slots)]
    return _bars(result, names[0], number, slots)


def _labels(result: StudyResult) -> tuple[str, ...]:
    return plots.shown_labels([*merged_labels(result.rows), *(["small version"] if result.size == "ci" else [])])


def _number(line: Line, key: str) -> float | None:
    """The value of an axis as a number: of a batch the samples of a device."""
    found = re.search(r"(\d+(?:\.\d+)?)$", line.values[key])
    if found is None:
        return None
    return device_batch(line.row) if key == "batch" and line.row is not None else float(found[1])


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


def _lines(result: StudyResult, y: str, number: int, slots: Mapping[str, int]) -> plots.Chart:
    """One curve for each combination of the other keys."""
    context, x, alike = Context(result.measured), result.keys[0], _alike(result)
    curves: dict[str, list[tuple[float | None, float | None]]] = {}
    frameworks: dict[str, str] = {}
    for line, row in zip(result.measured, result.rows, strict=True):
        name = _rest(line, x, *alike) or row.framework
        curves.setdefault(name, []).append((_number(line, x), value(y, line, context)))
        frameworks[name] = row.framework
    placed = plots.slots_and_styles(list(frameworks.values()), slots)
    drawn = zip(
        ((name, tuple(sorted(plots.finite_points(found)))) for name, found in curves.items()), placed, strict=True
    )
    series = tuple(plots.Series(name, slot, (path,), style=style) for (name, path), (slot, style) in drawn if path)
    x_label = "samples of a device" if x == "batch" else label(x.rpartition(".")[2])
    stem, title = plots.file_name(f"study-{number:02d}", result.name, y), f"{result.name}: {y}"
    return plots.Chart(stem, title, _labels(result), x_label, y, series, _missing(result), from_zero=True)


def _missing(result: StudyResult) -> str:
    """What is not drawn: the cells without figures."""
    missing = [f"{_rest(line)}: {line.shown}" for line in result.lines if line.row is None]
    return f"Not drawn: {'; '.join(missing[:12])}{' …' if len(missing) > 12 else ''}" if missing else ""


def _bars(result: StudyResult, y: str, number: int, slots: Mapping[str, int]) -> list[plots.Chart]:
    """One chart, of studies over modes one for each mode."""
    modes = list(dict.fromkeys(line.values["mode"] for line in result.lines)) if "mode" in result.keys else [""]
    charts, alike = [], _alike(result)
    for mode in modes:
        bars = []
        for line in [line for line in result.lines if not mode or line.values["mode"] == mode][:_MOST_BARS]:
            found = value(y, line, Context(result.measured))
            framework = line.values.get("framework") or (line.row.framework if line.row is not None else "")
            text = line.shown if line.row is None else "–" if found is None else figure_text(found)
            path, name = plots.finite_points([(found, 0.0)]), _rest(line, "mode", *alike) or framework
            slot = slots.get(framework, plots.OTHER_SLOT)
            bars.append(plots.Series(name, slot, (path,) if path else (), text=text))
        stem = plots.file_name(f"study-{number:02d}", result.name, y, mode)
        title = f"{result.name}: {y}{f', {label(mode)}' if mode else ''}"
        charts.append(plots.Chart(stem, title, _labels(result), "", y, tuple(bars), kind="bars"))
    return charts


def _over_time(result: StudyResult, number: int, slots: Mapping[str, int]) -> list[plots.Chart]:
    """Validation loss over epochs and over seconds, one curve for each line; empty where it was not measured."""
    charts: list[plots.Chart] = []
    names = plots.distinct([_rest(line, *_alike(result)) for line in result.measured], result.rows)
    placed = plots.slots_and_styles([row.framework for row in result.rows], slots)
    for x_label in ("epochs", "seconds"):
        series = tuple(
            plots.Series(name, slot, paths, style=style)
            for row, name, (slot, style) in zip(result.rows, names, placed, strict=True)
            if (paths := tuple(path for run in row.runs if run.record and (path := _path(run.record, x_label))))
        )
        if series:
            stem = plots.file_name(f"study-{number:02d}", result.name, "loss over", x_label)
            title = f"{result.name}: validation loss over {x_label}"
            charts.append(
                plots.Chart(stem, title, _labels(result), x_label, "validation loss", series, _missing(result))
            )
    return charts


def _path(record: RunRecord, x_label: str) -> plots.Points:
    losses = [next((one.values[name] for name in _LOSSES if name in one.values), None) for one in record.evaluations]
    xs = [one.seconds if x_label == "seconds" else one.epoch for one in record.evaluations]
    return plots.finite_points(zip(xs, losses, strict=True))


def all_reduce_charts(results: Sequence[Row], slots: Mapping[str, int]) -> list[plots.Chart]:
    """Bus bandwidth of all-reduces over their size, a curve for each framework, number of devices and link."""
    measured = [row for row in results if row.all_reduces]
    looks = plots.slots_and_styles([row.framework for row in measured], slots)
    series = tuple(
        plots.Series(name, slot, tuple(_bandwidths(sums) for sums in row.all_reduces), style=style)
        for row, name, (slot, style) in zip(measured, row_names(measured), looks, strict=True)
    )
    stem, title = plots.file_name("all-reduce", "bus bandwidth"), "All-reduce: bus bandwidth over size"
    labels = plots.shown_labels(merged_labels(measured))
    return [plots.Chart(stem, title, labels, "bytes", "bus bandwidth, GB/s", series, kind="powers")]


def _bandwidths(sums: AllReduce) -> plots.Points:
    return plots.finite_points(
        (one.size_bytes, bus_bandwidth(one.size_bytes, one.median_seconds, sums.devices) / 1e9) for one in sums.sizes
    )
