"""The figures of studies: curves over an axis of numbers, bars over one of names, validation loss over epochs and time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from suite.results.html.charts import Bar, BarChart, Chart, Series, finite_points, slots_and_styles
from suite.results.html.curves import file_name
from suite.results.html.labels import shown_labels
from suite.results.logs.all_reduce import AllReduce, bus_bandwidth
from suite.results.logs.record import RunRecord
from suite.results.report.all_reduce import row_names
from suite.results.report.studies import number_text, study_table
from suite.results.report.study_columns import COLUMNS, Context, device_batch, records
from suite.results.report.study_lines import Line, StudyResult
from suite.results.score.groups import Row
from suite.results.text import clean, devices_text

_MOST_BARS = 40
_LOSSES = ("eval_loss", "loss")


def study_charts(result: StudyResult, number: int, slots: Mapping[str, int]) -> list[Chart | BarChart]:
    """The figures of one study; none where nothing was measured. `number` makes file names unique."""
    if not result.measured or not result.keys:
        return []
    kind, wanted = result.figure.get("kind"), str(result.figure.get("y"))
    if kind == "curves" and (curves := _over_time(result, number, slots)):
        return list(curves)
    shown = [name for name in study_table(result).header if name in COLUMNS]
    y = wanted if wanted in shown else shown[0] if shown else ""
    if not y:
        return []
    if kind == "lines" and all(_number(line, result.keys[0]) is not None for line in result.lines):
        return [_lines(result, y, number, slots)]
    return _bars(result, y, number, slots)


def _labels(result: StudyResult) -> tuple[str, ...]:
    return shown_labels(
        [
            *(label for line in result.measured if line.row is not None for label in line.row.labels),
            *(["small version"] if result.size == "ci" else []),
        ]
    )


def _title(result: StudyResult, y: str, series: str = "") -> str:
    return f"{result.name}: {y}{f', {series}' if series else ''}"


def _number(line: Line, key: str) -> float | None:
    """The value of an axis as a number: of a batch the samples of a device."""
    found = re.search(r"(\d+(?:\.\d+)?)$", line.values[key])
    if found is None:
        return None
    if key == "batch" and line.row is not None:
        return device_batch(line.row)
    return float(found[1])


def _rest(line: Line, *keys: str) -> str:
    """The values of the other keys; numbers and the like with what they are."""
    return ", ".join(_word(key, value) for key, value in line.values.items() if key not in keys and value)


def _word(key: str, value: str) -> str:
    if key == "gpus" and value.isdigit() and len(value) < 6:
        return devices_text(int(value))
    bare = value in ("all", "true", "false") or re.fullmatch(r"[\d.e+-]+", value)
    return clean(f"{key.rpartition('.')[2].replace('_', ' ')} {value}" if bare else value, 24)


def _alike(result: StudyResult) -> list[str]:
    """The keys that have one value in all lines, which no label needs; none where there is one line."""
    return [
        key for key in result.keys if len(result.lines) > 1 and len({line.values[key] for line in result.lines}) == 1
    ]


def _lines(result: StudyResult, y: str, number: int, slots: Mapping[str, int]) -> Chart:
    """One curve for each combination of the other keys."""
    context, x, alike = Context(result.measured), result.keys[0], _alike(result)
    curves: dict[str, list[tuple[float | None, float | None]]] = {}
    frameworks: dict[str, str] = {}
    for line in result.measured:
        assert line.row is not None
        name = _rest(line, x, *alike) or line.row.group.framework
        curves.setdefault(name, []).append((_number(line, x), COLUMNS[y](line.row, line, context)))
        frameworks[name] = line.row.group.framework
    placed = slots_and_styles(list(frameworks.values()), slots)
    series = [
        Series(name, slot, (tuple(sorted(finite_points(points))),), style=style)
        for (name, points), (slot, style) in zip(curves.items(), placed, strict=True)
    ]
    return Chart(
        name=file_name(f"study-{number:02d}", result.name, y),
        title=_title(result, y),
        labels=_labels(result),
        x_label="samples of a device" if x == "batch" else x.rpartition(".")[2].replace("_", " "),
        y_label=y,
        series=tuple(one for one in series if one.paths[0]),
        from_zero=True,
        note=_missing(result),
    )


def _missing(result: StudyResult) -> str:
    """What is not drawn: the cells without figures."""
    missing = [f"{_rest(line)}: {line.shown}" for line in result.lines if line.row is None]
    return f"Not drawn: {'; '.join(missing[:12])}{' …' if len(missing) > 12 else ''}" if missing else ""


def _bars(result: StudyResult, y: str, number: int, slots: Mapping[str, int]) -> list[Chart | BarChart]:
    """One chart, of studies over modes one for each mode."""
    modes = list(dict.fromkeys(line.values["mode"] for line in result.lines)) if "mode" in result.keys else [""]
    context, charts = Context(result.measured), list[Chart | BarChart]()
    for mode in modes:
        lines = [line for line in result.lines if not mode or line.values["mode"] == mode][:_MOST_BARS]
        bars = [_bar(line, COLUMNS[y], context, slots, _alike(result)) for line in lines]
        charts.append(
            BarChart(
                name=file_name(f"study-{number:02d}", result.name, y, mode),
                title=_title(result, y, mode.replace("_", " ")),
                labels=_labels(result),
                y_label=y,
                bars=tuple(bars),
            )
        )
    return charts


def _bar(
    line: Line,
    column: Callable[[Row, Line, Context], float | None],
    context: Context,
    slots: Mapping[str, int],
    alike: Sequence[str],
) -> Bar:
    value = None if line.row is None else column(line.row, line, context)
    framework = line.values.get("framework") or (line.row.group.framework if line.row is not None else "")
    text = line.shown if line.row is None else number_text(value)
    return Bar(_rest(line, "mode", *alike) or framework, value, text, slots_and_styles([framework], slots)[0][0])


def _over_time(result: StudyResult, number: int, slots: Mapping[str, int]) -> list[Chart]:
    """Validation loss over epochs and over seconds, one curve for each line; empty where it was not measured."""
    charts = []
    for x_label in ("epochs", "seconds"):
        named = [(line.row, _rest(line, *_alike(result))) for line in result.measured if line.row is not None]
        placed = slots_and_styles([row.group.framework for row, _ in named], slots)
        series = [
            Series(name, slot, paths, style=style)
            for (row, name), (slot, style) in zip(named, placed, strict=True)
            if (paths := tuple(path for record in records(row) if (path := _path(record, x_label))))
        ]
        if series:
            charts.append(
                Chart(
                    name=file_name(f"study-{number:02d}", result.name, "loss over", x_label),
                    title=_title(result, f"validation loss over {x_label}"),
                    labels=_labels(result),
                    x_label=x_label,
                    y_label="validation loss",
                    series=tuple(series),
                    note=_missing(result),
                )
            )
    return charts


def _path(record: RunRecord, x_label: str) -> tuple[tuple[float, float], ...]:
    found: Sequence[tuple[float | None, float | None]] = [
        (item.seconds if x_label == "seconds" else item.epoch, loss)
        for item in record.evaluations
        if (loss := next((item.values[name] for name in _LOSSES if name in item.values), None)) is not None
    ]
    return finite_points(found)


def all_reduce_charts(rows: Sequence[Row], slots: Mapping[str, int]) -> list[Chart]:
    """Bus bandwidth of all-reduces over their size, a curve for each framework, number of devices and link."""
    if not rows:
        return []
    placed = slots_and_styles([row.group.framework for row in rows], slots)
    series = [
        Series(name, slot, tuple(_bandwidths(sums) for sums in row.all_reduces), style=style)
        for row, name, (slot, style) in zip(rows, row_names(rows), placed, strict=True)
    ]
    labels = shown_labels([label for row in rows for label in row.labels])
    name, title = file_name("all-reduce", "bus bandwidth"), "All-reduce: bus bandwidth over size"
    return [Chart(name, title, labels, "bytes", "bus bandwidth, GB/s", tuple(series), powers=True)]


def _bandwidths(sums: AllReduce) -> tuple[tuple[float, float], ...]:
    return finite_points(
        (one.size_bytes, bus_bandwidth(one.size_bytes, one.median_seconds, sums.devices) / 1e9) for one in sums.sizes
    )
