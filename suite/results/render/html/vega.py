"""Charts as Vega-Lite specifications, which draw them on the page and, by vl-convert, as SVG and PNG.

Vega-Lite, since one declarative specification gives an interactive figure under a content security policy without eval, and
the same picture as a file; vl-convert carries its scripts, so nothing is fetched.
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
from suite.results.render.html.charts import MAX_BANDS, OTHER_SLOT, Chart, Point, Style, file_name
from suite.results.text import clean
from suite.results.views.section import NOT_VERIFIED

# Okabe and Ito's hues (distinct for colour-blind readers), darkened until text in them has a contrast of 4.5 : 1 on white;
# after the COLOURS of frameworks those of a whole, of parts of time, of factors of a speedup.
# The style sheet has light counterparts for a dark page.
SERIES_COLOURS = (
    *("#0a62a4", "#b0440c", "#00705a", "#8c3a7c", "#755c00", "#1a7f9c"),
    *("#1d2531", "#4a55b5", "#b3286b", "#5d6b12", "#6a3d9a", "#8f2d2d"),
)
INK, MUTED, GRID, PAPER = "#1d2530", "#5a6573", "#dfe3e8", "#ffffff"
CSS_VARIABLES: Mapping[str, str] = {
    **{colour: f"--c{slot}" for slot, colour in enumerate(SERIES_COLOURS)},
    **{INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"},
}
"""Colour to the CSS variable that replaces it on the page; files use the light theme."""
_SHAPES = {
    "circle": "M0-4A4 4 0 1 1 0 4A4 4 0 1 1 0-4",
    "square": "M-3.5-3.5H3.5V3.5H-3.5Z",
    "triangle-up": "M0-4L4 3.5H-4Z",
    "diamond": "M0-4.5L4.5 0L0 4.5L-4.5 0Z",
    "triangle-down": "M0 4L4-3.5H-4Z",
    "cross": "M-1.5-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z",
}
"""Vega's name of each of the charts.SHAPES markers to its outline in a legend of the page, within 10 by 10 pixels."""
_DASHES: tuple[list[int], ...] = ([], [6, 2], [2, 2], [6, 2, 2, 2])
CATEGORIES = ("bars", "parts", "ratios")
_FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
_WIDTH, _HEIGHT = 420, 260
STEP = 34
"""Height of a bar with its name above and the gap below it, pixels."""
_POINT, _MARKED = 40.0, 20  # Size of a marker, square pixels; a curve of more points has none
_LOGARITHMIC = {"x": 3.0, "y": 10.0}
"""Axis to the factor that its values must span before it is logarithmic. A linear axis of times or rates begins at zero."""
_INSET = 5
"""Pixels between the ends of an axis and the ends of its range, so that no marker at an end is cut."""
_NEAR = 0.07
"""Share of the height of a figure: texts at lines that are closer than this would overlap."""
_FURTHER_COLOURS = (0, 1, 2, 3, 4, 5, 8, 7, 11, 9, 10, 6)
"""Slots for series whose color is taken in their figure: hues that differ much come first, the color of a whole last."""
_FOR_SCREENS = 2.0
"""Pixels of a PNG to one of the SVG."""
IDEAL, TARGET, UNMARKED, TARGET_ABOVE = 1, 2, 3, 4
"""`k` of a mark that is no point with a marker. The text of a target stands below its line, or above it (`TARGET_ABOVE`)."""
Json = Any
Paint = Callable[[str], str]
"""A colour of a file to that of the place that it is drawn at."""


