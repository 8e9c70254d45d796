"""Charts as Vega-Lite specifications, which draw them on the page and, by vl-convert, as SVG and PNG.

Vega-Lite, since one declarative specification gives an interactive figure under a content security policy without eval, and
the same picture as a file; vl-convert carries its scripts, so nothing is fetched.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import vl_convert

from suite.results.columns import Row
from suite.results.render.html.charts import OTHER_SLOT, Chart, Point, Series
from suite.results.text import clean
from suite.results.views.section import NOT_VERIFIED

# Okabe and Ito's hues (distinct for colour-blind readers), darkened until text in them has a contrast of 4.5 : 1 on white;
# the style sheet has light counterparts for a dark page.
SERIES_COLOURS = ("#0a62a4", "#b0440c", "#00705a", "#8c3a7c", "#755c00", "#1a7f9c")
INK, MUTED, GRID, PAPER = "#1d2530", "#5a6573", "#dfe3e8", "#ffffff"
CSS_VARIABLES: Mapping[str, str] = {
    **{colour: f"--c{slot}" for slot, colour in enumerate(SERIES_COLOURS)},
    **{INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"},
}
"""Colour to the CSS variable that replaces it on the page; files use the light theme."""
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_DASHES: tuple[list[int], ...] = ([], [6, 2], [2, 2], [6, 2, 2, 2])
CATEGORIES, _JOINED = ("bars", "parts", "ratios"), ("lines", "powers", "scaling")
_FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
_WIDTH, _HEIGHT = 420, 260
STEP = 22
"""Height of a bar and the gap below it, pixels."""
_POINT = 40.0
_FOR_SCREENS = 2.0
"""Pixels of a PNG to one of the SVG."""
Json = Any
Paint = Callable[[str], str]
"""A colour of a file to that of the place that it is drawn at."""


@functools.cache
def scripts() -> str:
    """Vega-Lite, Vega and vega-embed as one script, from vl-convert."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def marks(chart: Chart, number_of: Callable[[Row], int] | None = None) -> dict[str, list[Json]]:
    """The points of a chart as columns: series, path, x, y, low, high, `name` of a bar, its text, and the number of the row."""
    columns: dict[str, list[Json]] = {
        name: [] for name in ("s", "p", "x", "y", "low", "high", "name", "text", "row", "ideal")
    }

    def add(*values: Json) -> None:
        for column, value in zip(columns.values(), values, strict=True):
            column.append(_rounded(value) if isinstance(value, float) else value)

    for one in chart.series:
        paths = one.paths or (((Point(0.0, 0.0),),) if chart.kind == "bars" else ())
        for number, path in enumerate(paths):
            name = one.names[number] if one.names else one.label if chart.kind == "bars" else ""
            for x, y, row, low, high in path:
                place = None if row is None or number_of is None else number_of(row)
                add(one.label, number, x, y, low, high, name, one.text, place, None)
            if chart.kind == "scaling" and len(path) > 1:
                for point in (path[0], path[-1]):
                    add(one.label, number, point.x, path[0].y * path[0].x / point.x, None, None, name, "", place, 1)
    return {name: values for name, values in columns.items() if name == "s" or any(v not in (None, "") for v in values)}


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def spec(chart: Chart, on_page: bool = False) -> dict[str, Json]:
    """The specification of a chart. `on_page`: without data, title and legend, which the page has itself, in its colours."""
    paint: Paint = _of_the_page if on_page else str
    colour = _by_series(chart, [paint(_colour(one)) for one in chart.series], on_page)
    made: dict[str, Json] = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"name": "marks"} if on_page else {"values": _as_rows(marks(chart))},
        "width": "container" if on_page else _WIDTH,
        "height": STEP * len(_bar_names(chart)) if chart.kind in CATEGORIES else _HEIGHT,
        "layer": (_bars if chart.kind in CATEGORIES else _curves)(chart, colour, paint),
        "config": _config(paint, on_page),
    }
    if on_page:
        return made
    below = [", ".join(chart.labels), NOT_VERIFIED.rstrip("."), clean(chart.note, 120)]
    return made | {
        "title": {"text": clean(chart.title, 90), "subtitle": [line for line in below if line]},
        "padding": 12,
    }


