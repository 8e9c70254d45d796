"""Draws charts with matplotlib, one `Figure` each, labels included, as inline SVG and as files.

Ids are fixed and dates left out, so that the same logs give the same bytes; no global setting is touched.
"""

from __future__ import annotations

import html
import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, Locator, LogLocator, MaxNLocator

from suite.results.render.html import plots
from suite.results.render.html.plots import CSS_VARIABLES, GRID, HEIGHT, INK, MUTED, PAPER, TEXT_SIZE, WIDTH
from suite.results.text import bytes_text, shortened
from suite.results.views.section import NOT_VERIFIED

_SMALL = TEXT_SIZE - 1.5
_GAP = _SMALL * 1.28  # Distance between two labels, pixels
_LETTER = 0.58  # Approximate width of a letter of DejaVu Sans over its font size
# Line from the end of a curve to its label.
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
_LABEL_LETTERS = 26  # Letters of a line of a label beside the axes; a label has three lines at most
_MOST_LABELS = 30  # Labels beside one pair of axes; more curves are counted below
_IDEAL: dict[str, Any] = {"color": MUTED, "linewidth": 0.9, "linestyle": ":", "zorder": 1.8}
_STEPS = (1, 2, 5, 10)  # Ticks are multiples of these
_MOST_TICKS = 8  # Numbers below a logarithmic axis
_BAR_STEP = 17.0  # Height of a bar and the gap below it, pixels
_STYLE = Path(__file__).parent / "templates" / "figures.mplstyle"
_TAG = re.compile(r"<[^<>]*>")
_COLOUR = re.compile("|".join(map(re.escape, CSS_VARIABLES)))
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@contextmanager
def matplotlib_settings() -> Iterator[None]:
    """Context with exactly our matplotlib settings, for drawing and saving."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks becomes a box
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(matplotlib.rc_params_from_file(_STYLE, use_default_template=False))
        yield


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """An `<svg>` element for an HTML page: scales with it, takes its colours, and its ids begin with `name`."""
    text = _svg(figure, name, background="none")
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    width, height = figure.get_size_inches() * 72
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    used = set(re.findall(r"(?:xlink:href=\"#|url\(#)([^\")]+)", body))

    def adapted(tag: re.Match[str]) -> str:
        text = re.sub(r' id="([^"]+)"', lambda own: f' id="{name}-{own[1]}"' if own[1] in used else "", tag[0])
        text = re.sub(r'(?:xlink:)?(href="#|url\(#)', rf"\g<1>{name}-", text)
        return _COLOUR.sub(lambda colour: f"var({CSS_VARIABLES[colour[0]]})", text)

    size = f'viewBox="0 0 {width:g} {height:g}" style="max-width:{1.32 * width:.0f}px"'
    return f'<svg role="img" aria-label="{html.escape(label)}" {size}>{_TAG.sub(adapted, body).strip()}</svg>'


def _svg(figure: Figure, name: str, background: str) -> str:
    matplotlib.rcParams["svg.hashsalt"] = name  # ids that are the same in every run
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata=_NO_METADATA, facecolor=background)
    return stream.getvalue()


def write_figures(charts: Iterable[plots.Chart], folder: Path) -> None:
    """`NAME.svg` and `NAME.png` of each chart on white in a new folder. Raises ValueError for one that cannot be written."""
    refuse_full(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib_settings():
            for chart in charts:
                figure, stem = draw(chart), folder / chart.name
                with open(f"{stem}.svg", "x", encoding="utf-8") as stream:  # of two charts with one name none is lost
                    stream.write(_svg(figure, chart.name, PAPER))
                figure.savefig(f"{stem}.png", dpi=200, facecolor=PAPER, metadata={"Software": None})
    except OSError as error:
        raise ValueError(f"--figures {folder} cannot be written ({error.strerror}); give another place") from error


def refuse_full(folder: Path) -> None:
    """Raises ValueError for a folder of figures that is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"--figures {folder} exists already and is not an empty folder; give a new one")