@functools.cache
def scripts() -> str:
    """Vega-Lite, Vega and vega-embed as one script, from vl-convert."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def marks(chart: Chart, number_of: Callable[[Columns], int] | None = None) -> dict[str, list[Json]]:
    """Return the points of a chart as columns: series, path, x, y, low, high, name of a bar, text, row, kind."""
    names = ("s", "p", "x", "y", "low", "high", "name", "text", "row", "k")
    rows = list[list[Json]]()

    def add(label: str, path: int, point: Point, name: str = "", text: str = "", kind: int | None = None) -> None:
        place = None if point.row is None or number_of is None else number_of(point.row)
        values = (label, path, point.x, point.y, point.low, point.high, name, text, place, kind)
        rows.append([float(f"{value:.5g}") if isinstance(value, float) else value for value in values])

    for number, ((one, where), curve) in enumerate(grouped(chart.marks, lambda mark: mark[:2]).items()):
        own, first, last = str(where), curve[0][2], curve[-1][2]
        name, text = {"bars": (one.label, own), "parts": (own, ""), "ratios": (own, "")}.get(chart.kind, ("", ""))
        for _, _, point in curve:
            add(one.label, number, point, name, text, UNMARKED if len(curve) > _MARKED else None)
        for step in range(13 if chart.kind == "scaling" and len(curve) > 1 else 0):  # a curve where axes are linear
            x = first.x * (last.x / first.x) ** (step / 12)
            add(one.label, number, Point(x, first.y * first.x / x, first.row), kind=IDEAL)
    above = _targets_with_text_above(chart)
    for point in chart.targets:
        add("", 0, point, text=f"target {point.y:.6g}", kind=TARGET_ABOVE if point.y in above else TARGET)
    columns = zip(names, map(list, zip(*rows, strict=True)), strict=True)
    return {name: values for name, values in columns if name == "s" or any(one not in (None, "") for one in values)}


def _targets_with_text_above(chart: Chart) -> set[float]:
    """Return the targets whose text would overlap the next lower target's text if it stood below its line."""
    heights = [point.y for _, _, point in chart.marks] + [point.y for point in chart.targets]
    near = _NEAR * (max(heights) - min(heights))
    targets = sorted({point.y for point in chart.targets})
    return {higher for lower, higher in itertools.pairwise(targets) if higher - lower < near}


def spec(chart: Chart, on_page: bool = False) -> dict[str, Json]:
    """Return the Vega specification of a chart. With `on_page` it has no data, title, and legend, which the page has."""
    paint: Paint = _of_the_page if on_page else str
    drawn = marks(chart)
    rows = [dict(zip(drawn, values, strict=True)) for values in zip(*drawn.values(), strict=True)]
    scale = {"domain": [one.label for one in chart.styles], "range": [*map(paint, _colours(chart))]}
    legend: dict[str, Json] = {"labelLimit": 300, "symbolStrokeWidth": 2, "symbolOpacity": 1}
    if _has_lines(chart):
        legend |= {"symbolType": "stroke", "symbolSize": 900}
    shown = not on_page and chart.kind != "bars" and len(chart.styles) > 1
    colour = {"field": "s", "type": "nominal", "title": None, "scale": scale, "legend": legend if shown else None}
    bars = {one["name"] for one in rows if "name" in one}
    banded = [*dict.fromkeys(one["s"] for one in rows if one.get("low") is not None)]
    banded = banded if len(banded) <= MAX_BANDS else []
    made: dict[str, Json] = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"name": "marks"} if on_page else {"values": rows},
        "autosize": {"type": "fit-x" if on_page else "pad", "contains": "padding"},
        "width": _WIDTH,
        "height": STEP * len(bars) if chart.kind in CATEGORIES else _HEIGHT,
        "params": [
            {"name": one, "value": value} for one, value in {"from": None, "to": None, "banded": banded}.items()
        ],
        "layer": _bars(chart, colour, paint) if chart.kind in CATEGORIES else _curves(chart, colour, paint, on_page),
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


def _colour(one: Style) -> str:
    return MUTED if one.published or one.slot == OTHER_SLOT else SERIES_COLOURS[one.slot % len(SERIES_COLOURS)]


