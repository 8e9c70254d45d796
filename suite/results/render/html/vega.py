"""Convert charts to Vega-Lite specifications.

The browser draws a specification on the page, and vl-convert draws the same specification to SVG
and PNG files.

Vega-Lite specifications also work under a content security policy that forbids `eval`. vl-convert
contains the scripts of Vega-Lite, so nothing is downloaded.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from suite.results.columns import Columns
from suite.results.combine import grouped
from suite.results.render.html.charts import (
    MAX_BANDS,
    OTHER_SLOT,
    WHOLE,
    Chart,
    Point,
    Style,
    file_name,
)
from suite.results.text import clean
from suite.results.views.section import NOT_VERIFIED

SERIES_COLORS = (
    *("#0a62a4", "#b0440c", "#00705a", "#8c3a7c", "#755c00", "#1a7f9c"),
    *("#1d2531", "#4a55b5", "#b3286b", "#5d6b12", "#6a3d9a", "#8f2d2d"),
)
"""Color of each slot.

Six colors are for frameworks. All other colors are for a total, the components of a time, and the
factors of a speedup.

The hues are those of Okabe and Ito, which color-blind readers can distinguish. The colors are
darkened until text has a contrast of 4.5 : 1 on white. The style sheet defines lighter colors for
the dark theme.
"""
INK, MUTED, GRID, PAPER = "#1d2530", "#5a6573", "#dfe3e8", "#ffffff"
CSS_VARIABLES: Mapping[str, str] = {
    **{color: f"--c{slot}" for slot, color in enumerate(SERIES_COLORS)},
    **{INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"},
}
"""Maps each color to the CSS variable that replaces it on the page.

In figure files, the colors of the light theme are used directly.
"""
_SHAPES = {
    "circle": "M0-4A4 4 0 1 1 0 4A4 4 0 1 1 0-4",
    "square": "M-3.5-3.5H3.5V3.5H-3.5Z",
    "triangle-up": "M0-4L4 3.5H-4Z",
    "diamond": "M0-4.5L4.5 0L0 4.5L-4.5 0Z",
    "triangle-down": "M0 4L4-3.5H-4Z",
    "cross": "M-1.5-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z",
}
"""Maps Vega's name of each marker to its outline in the page's legends, within 10 by 10 pixels."""
_DASHES: tuple[list[int], ...] = ([], [6, 2], [2, 2], [6, 2, 2, 2])
CATEGORIES = ("bars", "parts", "ratios")
_FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
_WIDTH, _HEIGHT = 420, 260
STEP = 34
"""Total height in pixels of a bar, the name above the bar, and the gap below the bar."""
_MARKER_SIZE = 40.0
"""Size of a marker in square pixels."""
_MAX_MARKERS = 20
"""Maximum number of points of a curve that is drawn with markers. Longer curves have no markers."""
_LOGARITHMIC = {"x": 3.0, "y": 10.0}
"""For each axis, minimum ratio of the largest to the smallest value at which the axis is
logarithmic.

A linear axis of times or rates begins at zero.
"""
_INSET = 5
"""Padding in pixels at the ends of an axis, so that no marker is cut off."""
_NEAR = 0.07
"""Minimum distance between two target lines as a fraction of the figure's height. Below this
distance, the texts at the lines would overlap.
"""
_FURTHER_COLORS = (0, 1, 2, 3, 4, 5, 8, 7, 11, 9, 10, 6)
"""Color slots for series whose default color is already used in the figure.

