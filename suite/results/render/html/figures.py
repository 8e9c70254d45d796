"""Draws charts with matplotlib, one `Figure` each, labels included, as inline SVG and as files.

Ids are fixed and dates left out, so that the same logs give the same bytes; no global setting is touched.
"""

from __future__ import annotations

import html
import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from suite.results.render.html import plots
from suite.results.text import bytes_text, shortened
from suite.results.views.section import NOT_VERIFIED

_SMALL = plots.TEXT_SIZE - 1.5
_GAP = _SMALL * 1.28
"""Distance between two labels, pixels."""
_LETTER = 0.58
"""Approximate width of a letter of DejaVu Sans over its font size."""
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
"""Line from the end of a curve to its label."""
_LABEL_LETTERS = 34
"""Letters of a label beside the axes: a name and the words that tell it from others."""
_MOST_LABELS = 30
"""Labels beside one pair of axes; more curves are counted below."""
_STEPS = (1, 2, 5, 10)
"""Ticks are multiples of these."""
_MOST_TICKS = 8
"""Numbers below a logarithmic axis."""
_SCALING_WIDTH, _SCALING_HEIGHT = 440.0, 430.0
_BAR_STEP = 17.0
"""Height of a bar and the gap below it, pixels."""
_PNG_DPI = 200
_SETTINGS = matplotlib.rc_params_from_file(
    Path(__file__).parent / "templates" / "figures.mplstyle", use_default_template=False
)
_TAG = re.compile(r"<[^<>]*>")
_COLOUR = re.compile("|".join(map(re.escape, plots.CSS_VARIABLES)))
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@contextmanager
def matplotlib_settings() -> Iterator[None]:
    """Context with exactly our matplotlib settings, for drawing and saving."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks becomes a box
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


# --- files and inline SVG -----------------------------------------------------------------------------------------------


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """An `<svg>` element for an HTML page: scales with it, takes its colours, and its ids begin with `name`."""
    text = _svg(figure, name, background="none")
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    width, height = figure.get_size_inches() * 72
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    used = set(re.findall(r"(?:xlink:href=\"#|url\(#)([^\")]+)", body))
    body = _TAG.sub(lambda tag: _rename_ids(tag.group(), name, used), body)
    size = f'viewBox="0 0 {width:g} {height:g}" style="max-width:{1.32 * width:.0f}px"'
    return f'<svg role="img" aria-label="{html.escape(label)}" {size}>{body.strip()}</svg>'


def _rename_ids(tag: str, name: str, used: set[str]) -> str:
    """A tag with ids that begin with `name`, and CSS variables in place of colours."""
    tag = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", tag)
    tag = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', tag)
    tag = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", tag)
    return _COLOUR.sub(lambda match: f"var({plots.CSS_VARIABLES[match.group()]})", tag)


def _svg(figure: Figure, name: str, background: str) -> str:
    matplotlib.rcParams["svg.hashsalt"] = name  # ids that are the same in every run
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata=_NO_METADATA, facecolor=background)
    return stream.getvalue()


def write_figures(charts: Iterable[plots.AnyChart], folder: Path) -> None:
    """`NAME.svg` and `NAME.png` of each chart on white in a new folder. Raises ValueError for one that cannot be written."""
    refuse_full(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib_settings():
            for chart in charts:
                _write(draw(chart), folder, chart.name)
    except OSError as error:
        raise ValueError(f"--figures {folder} cannot be written ({error.strerror}); give another place") from error


def refuse_full(folder: Path) -> None:
    """Raises ValueError for a folder of figures that is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"--figures {folder} exists already and is not an empty folder; give a new one")


def _write(figure: Figure, folder: Path, name: str) -> None:
    with open(folder / f"{name}.svg", "x", encoding="utf-8") as stream:
        stream.write(_svg(figure, name, background=plots.PAPER))
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=_PNG_DPI, facecolor=plots.PAPER, metadata={"Software": None})
    with open(folder / f"{name}.png", "xb") as binary:
        binary.write(picture.getvalue())


# --- charts -------------------------------------------------------------------------------------------------------------