def _colours(chart: Chart) -> list[str]:
    """Return the color of each style. The lines of a figure have distinct colors, as long as there are enough.

    The first series of a framework has the framework's color in every figure. Each further series gets a color that no other
    series of the figure has.
    """
    preferred = [_colour(style) for style in chart.styles]
    if not _has_lines(chart):
        return preferred
    colours: dict[int, str] = {}
    for number in sorted(range(len(preferred)), key=lambda number: chart.styles[number].style):
        if preferred[number] not in colours.values():
            colours[number] = preferred[number]
    free = [SERIES_COLOURS[slot] for slot in _FURTHER_COLOURS if SERIES_COLOURS[slot] not in colours.values()]
    for number in range(len(preferred)):
        if number not in colours:
            colours[number] = free.pop(0) if free else preferred[number]
    return [colours[number] for number in range(len(preferred))]


def look(chart: Chart) -> list[dict[str, Json]]:
    """Return each style of a chart for the legend of the page: its name, its color, its marker and how its line is drawn."""
    found = []
    styles = [] if chart.kind == "bars" else chart.styles
    for one, painted in zip(styles, _colours(chart), strict=False):
        colour, dash = _of_the_page(painted), _dash(one) if _has_lines(chart) else None
        marker = {"shape": _SHAPES[_shape(one)], "fill": "none" if chart.kind == "ratios" else colour}
        found.append({"name": one.label, "colour": colour, "dash": dash, **marker})
    return found


SHAPE = {"field": "marker", "type": "nominal", "scale": None}  # no scale: a legend of lines has their dashes alone


def _marker(chart: Chart) -> dict[str, Json]:
    """Return the transform that gives each point of a line the marker of its series.

    Two lists rather than an object: in JavaScript an object has inherited keys such as `__proto__` and `constructor`, and a
    series may have such a name.
    """
    names, shapes = [style.label for style in chart.styles], [_shape(style) for style in chart.styles]
    return {"calculate": f"{json.dumps(shapes)}[indexof({json.dumps(names)}, datum.s)]", "as": "marker"}


def _shape_in_legend(chart: Chart, colour: Mapping[str, Json]) -> dict[str, Json]:
    """Return the encoding of markers that share their legend with the colors."""
    shapes = [_shape(style) for style in chart.styles]
    return {**colour, "scale": {"domain": colour["scale"]["domain"], "range": shapes}}


def _has_lines(chart: Chart) -> bool:
    return chart.kind not in (*CATEGORIES, "points")