Clearly different hues come first, and the color for totals comes last.
"""
_PNG_SCALE = 2.0
"""Number of PNG pixels per SVG pixel in each direction."""
IDEAL, TARGET, UNMARKED, TARGET_ABOVE = 1, 2, 3, 4
"""Kinds of marks (column `k`): point of ideal scaling, target with text below its line, point
without a marker, and target with text above its line.
"""
Json = Any
Paint = Callable[[str], str]
"""Function that maps a color of the light theme to the color that is drawn."""


@functools.cache
def scripts() -> str:
    """Return the code of Vega-Lite, Vega, and vega-embed as a single script."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def marks(chart: Chart, number_of: Callable[[Columns], int] | None = None) -> dict[str, list[Json]]:
    """Return the points of a chart as columns.

    The columns are the index `s` of the series, the number `p` of the curve, `x`, `y`, `low`,
    `high`, the `name` of a bar, the `text` of the bar, the number `row` of the run or result, and
    the kind `k` of the mark. Empty columns are omitted, except `s`.

    Args:
        chart: The chart.
        number_of: Function that returns the number of a run or result on the page.
    """
    names = ("s", "p", "x", "y", "low", "high", "name", "text", "row", "k")
    rows: list[list[Json]] = []

    def add(
        series: str,
        path: int,
        point: Point,
        name: str = "",
        text: str = "",
        kind: int | None = None,
    ) -> None:
        row = None if point.row is None or number_of is None else number_of(point.row)
        values = (series, path, point.x, point.y, point.low, point.high, name, text, row, kind)
        rows.append(
            [float(f"{value:.5g}") if isinstance(value, float) else value for value in values]
        )

    for number, ((style, group), curve) in enumerate(
        grouped(chart.marks, lambda mark: mark[:2]).items()
    ):
        name = text = ""
        if chart.kind == "bars":
            name, text = style.label, str(group)
        elif chart.kind in ("parts", "ratios"):
            name = str(group)
        for _, _, point in curve:
            add(
                style.label,
                number,
                point,
                name,
                text,
                UNMARKED if len(curve) > _MAX_MARKERS else None,
            )
        if chart.kind == "scaling" and len(curve) > 1:
            for point in _ideal_scaling(curve[0][2], curve[-1][2]):
                add(style.label, number, point, kind=IDEAL)
    above = _targets_with_text_above(chart)
    for point in chart.targets:
        add(
            "",
            0,
            point,
            text=f"target {point.y:.6g}",
            kind=TARGET_ABOVE if point.y in above else TARGET,
        )
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return {
        column: values
        for column, values in columns.items()
        if column == "s" or any(value is not None and value != "" for value in values)
    }


def _ideal_scaling(first: Point, last: Point) -> list[Point]:
    """Return points of ideal scaling between two numbers of devices.

    Several points are needed, because ideal scaling is a curved line on linear axes.
    """
    devices = [first.x * (last.x / first.x) ** (step / 12) for step in range(13)]
    return [Point(x, first.y * first.x / x, first.row) for x in devices]


def _targets_with_text_above(chart: Chart) -> set[float]:
    """Return the targets whose text is drawn above the target line.

    Text below the line would overlap the text of the next lower target.
    """
    heights = [point.y for _, _, point in chart.marks] + [point.y for point in chart.targets]
    near = _NEAR * (max(heights) - min(heights))
    targets = sorted({point.y for point in chart.targets})
    return {higher for lower, higher in itertools.pairwise(targets) if higher - lower < near}