def draw(chart: plots.AnyChart, on_page: bool = False) -> Figure:
    """A chart as a figure; call this, and save the figure, within `matplotlib_settings()`.

    `on_page`: leave out that it is not verified, which a page says once for all.
    """
    below = [] if on_page else [NOT_VERIFIED.rstrip(".")]
    if isinstance(chart, plots.BarChart):
        return _draw_bars(chart, below)
    if chart.kind == "scatter":
        return _draw_scatter(chart, below)
    shown = _short_labels(chart.series)
    scaling = chart.kind == "scaling"
    width, height = (_SCALING_WIDTH, _SCALING_HEIGHT) if scaling else (plots.WIDTH, plots.HEIGHT)
    height, margin = _height_for(shown, height), _margin(shown)
    figure, axes = _new_axes(width, height, left=48, right=margin, top=44, bottom=52)
    _headings(figure, chart, below, width, height)
    for series in shown:
        if scaling:
            _ideal(axes, series.paths[0])
        _ranges(axes, series)
        _plot(axes, series)
    if chart.target is not None:
        axes.axhline(chart.target, color=plots.INK, linewidth=1.0, linestyle=(0, (5, 3)), zorder=1.5)
    axes.set_xlabel(chart.x_label, labelpad=2)
    target = f" (dashed: target {chart.target:.6g})" if chart.target is not None else ""
    axes.set_title(chart.y_label + target, loc="left", fontsize=_SMALL, color=plots.MUTED, pad=5)
    {"lines": _linear, "powers": _powers, "scaling": _scaling}[chart.kind](axes, chart)
    _end_labels(axes, shown)
    if chart.inset:
        _inset(axes, chart.inset)
    return figure


def _draw_scatter(chart: plots.Chart, below: Sequence[str]) -> Figure:
    figure, axes = _new_axes(plots.WIDTH, plots.HEIGHT, left=48, right=24, top=62, bottom=52)
    _headings(figure, chart, below, plots.WIDTH, plots.HEIGHT)
    _logarithmic(axes)
    for series in chart.series:
        xs, ys = zip(*(point for path in series.paths for point in path), strict=True)
        drawn: dict[str, Any] = {
            "color": plots.colour(series.slot),
            "linestyle": "",
            "marker": plots.marker(series.style),
        }
        axes.plot(xs, ys, **drawn, alpha=0.75, markersize=5.0, markeredgewidth=0.0, label=series.label)
    axes.set_xlabel(chart.x_label, labelpad=2)
    axes.set_title(chart.y_label, loc="left", fontsize=_SMALL, color=plots.MUTED, pad=5)
    above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0 + 20 / (plots.HEIGHT - 114)), "ncols": 4}
    axes.legend(**above, frameon=False, fontsize=_SMALL, handletextpad=0.2, columnspacing=1.0, borderpad=0)
    return figure


def _draw_bars(chart: plots.BarChart, below: Sequence[str]) -> Figure:
    """The chart as a figure that grows with its bars, the first on top."""
    names = shortened([bar.label for bar in chart.bars], 30)
    left = 14 + max(len(name) for name in names) * _LETTER * _SMALL
    width, height = max(plots.WIDTH, left + 240), 96 + _BAR_STEP * len(names)
    figure, axes = _new_axes(width, height, left=left, right=56, top=44, bottom=52)
    _headings(figure, chart, below, width, height)
    values = [bar.value or 0.0 for bar in chart.bars]
    places = [-float(place) for place in range(len(values))]
    axes.barh(places, values, height=0.72, color=[plots.colour(bar.slot) for bar in chart.bars], zorder=3)
    for place, bar, value in zip(places, chart.bars, values, strict=True):
        ink = plots.MUTED if bar.value is None else plots.colour(bar.slot)
        beside: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": _SMALL}
        axes.annotate(bar.text, (value, place), **beside, color=ink)
    axes.set_yticks(places, names, fontsize=_SMALL)
    axes.set_ylim(places[-1] - 0.6, 0.6)
    axes.set_xlim(0.0, max(values) or 1.0)
    axes.grid(axis="y", visible=False)
    axes.set_title(chart.y_label, loc="left", fontsize=_SMALL, color=plots.MUTED, pad=5)
    _number_ticks(axes.xaxis)
    return figure