def _dash(one: Style) -> list[int]:
    if one.published:
        return _DASHES[1 + (one.style + one.style // 6) % 3]
    return _DASHES[(one.style + one.style // 12) % len(_DASHES)]  # with its shape so 24 are distinct


def _shape(one: Style) -> str:
    return [*_SHAPES][one.style % len(_SHAPES)]


def _axis(field: str, title: str, values: Iterable[float], *, logarithmic: bool, zero: bool = False) -> dict[str, Json]:
    """Return an axis: logarithmic, if allowed, for positive numbers that span enough, else linear.

    Args:
        field: `x` or `y`.
        title: Text next to the axis.
        values: The values that are drawn. Up to eight whole numbers on a logarithmic `x` axis are its ticks.
        logarithmic: Whether the axis may be logarithmic.
        zero: A linear axis begins at zero, without a range of negative numbers.
    """
    known, axis = sorted({*values}), dict[str, Json](title=title, tickCount=6)
    scale: dict[str, Json] = {"zero": zero, "nice": True}
    if logarithmic and field == "x" and len(known) <= 8 and all(value == int(value) for value in known):
        axis |= {"values": known, "format": ",.6~r"}
    if logarithmic and known and known[0] > 0:
        if known[-1] >= _LOGARITHMIC[field] * known[0]:
            scale, axis["format"] = {"type": "log", "nice": False, "padding": 12}, ",.6~r"
        elif not zero:
            scale |= {"nice": False, "padding": 12}
    if zero and "type" not in scale:  # an inset, since padding would extend the axis below zero
        pixels = [{"expr": f"height - {_INSET}"}, _INSET] if field == "y" else [_INSET, {"expr": f"width - {_INSET}"}]
        scale["range"] = pixels
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _curves(chart: Chart, colour: dict[str, Json], paint: Paint, on_page: bool) -> list[dict[str, Json]]:
    points = [point for _, _, point in chart.marks]
    logarithmic, timed = chart.kind != "lines", chart.kind == "lines"
    heights = [*(point.y for point in points), *(one.y for one in chart.targets)]
    x = _axis("x", chart.x_label, (point.x for point in points), logarithmic=logarithmic, zero=timed)
    y = _axis("y", chart.y_label, heights, logarithmic=logarithmic, zero=chart.from_zero or logarithmic)
    if timed:  # the page sets them where a pointer is dragged
        x["scale"] |= {"domainMin": {"expr": "from"}, "domainMax": {"expr": "to"}, "nice": False}
        y["scale"] |= {} if chart.from_zero else {"padding": _INSET}
    dash = colour | {"scale": colour["scale"] | {"range": [*map(_dash, chart.styles)]}}  # one legend with the colours
    place = {"x": x, "y": y, "color": colour}

    def layer(test: str, mark: dict[str, Json], encoding: dict[str, Json], *more: Json) -> dict[str, Json]:
        return {"transform": [{"filter": test}, *more], "mark": {"clip": on_page, **mark}, "encoding": encoding}

    kinds, layers = "datum.k === {}", list[dict[str, Json]]()
    of_points = f"datum.k !== {IDEAL} && datum.k !== {TARGET} && datum.k !== {TARGET_ABOVE}"
    if chart.kind == "scaling":
        dotted = {"type": "line", "strokeDash": [1, 3], "color": paint(MUTED), "strokeWidth": 1}
        layers.append(layer(kinds.format(IDEAL), dotted, {"x": x, "y": y, "detail": [{"field": "s"}, {"field": "p"}]}))
    if any(point.low is not None for point in points):
        ends = {**place, "y": y | {"field": "low"}, "y2": {"field": "high"}}
        pointed = {"condition": {"test": "indexof(banded, datum.s) >= 0", "value": 0.18}, "value": 0}
        mark = {"type": "area"} if timed else {"type": "rule", "opacity": 0.6}
        ends |= {"fillOpacity": pointed} if timed else {}
        layers.append(layer(f"{of_points} && isValid(datum.low)", mark, ends))
    if chart.kind != "points":
        lines = {**place, "strokeDash": dash, "detail": {"field": "p"}, "order": {"field": "x"}}
        layers.append(layer(of_points, {"type": "line", "strokeWidth": 2}, lines))
    ours, usual = ("indexof(datum.s, 'ours') === 0", 0.6) if chart.kind == "points" else ("false", 1)
    size = {"condition": {"test": ours, "value": 5 * _POINT}, "value": _POINT}
    opaque = [{"test": kinds.format(UNMARKED), "value": 0}, {"test": ours, "value": 1}]
    shape = SHAPE if _has_lines(chart) else _shape_in_legend(chart, colour)
    dots = {**place, "shape": shape, "size": size, "opacity": {"condition": opaque, "value": usual}}
    markers = [_marker(chart)] if _has_lines(chart) else []
    layers.append(layer(of_points, {"type": "point", "filled": True, "tooltip": {"content": "data"}}, dots, *markers))
    if on_page and chart.x_label in ("seconds", "minutes"):
        begin = "pointerdown[event.pointerType !== 'touch' && !event.button]"
        dragged = {"on": f"[{begin}, window:pointerup] > window:pointermove!", "clear": "window:pointerup"}
        brush = {"type": "interval", "encodings": ["x"], "translate": False, "zoom": False, **dragged}
        shade = {"fill": paint(MUTED), "fillOpacity": 0.15, "stroke": None}
        layers[-1]["params"] = [{"name": "brush", "select": {**brush, "mark": shade}}]
    if chart.targets:
        each = {"aggregate": [{"op": "min", "field": "text", "as": "text"}], "groupby": ["y"]}
        rule = {"type": "rule", "strokeDash": [5, 3], "color": paint(INK)}
        for kind, baseline, dy in ((TARGET, "top", 3), (TARGET_ABOVE, "bottom", -3)):
            text = {"type": "text", "align": "left", "baseline": baseline, "dx": 4, "dy": dy, "color": paint(INK)}
            layers.append(layer(kinds.format(kind), rule, {"y": y}, each))
            layers.append(layer(kinds.format(kind), text, {"x": {"value": 0}, "y": y, "text": {"field": "text"}}, each))
    return layers


def _bars(chart: Chart, colour: dict[str, Json], paint: Paint) -> list[dict[str, Json]]:
    # names are above their bars. Next to the bars they would leave no width on a phone
    above = {"labelAlign": "left", "labelBaseline": "bottom", "labelOffset": -2, "labelPadding": 0, "labelLimit": 330}
    axis = {**above, "ticks": False, "grid": False, "domain": False, "zindex": 1}
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": axis}
    xs = [point.x for _, _, point in chart.marks]
    x = _axis("x", chart.y_label, xs, logarithmic=chart.kind == "ratios", zero=chart.kind != "ratios")
    place, told = {"y": y, "x": x, "color": colour}, {"tooltip": {"content": "data"}, "yOffset": 7}
    x["scale"].pop("range", None)  # bars begin at the left edge, as their names do
    if chart.kind == "ratios":
        x["axis"].pop("values", None)
        # A tick per name at a factor of 1. A line over the whole height would cross the names.
        tick = {"type": "tick", "orient": "vertical", "size": 18, "thickness": 1, "color": paint(MUTED), "yOffset": 7}
        neutral = {"mark": tick, "encoding": {"x": {"datum": 1}, "y": y}}
        product = {"test": f"datum.s === {json.dumps(chart.styles[0].label)}", "value": 200}  # around its larger factor
        size = {"condition": product, "value": 60}
        point = {"type": "point", "filled": False, "strokeWidth": 2.5, "opacity": 1, **told}
        return [neutral, {"mark": point, "encoding": {**place, "shape": _shape_in_legend(chart, colour), "size": size}}]
    bar: dict[str, Json] = {"mark": {"type": "bar", "height": 14, **told}, "encoding": place}
    if chart.kind == "parts":
        places = json.dumps([one.label for one in chart.styles])
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
        "title": {"anchor": "start", "color": paint(INK), "subtitleColor": paint(MUTED), "fontSize": 14},
        "view": {"stroke": None},
        "font": "inherit" if on_page else _FONT,
        "background": None if on_page else PAPER,
        "aria": False,  # one description for a figure, and its table: a thousand marks would be read out one by one
    }


def write_figures(charts: Sequence[Chart], folder: Path) -> None:
    """Write each chart on white to a new folder as `01-TITLE.svg` and `.png`.

    Raises ValueError if a chart cannot be written.
    """
    refuse_full(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, chart in enumerate(charts, start=1):
            stem, picture = file_name(number, chart.title), svg(chart)
            (folder / f"{stem}.svg").write_text(picture, encoding="utf-8")
            (folder / f"{stem}.png").write_bytes(vl_convert.svg_to_png(picture, scale=_FOR_SCREENS))
    except OSError as error:
        raise ValueError(f"--figures {folder} cannot be written ({error.strerror}). Give a different folder") from error


def svg(chart: Chart) -> str:
    """Return a chart as an SVG document."""
    return str(vl_convert.vegalite_to_svg(spec(chart)))


def refuse_full(folder: Path) -> None:
    """Raise ValueError if the folder of figures is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"--figures {folder} exists already and is not an empty folder. Give a new folder")