def spec(chart: Chart, on_page: bool = False) -> dict[str, Json]:
    """Return the Vega-Lite specification of a chart.

    Args:
        chart: The chart.
        on_page: True for a specification that is embedded in the page. This specification omits the
            data, the title, and the legend, which the page provides, and uses the colors of the
            page.
    """
    paint: Paint = _page_color if on_page else str
    drawn = marks(chart)
    rows = [dict(zip(drawn, values, strict=True)) for values in zip(*drawn.values(), strict=True)]
    scale = {
        "domain": [style.label for style in chart.styles],
        "range": [*map(paint, _colors(chart))],
    }
    legend: dict[str, Json] = {"labelLimit": 300, "symbolStrokeWidth": 2, "symbolOpacity": 1}
    if _has_lines(chart):
        legend |= {"symbolType": "stroke", "symbolSize": 900}
    has_legend = not on_page and chart.kind != "bars" and len(chart.styles) > 1
    color = {
        "field": "s",
        "type": "nominal",
        "title": None,
        "scale": scale,
        "legend": legend if has_legend else None,
    }
    bars = {row["name"] for row in rows if "name" in row}
    banded = list(dict.fromkeys(row["s"] for row in rows if row.get("low") is not None))
    if len(banded) > MAX_BANDS:
        banded = []
    parameters = {"from": None, "to": None, "banded": banded}
    specification: dict[str, Json] = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"name": "marks"} if on_page else {"values": rows},
        "autosize": {"type": "fit-x" if on_page else "pad", "contains": "padding"},
        "width": _WIDTH,
        "height": STEP * len(bars) if chart.kind in CATEGORIES else _HEIGHT,
        "params": [{"name": name, "value": value} for name, value in parameters.items()],
        "layer": _bars(chart, color, paint)
        if chart.kind in CATEGORIES
        else _curves(chart, color, paint, on_page),
        "config": _config(paint, on_page),
    }
    if on_page:
        return specification
    below = [", ".join(chart.labels), NOT_VERIFIED.rstrip("."), clean(chart.note, 120)]
    return specification | {
        "title": {"text": clean(chart.title, 90), "subtitle": [line for line in below if line]},
        "padding": 12,
    }


def _page_color(color: str) -> str:
    return f"var({CSS_VARIABLES[color]})"


def _color(style: Style) -> str:
    if style.published or style.slot == OTHER_SLOT:
        return MUTED
    return SERIES_COLORS[style.slot % len(SERIES_COLORS)]


def _colors(chart: Chart) -> list[str]:
    """Return the color of each style.

    The lines of a figure have distinct colors if there are enough colors.

    The first series of a framework has the framework's color in every figure. Further series of the
    framework get colors that no other series in the figure has.
    """
    preferred = [_color(style) for style in chart.styles]
    if not _has_lines(chart):
        return preferred
    colors: dict[int, str] = {}
    for number in sorted(range(len(preferred)), key=lambda number: chart.styles[number].style):
        if preferred[number] not in colors.values():
            colors[number] = preferred[number]
    free = [
        SERIES_COLORS[slot]
        for slot in _FURTHER_COLORS
        if SERIES_COLORS[slot] not in colors.values()
    ]
    for number in range(len(preferred)):
        if number not in colors:
            colors[number] = free.pop(0) if free else preferred[number]
    return [colors[number] for number in range(len(preferred))]


def look(chart: Chart) -> list[dict[str, Json]]:
    """Return a legend entry for each style of a chart.

    A legend entry consists of a name, a color, a marker, and a line style.
    """
    found = []
    styles = [] if chart.kind == "bars" else chart.styles
    for style, file_color in zip(styles, _colors(chart), strict=False):
        color = _page_color(file_color)
        found.append(
            {
                "name": style.label,
                "color": color,
                "dash": _dash(style) if _has_lines(chart) else None,
                "shape": _SHAPES[_shape(style)],
                "fill": "none" if chart.kind == "ratios" else color,
            }
        )
    return found


SHAPE = {"field": "marker", "type": "nominal", "scale": None}
"""Encoding of the markers on lines.

The encoding has no scale, so that the legend shows only the dash patterns of the lines.
"""


def _marker(chart: Chart) -> dict[str, Json]:
    """Return the transform that assigns a marker to each point of a line.

    The marker depends on the series. The transform maps series to markers with two lists instead of
    a JavaScript object. An object has inherited keys such as `__proto__` and `constructor`, which
    could also be names of series.
    """
    names, shapes = (
        [style.label for style in chart.styles],
        [_shape(style) for style in chart.styles],
    )
    return {
        "calculate": f"{json.dumps(shapes)}[indexof({json.dumps(names)}, datum.s)]",
        "as": "marker",
    }


