"""Draws charts with matplotlib, one `Figure` each, labels included. No file and no global setting is touched."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from suite.results.html.charts import AnyChart, BarChart, Chart, Points, ScalingChart, ScatterChart, Series
from suite.results.html.theme import (
    GRID,
    HEIGHT,
    INK,
    MATPLOTLIB_SETTINGS,
    MUTED,
    PAPER,
    TEXT_SIZE,
    WIDTH,
    colour,
    dashes,
    marker,
)
from suite.results.text import bytes_text, shortened

NOT_VERIFIED = "Not verified by MLCommons Association"
_SMALL = TEXT_SIZE - 1.5
_GAP = _SMALL * 1.28
"""Distance between two labels, pixels."""
_LETTER = 0.58
"""Approximate width of a letter of DejaVu Sans over its font size."""
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
"""Line from the end of a curve to its label."""
_LABEL_LETTERS = 26
"""Letters of a label beside the axes."""
_MOST_LABELS = 30
"""Labels beside one pair of axes; more curves are counted below."""
_STEPS = (1, 2, 5, 10)
"""Ticks are multiples of these."""
_MOST_TICKS = 8
"""Numbers below a logarithmic axis."""
_SCALING_WIDTH, _SCALING_HEIGHT = 440.0, 430.0


@contextmanager
def matplotlib_settings() -> Iterator[None]:
    """Context with exactly our matplotlib settings, for drawing and saving."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks becomes a box
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(MATPLOTLIB_SETTINGS)  # type: ignore[arg-type]
        yield


def draw(chart: AnyChart) -> Figure:
    """A chart as a figure; call this, and save the figure, within `matplotlib_settings()`."""
    if isinstance(chart, BarChart):
        from suite.results.html.bars import draw_bars  # which is drawn with what is below

        return draw_bars(chart)
    if isinstance(chart, ScatterChart):
        return _draw_scatter(chart)
    return _draw_scaling(chart) if isinstance(chart, ScalingChart) else _draw_lines(chart)


# --- one pair of axes ---------------------------------------------------------------------------------------------------


def _draw_lines(chart: Chart) -> Figure:
    shown = _short_labels(chart.series)
    margin, height = _margin(shown), _height_for(shown, HEIGHT)
    figure, axes = new_axes(WIDTH, height, left=48, right=margin, top=44, bottom=52)
    headings(figure, chart.title, chart.labels, WIDTH, height)
    for series in shown:
        _ranges(axes, series)
        _plot(axes, series)
    if chart.target is not None:
        axes.axhline(chart.target, color=INK, linewidth=1.0, linestyle=(0, (5, 3)), zorder=1.5)
    axes.set_xlabel(chart.x_label, labelpad=2)
    target = f" (dashed: {_cut(chart.target_label)})" if chart.target is not None else ""
    axes.set_title(chart.y_label + target, loc="left", fontsize=_SMALL, color=MUTED, pad=5)
    if chart.powers:
        _powers(axes, chart)
    else:
        _limits(axes, chart)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=chart.x_label == "epochs", steps=_STEPS, min_n_ticks=2))
        number_ticks(axes.yaxis)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    _end_labels(axes, shown)
    return figure


def _ranges(axes: Axes, series: Series) -> None:
    """Bars from the lowest to the highest value of a point."""
    ink = MUTED if series.published else colour(series.slot)
    for x, low, high in series.ranges:
        axes.plot([x, x], [low, high], color=ink, linewidth=1.0, alpha=0.6, solid_capstyle="butt")