def _of_the_page(colour: str) -> str:
    return f"var({CSS_VARIABLES[colour]})"


def _bar_names(chart: Chart) -> set[str]:
    return {name for one in chart.series for name in one.names or (one.label,)}


def _as_rows(columns: Mapping[str, list[Json]]) -> list[dict[str, Json]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _colour(one: Series) -> str:
    return MUTED if one.published or one.slot == OTHER_SLOT else SERIES_COLOURS[one.slot % len(SERIES_COLOURS)]


def look(chart: Chart) -> list[dict[str, str]]:
    """Each series of a chart for the legend of the page: its name, its colour, and how its line is drawn."""
    lines = ("solid", "dashed", "dotted", "double") if chart.kind in _JOINED else ("solid",)
    return [
        {
            "name": one.label,
            "colour": _of_the_page(_colour(one)),
            "line": "dashed" if one.published else lines[one.style % len(lines)],
        }
        for one in (() if chart.kind == "bars" else chart.series)
    ]


def _by_series(chart: Chart, values: list[Json], on_page: bool) -> dict[str, Json]:
    scale = {"domain": [one.label for one in chart.series], "range": values}
    shown = not on_page and chart.kind != "bars" and len(chart.series) > 1
    legend = {"labelLimit": 300, "symbolStrokeWidth": 2} if shown else None
    return {"field": "s", "type": "nominal", "title": None, "scale": scale, "legend": legend}


def _axis(field: str, title: str, values: Iterable[float], *, logarithmic: bool, zero: bool = False) -> dict[str, Json]:
    """A logarithmic axis of positive numbers alone; the few whole ones of a number of devices are its ticks."""
    known, axis = list(values), dict[str, Json](title=title, tickCount=6)
    scale: dict[str, Json] = {"zero": zero, "nice": True}
    if logarithmic and all(value > 0 for value in known):
        counts = sorted({*known})
        scale, axis["format"] = {"type": "log", "nice": False, "padding": 12}, ",~r"
        if len(counts) <= 8 and all(value == int(value) for value in counts):
            axis["values"] = counts
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _curves(chart: Chart, colour: dict[str, Json], paint: Paint) -> list[dict[str, Json]]:
    points = [point for one in chart.series for path in one.paths for point in path]
    logarithmic = chart.kind != "lines"
    x = _axis("x", chart.x_label, (point[0] for point in points), logarithmic=logarithmic)
    y = _axis("y", chart.y_label, (point[1] for point in points), logarithmic=logarithmic, zero=chart.from_zero)
    dashes = [[4, 2] if one.published else _DASHES[one.style % len(_DASHES)] for one in chart.series]
    dash = colour | {"scale": colour["scale"] | {"range": dashes}}
    shapes = [_SHAPES[one.style % len(_SHAPES)] for one in chart.series]
    shape = colour | {"scale": colour["scale"] | {"range": shapes}}
    place = {"x": x, "y": y}
    only = [{"filter": "datum.ideal !== 1"}]
    layers: list[dict[str, Json]] = []
    if chart.kind == "scaling":
        ideal = {**place, "detail": [{"field": "s"}, {"field": "p"}]}
        dotted = {"type": "line", "strokeDash": [1, 3], "color": paint(MUTED), "strokeWidth": 1}
        layers.append({"transform": [{"filter": "datum.ideal === 1"}], "mark": dotted, "encoding": ideal})
    if any(point[3] is not None for point in points):
        ends = {**place, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": colour}
        layers.append(
            {
                "transform": [*only, {"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "opacity": 0.6},
                "encoding": ends,
            }
        )
    if chart.kind != "points":
        lines = {**place, "color": colour, "strokeDash": dash, "detail": {"field": "p"}, "order": {"field": "x"}}
        layers.append({"transform": only, "mark": {"type": "line", "strokeWidth": 2}, "encoding": lines})
    hollow = {"fillOpacity": 0.5} if chart.kind == "points" else {}
    size = {"value": _POINT if len(points) < 400 else _POINT / 4}
    dots = {**place, "color": colour, "shape": shape, "size": size}
    filled = {"type": "point", "filled": True, "opacity": 1, "tooltip": {"content": "data"}, **hollow}
    layers.append({"transform": only, "mark": filled, "encoding": dots})
    if chart.target is not None:
        layers.append(
            {
                "mark": {"type": "rule", "strokeDash": [5, 3], "color": paint(INK)},
                "encoding": {"y": {"datum": chart.target}},
            }
        )
    return layers


def _bars(chart: Chart, colour: dict[str, Json], paint: Paint) -> list[dict[str, Json]]:
    field, limit = (
        ("s" if chart.kind == "bars" else "name"),
        {"labelLimit": 260, "ticks": False, "grid": False, "domain": False},
    )
    y = {"field": field, "type": "nominal", "sort": None, "title": None, "axis": limit}
    xs = [point[0] for one in chart.series for path in one.paths for point in path]
    x = _axis("x", chart.y_label, xs, logarithmic=chart.kind == "ratios", zero=True)
    told = {"tooltip": {"content": "data"}}
    if chart.kind == "ratios":
        x["axis"].pop("values", None)
        one = {"mark": {"type": "rule", "color": paint(MUTED), "strokeDash": [2, 2]}, "encoding": {"x": {"datum": 1}}}
        shape = colour | {"scale": colour["scale"] | {"range": list(_SHAPES[: len(chart.series)])}}
        product = {"test": f"datum.s === {json.dumps(chart.series[0].label)}", "value": 200}  # around its larger factor
        size = {"condition": product, "value": 60}
        point = {"type": "point", "filled": False, "strokeWidth": 2.5, "opacity": 1, **told}
        return [one, {"mark": point, "encoding": {"y": y, "x": x, "color": colour, "shape": shape, "size": size}}]
    order = {"order": {"field": "order"}} if chart.kind == "parts" else {}
    bar = {"mark": {"type": "bar", "height": 14, **told}, "encoding": {"y": y, "x": x, "color": colour, **order}}
    if chart.kind == "parts":
        places = [one.label for one in chart.series]
        return [bar | {"transform": [{"calculate": f"indexof({json.dumps(places)}, datum.s)", "as": "order"}]}]
    text = {"type": "text", "align": "left", "dx": 5, "color": paint(INK)}
    return [bar, {"mark": text, "encoding": {"y": y, "x": x, "text": {"field": "text"}}}]


def _config(paint: Paint, on_page: bool) -> dict[str, Json]:
    text = {"labelColor": paint(MUTED), "titleColor": paint(MUTED), "titleFontWeight": "normal"}
    axis = {
        **text,
        "gridColor": paint(GRID),
        "domainColor": paint(MUTED),
        "tickColor": paint(MUTED),
        "labelOverlap": True,
    }
    title = {"anchor": "start", "color": paint(INK), "subtitleColor": paint(MUTED), "fontSize": 14}
    config = {
        "axis": axis,
        "axisX": {"grid": False},
        "legend": {"labelColor": paint(INK)},
        "title": title,
        "view": {"stroke": None},
    }
    # One description for a figure, and its table: a thousand marks would be read out one by one.
    return {**config, "font": "inherit" if on_page else _FONT, "background": None if on_page else PAPER, "aria": False}


def write_figures(charts: Iterable[Chart], folder: Path) -> None:
    """`NAME.svg` and `NAME.png` of each chart on white in a new folder. Raises ValueError for one that cannot be written."""
    refuse_full(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            picture = svg(chart)
            with open(
                folder / f"{chart.name}.svg", "x", encoding="utf-8"
            ) as stream:  # of two with one name none is lost
                stream.write(picture)
            (folder / f"{chart.name}.png").write_bytes(vl_convert.svg_to_png(picture, scale=_FOR_SCREENS))
    except OSError as error:
        raise ValueError(f"--figures {folder} cannot be written ({error.strerror}); give another place") from error


def svg(chart: Chart) -> str:
    """A chart as an SVG document."""
    return str(vl_convert.vegalite_to_svg(spec(chart)))


def refuse_full(folder: Path) -> None:
    """Raises ValueError for a folder of figures that is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"--figures {folder} exists already and is not an empty folder; give a new one")