def draw(chart: plots.Chart, on_page: bool = False) -> Figure:
    """A chart as a figure; call this, and save the figure, within `matplotlib_settings()`.

    `on_page`: leave out that it is not verified, which a page says once for all.
    """
    below = [] if on_page else [NOT_VERIFIED.rstrip(".")]
    if chart.kind == "bars":
        return _draw_bars(chart, below)
    shown = _short_labels(chart.series)
    gap = _GAP * max((1 + one.label.count("\n") for one in shown), default=1)
    width, height = (440.0, 430.0) if chart.kind == "scaling" else (WIDTH, HEIGHT)
    height = max(height, 96 + (min(len(shown), _MOST_LABELS) + 1) * gap)
    longest = max((len(line) for one in shown for line in one.label.split("\n")), default=0)
    figure, axes = _new_axes(chart, below, width, height, right=max(24.0, 22 + longest * _LETTER * _SMALL))
    for series in shown:
        if chart.kind == "scaling" and len(series.paths[0]) > 1:
            (first, time), last = series.paths[0][0], series.paths[0][-1][0]
            axes.plot([first, last], [time, time * first / last], **_IDEAL)
        for x, low, high in series.ranges:
            axes.plot([x, x], [low, high], color=series.colour, linewidth=1.0, alpha=0.6, solid_capstyle="butt")
        _plot(axes, series)
    if chart.target is not None:
        axes.axhline(chart.target, color=INK, linewidth=1.0, linestyle=(0, (5, 3)), zorder=1.5)
    (_linear if chart.kind == "lines" else _logarithmic)(axes, chart)
    _end_labels(axes, shown, gap)
    if chart.inset:
        _inset(axes, chart.inset)
    return figure


def _draw_bars(chart: plots.Chart, below: Sequence[str]) -> Figure:
    """The chart as a figure that grows with its bars, the first on top."""
    names = shortened([bar.label for bar in chart.series], 30)
    left = 14 + max(len(name) for name in names) * _LETTER * _SMALL
    figure, axes = _new_axes(chart, below, max(WIDTH, left + 240), 96 + _BAR_STEP * len(names), right=56, left=left)
    values = [bar.paths[0][0][0] if bar.paths else 0.0 for bar in chart.series]
    places = [-float(place) for place in range(len(values))]
    axes.barh(places, values, height=0.72, color=[bar.colour for bar in chart.series], zorder=3)
    beside: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": _SMALL}
    for place, bar, value in zip(places, chart.series, values, strict=True):
        axes.annotate(bar.text, (value, place), color=bar.colour if bar.paths else MUTED, **beside)
    axes.set_yticks(places, names, fontsize=_SMALL)
    axes.set_ylim(places[-1] - 0.6, 0.6)
    axes.set_xlim(0.0, max(values) or 1.0)
    axes.grid(axis="y", visible=False)
    _ticks(axes.xaxis, MaxNLocator(5, steps=_STEPS))
    return figure


