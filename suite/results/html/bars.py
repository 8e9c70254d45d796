"""Draws bar charts: one bar a line, with its value beside it, or the word that stands for it."""

from __future__ import annotations

from matplotlib.figure import Figure

from suite.results.html.charts import BarChart
from suite.results.html.figures import headings, new_axes, number_ticks
from suite.results.html.theme import MUTED, TEXT_SIZE, WIDTH, colour
from suite.results.text import shortened

_SMALL = TEXT_SIZE - 1.5
_LETTER = 0.58
_STEP = 17.0
"""Height of a bar and the gap below it, pixels."""
_TOP, _BOTTOM, _RIGHT = 44.0, 52.0, 56.0


def draw_bars(chart: BarChart) -> Figure:
    """The chart as a figure that grows with its bars, the first on top."""
    names = shortened([bar.label for bar in chart.bars], 30)
    left = 14 + max(len(name) for name in names) * _LETTER * _SMALL
    width, height = max(WIDTH, left + 240), _TOP + _BOTTOM + _STEP * len(names)
    figure, axes = new_axes(width, height, left=left, right=_RIGHT, top=_TOP, bottom=_BOTTOM)
    headings(figure, chart.title, chart.labels, width, height)
    values = [bar.value or 0.0 for bar in chart.bars]
    places = [-float(place) for place in range(len(values))]
    axes.barh(places, values, height=0.72, color=[colour(bar.slot) for bar in chart.bars], zorder=3)
    for place, bar, value in zip(places, chart.bars, values, strict=True):
        axes.annotate(
            bar.text,
            (value, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=_SMALL,
            color=MUTED if bar.value is None else colour(bar.slot),
        )
    axes.set_yticks(places, names, fontsize=_SMALL)
    axes.set_ylim(places[-1] - 0.6, 0.6)
    axes.set_xlim(0.0, max(values) or 1.0)
    axes.grid(axis="y", visible=False)
    axes.set_title(chart.y_label, loc="left", fontsize=_SMALL, color=MUTED, pad=5)
    number_ticks(axes.xaxis)
    return figure
