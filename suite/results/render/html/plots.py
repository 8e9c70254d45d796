"""The data of the figures, without drawing: every text is clean, every number finite. Colours, sizes and markers too."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

from suite.results.identity import Row, told_apart
from suite.results.text import clean, devices_text

# Okabe and Ito's hues (distinct for colour-blind readers), darkened until text in them has a contrast of 4.5 : 1 on white;
# the style sheet has light counterparts for a dark page.
SERIES_COLOURS = ("#0a62a4", "#b0440c", "#00705a", "#8c3a7c", "#755c00", "#1a7f9c")
INK, MUTED, GRID, PAPER = "#1d2530", "#5a6573", "#dfe3e8", "#ffffff"
_MARKERS, _LINES = "os^DvPX", ("-", (0.0, (6.0, 2.0)), (0.0, (2.0, 1.5)), (0.0, (6.0, 1.5, 1.5, 1.5)))
WIDTH, HEIGHT = 400.0, 290.0  # Of a figure in CSS pixels; on the page it is scaled to the available width
TEXT_SIZE = 12.0  # Font size in CSS pixels at that width
CSS_VARIABLES: Mapping[str, str] = {
    **{colour: f"--c{slot}" for slot, colour in enumerate(SERIES_COLOURS)},
    **{INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"},
}
"""Colour to the CSS variable that replaces it on the page; files use the light theme."""
_KNOWN_FRAMEWORKS: Mapping[str, int] = {"mxnet": 0, "pytorch": 1, "tensorflow": 2}
OTHER_SLOT = -1  # Slot of results whose colour says nothing: grey


def framework_slots(names: Iterable[str]) -> dict[str, int]:
    """The colour of each framework, the same in every figure of a page; more than three others share grey."""
    others = sorted({name for name in names if name and name not in _KNOWN_FRAMEWORKS})
    free = range(len(_KNOWN_FRAMEWORKS), len(SERIES_COLOURS))
    return {**_KNOWN_FRAMEWORKS, **dict(zip(others, free, strict=False))}


Item = TypeVar("Item")
Point = tuple[float, float]
Points = tuple[Point, ...]  # The points of one curve in order
MAX_POINTS = 120  # Points of one curve that are drawn: more cannot be distinguished at the width of a figure
MAX_PATHS = 40  # Runs of one series that are drawn
_LARGEST = 1e15  # Larger values are not drawn: axes would lose their ticks
_FIRST = ("demo", "synthetic", "cpu")  # Labels that no number may stand without
_MOST = 6  # Labels that are shown one by one


@dataclass(frozen=True)
class Series:
    """Curves with one colour and label: the runs of one result, or one scaling curve."""

    label: str
    slot: int  # Selects the colour of its framework
    paths: tuple[Points, ...]
    published: bool = False  # Not ours: drawn dashed and in grey
    ranges: tuple[tuple[float, float, float], ...] = ()  # (x, lowest, highest) of points with several runs
    style: int = 0  # Selects marker and dashes: curves of one colour differ in them
    text: str = ""  # Of a bar: its value, or why it has no path

    @property
    def colour(self) -> str:
        """Grey for what is not ours and for frameworks without a slot."""
        grey = self.published or self.slot == OTHER_SLOT
        return MUTED if grey else SERIES_COLOURS[self.slot % len(SERIES_COLOURS)]

    @property
    def look(self) -> dict[str, Any]:
        """Line and marker, as matplotlib names them."""
        look = {"color": self.colour, "marker": _MARKERS[self.style % len(_MARKERS)]}
        if self.published:
            return look | {"markerfacecolor": PAPER, "markeredgewidth": 1.0, "linestyle": (0, (4, 2.5)), "zorder": 2.5}
        return look | {"markeredgewidth": 0.0, "linestyle": _LINES[self.style % len(_LINES)], "zorder": 3}


def series_of(curves: Iterable[tuple[str, str, Iterable[Points]]], slots: Mapping[str, int]) -> list[Series]:
    """Of (label, framework, paths) each; one without points still has its place among those of its colour."""
    listed: list[Series] = []
    for name, framework, paths in curves:
        slot = slots.get(framework, OTHER_SLOT)
        style = sum(one.slot == slot for one in listed)
        listed.append(Series(name, slot, tuple(filter(None, paths)), style=style))
    return listed


@dataclass(frozen=True)
class Chart:
    """Curves over one pair of axes."""

    name: str  # Stem of its file: lower-case letters, digits and `-`
    title: str
    labels: tuple[str, ...]  # Labels to show with the numbers: `demo`, `cpu`
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    note: str = ""  # Caption: which curves were left out
    kind: str = "lines"
    """`lines`: linear axes; `powers`: logarithmic ones; `scaling`: these with ideal scaling dotted and `inset`; `bars`: each
    series is one, its value the x of its point."""
    target: float | None = None  # A horizontal line
    from_zero: bool = False
    inset: tuple[Series, ...] = ()  # Total speedup over devices on linear axes


def charts(
    stem: Iterable[str], title: str, labels: Iterable[str], axes: tuple[str, str], series: Iterable[Series], **more: Any
) -> list[Chart]:
    """The one chart of all series that have points, or none. `stem`: of its file; `axes`: what is on them."""
    drawn = tuple(one for one in series if one.paths or more.get("kind") == "bars")
    return [Chart(file_name(*stem), title, shown_labels(labels), *axes, drawn, **more)] if drawn else []


def file_name(*parts: str) -> str:
    """The stem of a file name: lower-case letters, digits and `-` only, so that no name can lead out of a folder."""
    words = (re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-")[:40] for part in parts)
    return "-".join(word for word in words if word) or "figure"


def time_unit(longest_seconds: float) -> tuple[str, float]:
    """(`seconds` or `minutes`, seconds in one); as in tables, from two minutes on these."""
    return ("seconds", 1.0) if longest_seconds < 120 else ("minutes", 60.0)


def finite_points(points: Iterable[tuple[float | None, float | None]]) -> Points:
    """The points whose coordinates are known and small enough to be drawn."""
    return tuple(
        (x, y) for x, y in points if x is not None and y is not None and abs(x) < _LARGEST and abs(y) < _LARGEST
    )


def downsample_mean(points: Points) -> Points:
    """At most MAX_POINTS points, each the mean of neighbours: for telemetry, which has more samples than can be drawn."""
    size = math.ceil(len(points) / MAX_POINTS) or 1
    pieces = (points[begin : begin + size] for begin in range(0, len(points), size))
    return tuple((fmean(x for x, _ in piece), fmean(y for _, y in piece)) for piece in pieces)


def evenly(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """At most `limit` of the items, evenly chosen, with the first and the last."""
    if len(items) <= limit:
        return items
    return [items[round(index * (len(items) - 1) / (limit - 1))] for index in range(limit)]


def shown_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once: whose numbers these are first, of many others how many more there are."""
    ordered = sorted({*labels}, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    more = (f"and {len(ordered) - _MOST} more",) if len(ordered) > _MOST else ()
    return (*(clean(name, 60) for name in ordered[:_MOST]), *more)


def distinct(names: Sequence[str], rows: Sequence[Row], shown: Sequence[str] = ()) -> list[str]:
    """The names; those that several rows have with the fewest words that tell these rows apart, the columns `shown` aside."""
    words = told_apart(rows, names, shown, fewest=True)
    return [", ".join(filter(None, pair)) for pair in zip(names, words, strict=True)]


def result_names(rows: Sequence[Row]) -> list[str]:
    """One name for each result of a table: `pytorch, 2 devices`; of other programs the system."""
    parts = (
        (row.framework, devices_text(row.devices, row.nodes) if row.devices else "") if row.profile else (row.system,)
        for row in rows
    )
    return distinct([clean(", ".join(filter(None, each)), 120) or "runs" for each in parts], rows)