def _shape_in_legend(chart: Chart, color: Mapping[str, Json]) -> dict[str, Json]:
    """Return the encoding of markers in a legend that also shows the colors."""
    shapes = [_shape(style) for style in chart.styles]
    return {**color, "scale": {"domain": color["scale"]["domain"], "range": shapes}}


def _has_lines(chart: Chart) -> bool:
    return chart.kind not in (*CATEGORIES, "points")


def _dash(style: Style) -> list[int]:
    """Return the dash pattern of a line.

    Dash patterns and markers together distinguish 24 styles per color.
    """
    if style.published:
        return _DASHES[1 + (style.style + style.style // 6) % 3]
    return _DASHES[(style.style + style.style // 12) % len(_DASHES)]


def _shape(style: Style) -> str:
    return list(_SHAPES)[style.style % len(_SHAPES)]


def _axis(
    field: str, title: str, values: Iterable[float], *, logarithmic: bool, zero: bool = False
) -> dict[str, Json]:
    """Return the definition of an axis, which is logarithmic or linear.

    The axis is logarithmic if `logarithmic` is True, all values are positive, and the ratio of the
    largest to the smallest value is large enough (`_LOGARITHMIC`).

    Args:
        field: `x` or `y`.
        title: Text next to the axis.
        values: The drawn values. On a logarithmic `x` axis, up to eight integers become the ticks.
        logarithmic: True if the axis may be logarithmic.
        zero: True if a linear axis begins at zero.
    """
    distinct = sorted(set(values))
    axis: dict[str, Json] = {"title": title, "tickCount": 6}
    scale: dict[str, Json] = {"zero": zero, "nice": True}
    if (
        logarithmic
        and field == "x"
        and len(distinct) <= 8
        and all(value == int(value) for value in distinct)
    ):
        axis |= {"values": distinct, "format": ",.6~r"}
    if logarithmic and distinct and distinct[0] > 0:
        if distinct[-1] >= _LOGARITHMIC[field] * distinct[0]:
            scale, axis["format"] = {"type": "log", "nice": False, "padding": 12}, ",.6~r"
        elif not zero:
            scale |= {"nice": False, "padding": 12}
    # An inset is used instead of padding, which would extend the axis below zero.
    if zero and "type" not in scale:
        pixels = (
            [{"expr": f"height - {_INSET}"}, _INSET]
            if field == "y"
            else [_INSET, {"expr": f"width - {_INSET}"}]
        )
        scale["range"] = pixels
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _curves(
    chart: Chart, color: dict[str, Json], paint: Paint, on_page: bool
) -> list[dict[str, Json]]:
    points = [point for _, _, point in chart.marks]
    logarithmic, timed = chart.kind != "lines", chart.kind == "lines"
    heights = [point.y for point in (*points, *chart.targets)]
    x = _axis(
        "x", chart.x_label, (point.x for point in points), logarithmic=logarithmic, zero=timed
    )
    y = _axis(
        "y", chart.y_label, heights, logarithmic=logarithmic, zero=chart.from_zero or logarithmic
    )
    if timed:  # The page sets the axis limits when the user drags over the figure.
        x["scale"] |= {"domainMin": {"expr": "from"}, "domainMax": {"expr": "to"}, "nice": False}
        y["scale"] |= {} if chart.from_zero else {"padding": _INSET}
    dash = color | {
        "scale": color["scale"] | {"range": [*map(_dash, chart.styles)]}
    }  # Colors and dash patterns are combined in one legend.
    place = {"x": x, "y": y, "color": color}

    def layer(
        test: str, mark: dict[str, Json], encoding: dict[str, Json], *more: Json
    ) -> dict[str, Json]:
        return {
            "transform": [{"filter": test}, *more],
            "mark": {"clip": on_page, **mark},
            "encoding": encoding,
        }

    kinds = "datum.k === {}"
    layers: list[dict[str, Json]] = []
    of_points = f"datum.k !== {IDEAL} && datum.k !== {TARGET} && datum.k !== {TARGET_ABOVE}"
    if chart.kind == "scaling":
        dotted = {"type": "line", "strokeDash": [1, 3], "color": paint(MUTED), "strokeWidth": 1}
        layers.append(
            layer(
                kinds.format(IDEAL),
                dotted,
                {"x": x, "y": y, "detail": [{"field": "s"}, {"field": "p"}]},
            )
        )
    if any(point.low is not None for point in points):
        ends = {**place, "y": y | {"field": "low"}, "y2": {"field": "high"}}
        pointed = {
            "condition": {"test": "indexof(banded, datum.s) >= 0", "value": 0.18},
            "value": 0,
        }
        mark = {"type": "area"} if timed else {"type": "rule", "opacity": 0.6}
        ends |= {"fillOpacity": pointed} if timed else {}
        layers.append(layer(f"{of_points} && isValid(datum.low)", mark, ends))
    if chart.kind != "points":
        lines = {**place, "strokeDash": dash, "detail": {"field": "p"}, "order": {"field": "x"}}
        layers.append(layer(of_points, {"type": "line", "strokeWidth": 2}, lines))
    large = (
        [style.label for style in chart.styles if style.slot == WHOLE]
        if chart.kind == "points"
        else []
    )
    is_large = f"indexof({json.dumps(large)}, datum.s) >= 0"
    opacity = 0.6 if chart.kind == "points" else 1.0
    size = {"condition": {"test": is_large, "value": 5 * _MARKER_SIZE}, "value": _MARKER_SIZE}
    opaque = [{"test": kinds.format(UNMARKED), "value": 0}, {"test": is_large, "value": 1}]
    shape = SHAPE if _has_lines(chart) else _shape_in_legend(chart, color)
    dots = {
        **place,
        "shape": shape,
        "size": size,
        "opacity": {"condition": opaque, "value": opacity},
    }
    markers = [_marker(chart)] if _has_lines(chart) else []
    layers.append(
        layer(
            of_points,
            {"type": "point", "filled": True, "tooltip": {"content": "data"}},
            dots,
            *markers,
        )
    )
    if on_page and chart.x_label in ("seconds", "minutes"):
        begin = "pointerdown[event.pointerType !== 'touch' && !event.button]"
        dragged = {
            "on": f"[{begin}, window:pointerup] > window:pointermove!",
            "clear": "window:pointerup",
        }
        brush = {
            "type": "interval",
            "encodings": ["x"],
            "translate": False,
            "zoom": False,
            **dragged,
        }
        shade = {"fill": paint(MUTED), "fillOpacity": 0.15, "stroke": None}
        layers[-1]["params"] = [{"name": "brush", "select": {**brush, "mark": shade}}]
    if chart.targets:
        each = {"aggregate": [{"op": "min", "field": "text", "as": "text"}], "groupby": ["y"]}
        rule = {"type": "rule", "strokeDash": [5, 3], "color": paint(INK)}
        for kind, baseline, dy in ((TARGET, "top", 3), (TARGET_ABOVE, "bottom", -3)):
            text = {
                "type": "text",
                "align": "left",
                "baseline": baseline,
                "dx": 4,
                "dy": dy,
                "color": paint(INK),
            }
            layers.append(layer(kinds.format(kind), rule, {"y": y}, each))
            layers.append(
                layer(
                    kinds.format(kind),
                    text,
                    {"x": {"value": 0}, "y": y, "text": {"field": "text"}},
                    each,
                )
            )
    return layers


def _bars(chart: Chart, color: dict[str, Json], paint: Paint) -> list[dict[str, Json]]:
    # The name is above the bar, because a phone screen is too narrow for a name next to the bar.
    above = {
        "labelAlign": "left",
        "labelBaseline": "bottom",
        "labelOffset": -2,
        "labelPadding": 0,
        "labelLimit": 330,
    }
    axis = {**above, "ticks": False, "grid": False, "domain": False, "zindex": 1}
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": axis}
    xs = [point.x for _, _, point in chart.marks]
    x = _axis(
        "x", chart.y_label, xs, logarithmic=chart.kind == "ratios", zero=chart.kind != "ratios"
    )
    place = {"y": y, "x": x, "color": color}
    common = {"tooltip": {"content": "data"}, "yOffset": 7}
    x["scale"].pop("range", None)  # bars begin at the left edge, like the names above them
    if chart.kind == "ratios":
        x["axis"].pop("values", None)
        # Each named line has a tick at the factor 1. A line over the whole height of the chart
        # would cross the names.
        tick = {
            "type": "tick",
            "orient": "vertical",
            "size": 18,
            "thickness": 1,
            "color": paint(MUTED),
            "yOffset": 7,
        }
        neutral = {"mark": tick, "encoding": {"x": {"datum": 1}, "y": y}}
        product = {
            "test": f"datum.s === {json.dumps(chart.styles[0].label)}",
            "value": 200,
        }  # the total is drawn larger than its factors
        size = {"condition": product, "value": 60}
        point = {"type": "point", "filled": False, "strokeWidth": 2.5, "opacity": 1, **common}
        return [
            neutral,
            {
                "mark": point,
                "encoding": {**place, "shape": _shape_in_legend(chart, color), "size": size},
            },
        ]
    bar: dict[str, Json] = {"mark": {"type": "bar", "height": 14, **common}, "encoding": place}
    if chart.kind == "parts":
        places = json.dumps([style.label for style in chart.styles])
        place |= {"order": {"field": "order"}}
        return [bar | {"transform": [{"calculate": f"indexof({places}, datum.s)", "as": "order"}]}]
    text = {"type": "text", "align": "left", "dx": 5, "dy": 7, "color": paint(INK)}
    return [bar, {"mark": text, "encoding": {"y": y, "x": x, "text": {"field": "text"}}}]


def _config(paint: Paint, on_page: bool) -> dict[str, Json]:
    text = {"labelColor": paint(MUTED), "titleColor": paint(MUTED), "titleFontWeight": "normal"}
    lines = {"gridColor": paint(GRID), "domainColor": paint(MUTED), "tickColor": paint(MUTED)}
    return {
        "axis": {**text, **lines, "labelOverlap": True},
        "axisX": {"grid": False},
        "legend": {"labelColor": paint(INK)},
        "title": {
            "anchor": "start",
            "color": paint(INK),
            "subtitleColor": paint(MUTED),
            "fontSize": 14,
        },
        "view": {"stroke": None},
        "font": "inherit" if on_page else _FONT,
        "background": None if on_page else PAPER,
        # The page provides a description and a table for each figure. Without this setting, a
        # screen reader would read out a thousand marks.
        "aria": False,
    }


def write_figures(charts: Sequence[Chart], folder: Path) -> None:
    """Write each chart with a white background to files in a new folder.

    The file names are `01-TITLE.svg` and `01-TITLE.png`.

    Raises:
        ValueError: The folder is not empty, or cannot be written.
    """
    refuse_full(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, chart in enumerate(charts, start=1):
            stem, picture = file_name(number, chart.title), svg(chart)
            (folder / f"{stem}.svg").write_text(picture, encoding="utf-8")
            (folder / f"{stem}.png").write_bytes(vl_convert.svg_to_png(picture, scale=_PNG_SCALE))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(
            f"--figures {folder}: cannot write the folder ({reason}). Set a different folder"
        ) from error


def svg(chart: Chart) -> str:
    """Return a chart as an SVG document."""
    return str(vl_convert.vegalite_to_svg(spec(chart)))


def refuse_full(folder: Path) -> None:
    """Raise ValueError if `folder` is a file or a folder that is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(
            f"--figures {folder}: expected a new or empty folder. Set a different folder"
        )