def _new_axes(width: float, height: float, left: float, right: float, top: float, bottom: float) -> tuple[Figure, Axes]:
    """A figure of `width` x `height` pixels with margins in pixels."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    box = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure, figure.add_axes(box)


def _headings(figure: Figure, chart: plots.AnyChart, below: Sequence[str], width: float, height: float) -> None:
    """Title above, labels below, so that they stay with the figure wherever it is copied."""
    title = chart.title if len(chart.title) <= 48 else chart.title[:47] + "…"
    figure.text(
        6 / width, 1 - 5 / height, title, va="top", fontsize=plots.TEXT_SIZE, fontweight="bold", color=plots.INK
    )
    kinds = dict.fromkeys(label.split(":")[0] for label in chart.labels)  # why a machine was busy stands in the table
    text = " · ".join([*shortened(list(kinds)[:4], 24), *below])
    if text:
        size = min(_SMALL - 1, (width - 12) / (_LETTER * len(text)))  # never cut at the edge
        figure.text(6 / width, 5 / height, text, va="bottom", fontsize=size, color=plots.MUTED)


def _margin(series: Sequence[plots.Series]) -> float:
    """Pixels on the right that the labels need."""
    longest = max((len(one.label) for one in series), default=0)
    return max(24.0, 22 + longest * _LETTER * _SMALL)


def _short_labels(series: Sequence[plots.Series]) -> list[plots.Series]:
    """The series with labels that have room beside the axes, and still differ."""
    labels = shortened([one.label for one in series], _LABEL_LETTERS)
    return [replace(one, label=label) for one, label in zip(series, labels, strict=True)]


def _height_for(series: Sequence[plots.Series], height: float) -> float:
    """Height of a figure: more than usual where its labels need it, up to _MOST_LABELS of them."""
    return max(height, 96 + (min(len(series), _MOST_LABELS) + 1) * _GAP)


# --- curves -------------------------------------------------------------------------------------------------------------


def _plot(axes: Axes, series: plots.Series) -> None:
    """All paths of a series as one line with gaps, so that a hundred runs are one element of the SVG."""
    points = [point for path in series.paths for point in (*path, (math.nan, math.nan))]
    longest, many = max(len(path) for path in series.paths), len(series.paths) > 3
    ink = plots.MUTED if series.published else plots.colour(series.slot)
    axes.plot(
        *zip(*points, strict=True),
        color=ink,
        linewidth=0.7 if many else 1.6 if len(series.paths) == 1 and longest <= 60 else 1.0,
        alpha=0.65 if many else 1.0,
        linestyle=(0, (4, 2.5)) if series.published else plots.dashes(series.style),
        marker=plots.marker(series.style) if len(points) <= 60 or longest == 1 else None,
        markersize=2.6 if many else 4.2,
        markerfacecolor=plots.PAPER if series.published else ink,
        markeredgewidth=1.0 if series.published else 0.0,
        solid_joinstyle="round",
        zorder=2.5 if series.published else 3,
    )


def _ranges(axes: Axes, series: plots.Series) -> None:
    """Bars from the lowest to the highest value of a point."""
    ink = plots.MUTED if series.published else plots.colour(series.slot)
    for x, low, high in series.ranges:
        axes.plot([x, x], [low, high], color=ink, linewidth=1.0, alpha=0.6, solid_capstyle="butt")


def _ideal(axes: Axes, points: plots.Points) -> None:
    """Dotted line of ideal scaling from the first point."""
    if len(points) > 1:
        (first, time), last = points[0], points[-1][0]
        axes.plot(
            [first, last], [time, time * first / last], color=plots.MUTED, linewidth=0.9, linestyle=":", zorder=1.8
        )


def _inset(axes: Axes, speedups: Sequence[plots.Series]) -> None:
    inset = axes.inset_axes((0.47, 0.60, 0.53, 0.36), zorder=6)
    inset.set_facecolor(plots.PAPER)
    largest = max(x for series in speedups for x, _ in series.paths[0])
    highest = max(y for series in speedups for _, y in series.paths[0])
    inset.plot([1, largest], [1, largest], color=plots.MUTED, linewidth=0.9, linestyle=":")
    for series in speedups:
        _plot(inset, series)
    inset.set_xlim(1 - 0.04 * largest, largest * 1.04)
    inset.set_ylim(0, max(highest, largest) * 1.06)
    ticks: list[float] = []
    for x in sorted({x for series in speedups for x, _ in series.paths[0]}, reverse=True):
        ticks += [x] if not ticks or ticks[-1] - x >= largest / 8 else []
    inset.xaxis.set_major_locator(FixedLocator(ticks[::-1]))
    inset.yaxis.set_major_locator(MaxNLocator(4, integer=largest > 3, steps=_STEPS))
    for axis in (inset.xaxis, inset.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    inset.tick_params(labelsize=_SMALL - 0.5, pad=2)
    inset.grid(color=plots.GRID, linewidth=0.6)
    inset.set_title("total speedup over devices", loc="left", fontsize=_SMALL - 0.5, color=plots.MUTED, pad=3)


# --- axes ---------------------------------------------------------------------------------------------------------------


def _linear(axes: Axes, chart: plots.Chart) -> None:
    ys = [y for series in chart.series for path in series.paths for _, y in path]
    ys += [chart.target] if chart.target is not None else []
    low, high = min(ys), max(ys)
    pad = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
    axes.set_ylim(0.0 if chart.from_zero and low >= 0 else low - pad, high + pad)
    xs = [x for series in chart.series for path in series.paths for x, _ in path]
    left, right = min(0.0, *xs), max(xs)
    axes.set_xlim(left, right + (0.02 * (right - left) or 1.0))
    _number_ticks(axes.yaxis)
    _number_ticks(axes.xaxis)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=chart.x_label == "epochs", steps=_STEPS, min_n_ticks=2))


def _number_ticks(axis: Axis) -> None:
    """Few ticks at readable numbers."""
    axis.set_major_locator(MaxNLocator(5, steps=_STEPS))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def _logarithmic(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
        axis.set_minor_locator(NullLocator())


def _powers(axes: Axes, chart: plots.Chart) -> None:
    """Logarithmic axes around all points and ranges."""
    xs, ys = _extent(chart)
    _logarithmic(axes)
    axes.set_xlim(xs[0] / 1.12, xs[-1] * 1.12)
    axes.set_ylim(ys[0] / 1.3, ys[-1] * 1.3)
    room = max(1.2, (xs[-1] / xs[0]) ** (1 / _MOST_TICKS))
    axes.xaxis.set_major_locator(FixedLocator(_readable_ticks(xs, room)))
    if chart.x_label == "bytes":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_text(value)))
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))


def _scaling(axes: Axes, chart: plots.Chart) -> None:
    """Logarithmic axes with room above the curves for the inset."""
    xs, ys = _extent(chart)
    _logarithmic(axes)
    axes.set_xlim(xs[0] / 1.12, xs[-1] * 1.12)
    axes.xaxis.set_major_locator(FixedLocator(_readable_ticks(xs)))
    ends = [(series.paths[0][0], series.paths[0][-1]) for series in chart.series]
    low = math.log10(min(ys[0], *(first[1] * first[0] / last[0] for first, last in ends))) - 0.08
    high = math.log10(ys[-1]) + 0.08
    if high - low < 0.5:
        low, high = (low + high) / 2 - 0.25, (low + high) / 2 + 0.25
    above = (high - low) * 0.82 if chart.inset else 0.0
    axes.set_ylim(10**low, 10 ** (high + above))
    subs = (1, 1.5, 2, 3, 5, 7) if high - low < 1 else (1, 2, 5) if high - low < 2 else (1,)
    ticks = LogLocator(base=10, subs=subs, numticks=20).tick_values(10**low, 10**high)
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= 10**high]))


def _extent(chart: plots.Chart) -> tuple[list[float], list[float]]:
    """All x in order, once each; all y in order, ends of ranges included."""
    points = [point for series in chart.series for path in series.paths for point in path]
    ys = [y for _, y in points] + [y for series in chart.series for _, *pair in series.ranges for y in pair]
    return sorted({x for x, _ in points}), sorted(ys)


def _readable_ticks(counts: Sequence[float], room: float = 1.2) -> list[float]:
    """Those with room for a tick label: larger than the one before by a factor of `room`."""
    kept: list[float] = []
    for count in counts:
        if not kept or count / kept[-1] >= room:
            kept.append(count)
    return kept


def number_text(value: float) -> str:
    """A tick label: `0.05`, `250`, `1.5M`."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:.6g}"