def _powers(axes: Axes, chart: Chart) -> None:
    """Logarithmic axes around all points and ranges."""
    points = [point for series in chart.series for path in series.paths for point in path]
    ys = [y for _, y in points] + [y for series in chart.series for _, *pair in series.ranges for y in pair]
    xs = sorted({x for x, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(xs[0] / 1.12, xs[-1] * 1.12)
    axes.set_ylim(min(ys) / 1.3, max(ys) * 1.3)
    room = max(1.2, (xs[-1] / xs[0]) ** (1 / _MOST_TICKS))
    axes.xaxis.set_major_locator(FixedLocator(_readable_ticks(xs, room)))
    text = bytes_text if chart.x_label == "bytes" else number_text
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def number_ticks(axis: Axis) -> None:
    """Few ticks at readable numbers."""
    axis.set_major_locator(MaxNLocator(5, steps=_STEPS))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def new_axes(width: float, height: float, left: float, right: float, top: float, bottom: float) -> tuple[Figure, Axes]:
    """A figure of `width` x `height` pixels with margins in pixels."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    box = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure, figure.add_axes(box)


def _margin(series: Sequence[Series]) -> float:
    """Pixels on the right that the labels need."""
    longest = max((len(one.label) for one in series), default=0)
    return max(24.0, 22 + longest * _LETTER * _SMALL)


def _short_labels(series: Sequence[Series]) -> list[Series]:
    """The series with labels that have room beside the axes, and still differ."""
    labels = shortened([one.label for one in series], _LABEL_LETTERS)
    return [replace(one, label=label) for one, label in zip(series, labels, strict=True)]


def _height_for(series: Sequence[Series], height: float) -> float:
    """Height of a figure: more than usual where its labels need it, up to _MOST_LABELS of them."""
    return max(height, 96 + (min(len(series), _MOST_LABELS) + 1) * _GAP)


def _cut(text: str, limit: int = 24) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def headings(figure: Figure, title: str, labels: Sequence[str], width: float, height: float) -> None:
    """Title above, labels and "not verified" below, so that they stay with the figure wherever it is copied."""
    figure.text(6 / width, 1 - 5 / height, _cut(title, 48), va="top", fontsize=TEXT_SIZE, fontweight="bold", color=INK)
    kinds = dict.fromkeys(label.split(":")[0] for label in labels)  # what made a machine busy stands in the table
    below = " · ".join([*shortened(list(kinds)[:4], 24), NOT_VERIFIED])
    size = min(_SMALL - 1, (width - 12) / (_LETTER * len(below)))  # never cut at the edge
    figure.text(6 / width, 5 / height, below, va="bottom", fontsize=size, color=MUTED)


def _plot(axes: Axes, series: Series) -> None:
    """All paths of a series as one line with gaps, so that a hundred runs are one element of the SVG."""
    xs: list[float] = []
    ys: list[float] = []
    for path in series.paths:
        xs += [*(x for x, _ in path), math.nan]
        ys += [*(y for _, y in path), math.nan]
    longest = max(len(path) for path in series.paths)
    many = len(series.paths) > 3
    width = 1.6 if len(series.paths) == 1 and longest <= 60 else 1.0
    marked = len(xs) <= 60 or longest == 1
    axes.plot(
        xs,
        ys,
        color=MUTED if series.published else colour(series.slot),
        linewidth=0.7 if many else width,
        alpha=0.65 if many else 1.0,
        linestyle=(0, (4, 2.5)) if series.published else dashes(series.style),
        marker=marker(series.style) if marked else None,
        markersize=2.6 if many else 4.2,
        markerfacecolor=PAPER if series.published else colour(series.slot),
        markeredgewidth=1.0 if series.published else 0.0,
        solid_joinstyle="round",
        zorder=2.5 if series.published else 3,
    )


def _limits(axes: Axes, chart: Chart) -> None:
    ys = [y for series in chart.series for path in series.paths for _, y in path]
    ys += [chart.target] if chart.target is not None else []
    low, high = min(ys), max(ys)
    pad = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
    axes.set_ylim(0.0 if chart.from_zero and low >= 0 else low - pad, high + pad)
    xs = [x for series in chart.series for path in series.paths for x, _ in path]
    left, right = min(0.0, *xs), max(xs)
    axes.set_xlim(left, right + (0.02 * (right - left) or 1.0))


def number_text(value: float) -> str:
    """A tick label: `0.05`, `250`, `1.5M`."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:.6g}"


# --- labels at the ends of curves ---------------------------------------------------------------------------------------


def _end_labels(axes: Axes, series: Sequence[Series]) -> None:
    """Each curve's name right of the axes, at the height of its end, moved where names would overlap."""
    width, height = _pixels(axes)
    named = series if len(series) <= height // _GAP else series[: int(height // _GAP) - 1]
    labels = []
    for one in named:
        end = _last(one.paths)
        labels.append((_height(axes, end[1]), one.label, MUTED if one.published else colour(one.slot), end))
    labels.sort(key=lambda item: item[0])
    heights = spread_labels([item[0] * height for item in labels], gap=_GAP, top=height + 6)
    for (_, text, ink, end), place in zip(labels, heights, strict=True):
        axes.annotate(
            text,
            xy=end,
            xytext=(1.0 + 10 / width, place / height),
            textcoords="axes fraction",
            va="center",
            ha="left",
            fontsize=_SMALL,
            color=ink,
            arrowprops=_LEADER | {"color": ink},
            annotation_clip=False,
        )
    if len(series) > len(named):
        x, y, more = 1.0 + 10 / width, -2.4 * _SMALL / height, f"and {len(series) - len(named)} more"
        axes.text(x, y, more, fontsize=_SMALL, color=MUTED, transform=axes.transAxes)


def _pixels(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes in pixels."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    box, (width, height) = axes.get_position(), figure.get_size_inches() * 72
    return box.width * width, box.height * height


def _last(paths: Sequence[Points]) -> tuple[float, float]:
    """The end point furthest to the right."""
    return max((path[-1] for path in paths), key=lambda point: point[0])


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


# --- time to target over devices ----------------------------------------------------------------------------------------


def _draw_scaling(chart: ScalingChart) -> Figure:
    shown = _short_labels(chart.times)
    width, height, margin = _SCALING_WIDTH, _height_for(shown, _SCALING_HEIGHT), _margin(shown)
    figure, axes = new_axes(width, height, left=48, right=margin, top=44, bottom=52)
    headings(figure, chart.title, chart.labels, width, height)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for series in shown:
        _ideal(axes, series.paths[0])
        _ranges(axes, series)
        _plot(axes, series)
    counts = sorted({x for series in chart.times for x, _ in series.paths[0]})
    axes.set_xlim(counts[0] / 1.12, counts[-1] * 1.12)
    _time_limits(axes, chart)
    axes.set_xlabel("devices", labelpad=2)
    axes.set_title(f"{chart.unit} to target (dotted: ideal)", loc="left", fontsize=_SMALL, color=MUTED, pad=5)
    axes.xaxis.set_major_locator(FixedLocator(_readable_ticks(counts)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    _end_labels(axes, shown)
    if chart.speedups:
        _inset(axes, chart.speedups)
    return figure


def _draw_scatter(chart: ScatterChart) -> Figure:
    figure, axes = new_axes(WIDTH, HEIGHT, left=48, right=24, top=62, bottom=52)
    headings(figure, chart.title, chart.labels, WIDTH, HEIGHT)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for series in chart.series:
        xs, ys = zip(*(point for path in series.paths for point in path), strict=True)
        drawn = {"color": colour(series.slot), "linestyle": "", "marker": marker(series.style), "alpha": 0.75}
        axes.plot(xs, ys, **drawn, markersize=5.0, markeredgewidth=0.0, label=series.label)  # type: ignore[arg-type]
    axes.set_xlabel("accelerators", labelpad=2)
    axes.set_title("minutes to target", loc="left", fontsize=_SMALL, color=MUTED, pad=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
        axis.set_minor_locator(NullLocator())
    place = (1.0, 1.0 + 20 / (HEIGHT - 114))
    axes.legend(
        loc="lower right",
        bbox_to_anchor=place,
        ncols=4,
        frameon=False,
        fontsize=_SMALL,
        handletextpad=0.2,
        columnspacing=1.0,
        borderpad=0,
    )
    return figure


def _ideal(axes: Axes, points: Points) -> None:
    """Dotted line of ideal scaling from the first point."""
    if len(points) > 1:
        (first, minutes), last = points[0], points[-1][0]
        axes.plot(
            [first, last], [minutes, minutes * first / last], color=MUTED, linewidth=0.9, linestyle=":", zorder=1.8
        )


def _time_limits(axes: Axes, chart: ScalingChart) -> None:
    """Limits and ticks of the time axis, with room above the curves for the inset."""
    values = [y for series in chart.times for _, y in series.paths[0]]
    values += [y for series in chart.times for _, low, high in series.ranges for y in (low, high)]
    for series in chart.times:
        first, last = series.paths[0][0], series.paths[0][-1]
        values.append(first[1] * first[0] / last[0])
    low, high = math.log10(min(values)), math.log10(max(values))
    low, high = low - 0.08, high + 0.08
    if high - low < 0.5:
        low, high = (low + high) / 2 - 0.25, (low + high) / 2 + 0.25
    above = (high - low) * 0.82 if chart.speedups else 0.0
    axes.set_ylim(10**low, 10 ** (high + above))
    subs = (1, 1.5, 2, 3, 5, 7) if high - low < 1 else (1, 2, 5) if high - low < 2 else (1,)
    ticks = LogLocator(base=10, subs=subs, numticks=20).tick_values(10**low, 10**high)
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= 10**high]))


def _readable_ticks(counts: Sequence[float], room: float = 1.2) -> list[float]:
    """Device counts with room for a tick label: those larger than the one before by a factor of `room`."""
    kept: list[float] = []
    for count in counts:
        if not kept or count / kept[-1] >= room:
            kept.append(count)
    return kept


def _inset(axes: Axes, speedups: Sequence[Series]) -> None:
    inset = axes.inset_axes((0.47, 0.60, 0.53, 0.36), zorder=6)
    inset.set_facecolor(PAPER)
    largest = max(x for series in speedups for x, _ in series.paths[0])
    highest = max(y for series in speedups for _, y in series.paths[0])
    inset.plot([1, largest], [1, largest], color=MUTED, linewidth=0.9, linestyle=":")
    for series in speedups:
        _plot(inset, series)
    inset.set_xlim(1 - 0.04 * largest, largest * 1.04)
    inset.set_ylim(0, max(highest, largest) * 1.06)
    inset.xaxis.set_major_locator(FixedLocator(_ticks(speedups, largest)))
    inset.yaxis.set_major_locator(MaxNLocator(4, integer=largest > 3, steps=_STEPS))
    for axis in (inset.xaxis, inset.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    inset.tick_params(labelsize=_SMALL - 0.5, pad=2)
    inset.grid(color=GRID, linewidth=0.6)
    inset.set_title("total speedup over devices", loc="left", fontsize=_SMALL - 0.5, color=MUTED, pad=3)


def _ticks(speedups: Sequence[Series], largest: float) -> list[float]:
    """Ticks of the inset: multiples of the fewest devices that have room on a linear axis."""
    kept: list[float] = []
    for x in sorted({x for series in speedups for x, _ in series.paths[0]}, reverse=True):
        if not kept or kept[-1] - x >= largest / 8:
            kept.append(x)
    return kept[::-1]