def _new_axes(
    chart: plots.Chart, below: Sequence[str], width: float, height: float, right: float, left: float = 48
) -> tuple[Figure, Axes]:
    """A figure of `width` x `height` pixels with margins in pixels; title and labels stay with it wherever it is copied."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    axes = figure.add_axes((left / width, 52 / height, (width - left - right) / width, (height - 96) / height))
    title: dict[str, Any] = {"va": "top", "fontsize": TEXT_SIZE, "fontweight": "bold", "color": INK}
    figure.text(6 / width, 1 - 5 / height, textwrap.shorten(chart.title, 48, placeholder="…"), **title)
    kinds = dict.fromkeys(label.split(":")[0] for label in chart.labels)  # why a machine was busy stands in the table
    if text := " · ".join([*shortened(list(kinds)[:4], 24), *below]):
        size = min(_SMALL - 1, (width - 12) / (_LETTER * len(text)))  # never cut at the edge
        figure.text(6 / width, 5 / height, text, va="bottom", fontsize=size, color=MUTED)
    target = f" (dashed: target {chart.target:.6g})" if chart.target is not None else ""
    axes.set_title(chart.y_label + target, loc="left", fontsize=_SMALL, color=MUTED, pad=5)
    axes.set_xlabel(chart.x_label, labelpad=2)
    return figure, axes


def _plot(axes: Axes, series: plots.Series) -> None:
    """All paths as one line with gaps, so that a hundred runs are one element of the SVG."""
    points = [point for path in series.paths for point in (*path, (math.nan, math.nan))]
    longest = max(len(path) for path in series.paths)
    many = len(series.paths) > 3 and longest > 1
    axes.plot(
        *zip(*points, strict=True),
        linewidth=0.7 if many else 1.6 if len(series.paths) == 1 and longest <= 60 else 1.0,
        alpha=0.65 if many else 1.0,
        markersize=2.6 if many else 4.2,
        solid_joinstyle="round",
        **series.look | ({} if len(points) <= 60 or longest == 1 else {"marker": None}),
    )


def _inset(axes: Axes, speedups: Sequence[plots.Series]) -> None:
    """Total speedup over devices, on linear axes."""
    inset = axes.inset_axes((0.47, 0.60, 0.53, 0.36), zorder=6)
    inset.set_facecolor(PAPER)
    xs, ys = _extent(speedups)
    inset.plot([1, xs[-1]], [1, xs[-1]], **_IDEAL)
    for series in speedups:
        _plot(inset, series)
    inset.set_xlim(1 - 0.04 * xs[-1], xs[-1] * 1.04)
    inset.set_ylim(0, max(ys[-1], xs[-1]) * 1.06)
    _ticks(inset.xaxis, FixedLocator(_with_room(xs[::-1], lambda before, x: before - x >= xs[-1] / 8)[::-1]))
    _ticks(inset.yaxis, MaxNLocator(4, integer=xs[-1] > 3, steps=_STEPS))
    inset.tick_params(labelsize=_SMALL - 0.5, pad=2)
    inset.grid(color=GRID, linewidth=0.6)
    inset.set_title("total speedup over devices", loc="left", fontsize=_SMALL - 0.5, color=MUTED, pad=3)


def _linear(axes: Axes, chart: plots.Chart) -> None:
    xs, ys = _extent(chart.series)
    ys += [chart.target] if chart.target is not None else []
    low, high = min(ys), max(ys)
    pad = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
    axes.set_ylim(0.0 if chart.from_zero and low >= 0 else low - pad, high + pad)
    left, right = min(0.0, xs[0]), xs[-1]
    axes.set_xlim(left, right + (0.02 * (right - left) or 1.0))
    _ticks(axes.yaxis, MaxNLocator(5, steps=_STEPS))
    _ticks(axes.xaxis, MaxNLocator(5, integer=chart.x_label == "epochs", steps=_STEPS, min_n_ticks=2))


def _logarithmic(axes: Axes, chart: plots.Chart) -> None:
    """Axes around all points and ranges, with a tick at each x that has room."""
    xs, ys = _extent(chart.series)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(xs[0] / 1.12, xs[-1] * 1.12)
    axes.set_ylim(ys[0] / 1.3, ys[-1] * 1.3)
    room = max(1.2, (xs[-1] / xs[0]) ** (1 / _MOST_TICKS))
    xticks = FixedLocator(_with_room(xs, lambda before, x: x / before >= room))
    _ticks(axes.xaxis, xticks, bytes_text if chart.x_label == "bytes" else number_text)
    _ticks(axes.yaxis, LogLocator(base=10, subs=(1, 2, 5), numticks=12))
    axes.minorticks_off()
    if chart.kind == "scaling":
        _leave_room(axes, chart, ys)


def _leave_room(axes: Axes, chart: plots.Chart, ys: Sequence[float]) -> None:
    """Above the curves for the inset, below them for ideal scaling."""
    ends = [(series.paths[0][0], series.paths[0][-1]) for series in chart.series]
    low = math.log10(min(ys[0], *(first[1] * first[0] / last[0] for first, last in ends))) - 0.08
    high = math.log10(ys[-1]) + 0.08
    if high - low < 0.5:
        low, high = (low + high) / 2 - 0.25, (low + high) / 2 + 0.25
    axes.set_ylim(10**low, 10 ** (high + ((high - low) * 0.82 if chart.inset else 0.0)))
    subs = (1, 1.5, 2, 3, 5, 7) if high - low < 1 else (1, 2, 5) if high - low < 2 else (1,)
    ticks = LogLocator(base=10, subs=subs, numticks=20).tick_values(10**low, 10**high)
    _ticks(axes.yaxis, FixedLocator([tick for tick in ticks if tick <= 10**high]))


def _with_room(xs: Sequence[float], far: Callable[[float, float], bool]) -> list[float]:
    """The first, and each that is far enough from the one taken before it."""
    kept = [xs[0]]
    for x in xs[1:]:
        kept += [x] if far(kept[-1], x) else []
    return kept


def number_text(value: float) -> str:
    """A tick label: `0.05`, `250`, `20k`, `1.5M`."""
    for power, letter in ((12, "T"), (9, "G"), (6, "M")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:g}{letter}"
    return f"{value / 1e3:g}k" if abs(value) >= 1e4 else f"{value:.6g}"


def _ticks(axis: Axis, locator: Locator, text: Callable[[float], str] = number_text) -> None:
    axis.set_major_locator(locator)
    axis.set_major_formatter(lambda value, _: text(value))


def _extent(drawn: Sequence[plots.Series]) -> tuple[list[float], list[float]]:
    """All x in order, once each; all y in order, ends of ranges included."""
    points = [point for series in drawn for path in series.paths for point in path]
    ys = [y for _, y in points] + [y for series in drawn for _, *pair in series.ranges for y in pair]
    return sorted({x for x, _ in points}), sorted(ys)


def _short_labels(series: Sequence[plots.Series]) -> list[plots.Series]:
    """The series with labels of few lines, for which there is room beside the axes, and which still differ."""
    labels = shortened([one.label for one in series], 3 * _LABEL_LETTERS - 8)
    lines = ["\n".join(textwrap.wrap(label, _LABEL_LETTERS)) or label for label in labels]
    return [replace(one, label=label) for one, label in zip(series, lines, strict=True)]


def _end_labels(axes: Axes, series: Sequence[plots.Series], gap: float) -> None:
    """Each curve's name right of the axes, at the height of its end, moved where names would overlap."""
    box = axes.get_window_extent()
    named = series if len(series) <= box.height // gap else series[: int(box.height // gap) - 1]
    ends = [(one, max((path[-1] for path in one.paths), key=lambda point: point[0])) for one in named]
    placed = [(float(axes.transData.transform(end)[1] - box.y0), one, end) for one, end in ends]
    placed.sort(key=lambda label: label[0])
    heights = spread_labels([height for height, _, _ in placed], gap=gap, top=box.height + 6)
    style: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "ha": "left", "fontsize": _SMALL}
    x = 1.0 + 10 / box.width
    for (_, one, end), height in zip(placed, heights, strict=True):
        style |= {"color": one.colour, "arrowprops": _LEADER | {"color": one.colour}}
        axes.annotate(one.label, end, (x, height / box.height), annotation_clip=False, **style)
    if len(series) > len(named):
        y, more = -2.4 * _SMALL / box.height, f"and {len(series) - len(named)} more"
        axes.text(x, y, more, fontsize=_SMALL, color=MUTED, transform=axes.transAxes)


def spread_labels(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Ascending heights, moved as little as needed to have distances of at least `gap` and stay below `top`."""
    steps = gap * np.arange(len(heights))
    raised = np.maximum.accumulate(np.maximum(heights, 0.0) - steps) + steps
    lowered = np.minimum.accumulate((np.minimum(raised, top) - steps)[::-1])[::-1] + steps
    return [float(height) for height in lowered]