# --- labels at the ends of curves ---------------------------------------------------------------------------------------


def _end_labels(axes: Axes, series: Sequence[plots.Series]) -> None:
    """Each curve's name right of the axes, at the height of its end, moved where names would overlap."""
    width, height = _pixels(axes)
    named = series if len(series) <= height // _GAP else series[: int(height // _GAP) - 1]
    labels = []
    for one in named:
        end = max((path[-1] for path in one.paths), key=lambda point: point[0])
        labels.append((_height(axes, end[1]), one.label, plots.MUTED if one.published else plots.colour(one.slot), end))
    labels.sort(key=lambda item: item[0])
    heights = spread_labels([item[0] * height for item in labels], gap=_GAP, top=height + 6)
    style: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "ha": "left", "fontsize": _SMALL}
    for (_, text, ink, end), place in zip(labels, heights, strict=True):
        at = (1.0 + 10 / width, place / height)
        axes.annotate(text, end, at, **style, color=ink, arrowprops=_LEADER | {"color": ink}, annotation_clip=False)
    if len(series) > len(named):
        x, y, more = 1.0 + 10 / width, -2.4 * _SMALL / height, f"and {len(series) - len(named)} more"
        axes.text(x, y, more, fontsize=_SMALL, color=plots.MUTED, transform=axes.transAxes)


def _pixels(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes in pixels."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    box, (width, height) = axes.get_position(), figure.get_size_inches() * 72
    return box.width * width, box.height * height


def _height(axes: Axes, y: float) -> float:
    """Position of a value on the y axis, 0 to 1."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        low, high, y = math.log(low), math.log(high), math.log(y)
    return (y - low) / (high - low)


def spread_labels(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Ascending heights, moved as little as needed to have distances of at least `gap` and stay below `top`."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else max(height, 0.0))
    ceiling = top
    for index in range(len(placed) - 1, -1, -1):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - gap
    return placed
