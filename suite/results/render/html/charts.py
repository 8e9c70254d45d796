"""The data of the figures, without drawing: every text is clean, every number finite."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from suite.launch.known import known
from suite.results.columns import Result, Row
from suite.results.identity import named_apart
from suite.results.text import clean, devices_text, shortened

COLOURS = 6
OTHER_SLOT = -1  # Slot of results whose colour says nothing: grey
MAX_POINTS = 120  # Points of one curve that are drawn: more cannot be distinguished at the width of a figure
MAX_PATHS = 100  # Runs of one chart that are drawn
_LARGEST = 1e15  # Larger values are not drawn: axes would lose their ticks
_FIRST = ("demo", "synthetic", "cpu")  # Labels that no number may stand without
_MOST = 6  # Labels that are shown one by one
_NAME_WORDS = 5  # Of a line's name


def framework_slots(names: Iterable[str]) -> dict[str, int]:
    """The colour of each framework, the same in every figure of a page; of others more than are left share grey."""
    own = {name: one.colour for name, one in known().items() if one.colour is not None}
    others = sorted({name for name in names if name and name not in own})
    return {**own, **dict(zip(others, sorted({*range(COLOURS)} - {*own.values()}), strict=False))}


Item = TypeVar("Item")


class Point(NamedTuple):
    """A place in a figure."""

    x: float
    y: float
    row: Row | None = None  # The run or result that a pointer over it tells of
    low: float | None = None  # Least and most of several runs, or bounds of a prediction
    high: float | None = None


Points = tuple[Point, ...]  # The points of one curve in order


@dataclass(frozen=True)
class Series:
    """Curves with one colour and name: the runs of one result, or one scaling curve; or the bars of one kind."""

    label: str
    slot: int  # Selects the colour
    paths: tuple[Points, ...]
    published: bool = False  # Not ours: dashed, hollow and grey
    style: int = 0  # Selects marker and dashes: curves of one colour differ in them
    text: str = ""  # Of a bar: its value, or why there is none
    names: tuple[str, ...] = ()  # Of parts of bars: the bar that each path is in


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
    """`lines`: linear axes; `powers`: logarithmic ones; `scaling`: these, with ideal scaling dotted; `points`: these without
    lines; `bars`: each series is one, its value the x of its point; `parts`: series stacked in named bars; `ratios`: points on
    a logarithmic axis, in a line for each name."""
    target: float | None = None  # A horizontal line
    from_zero: bool = False


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


def finite_points(points: Iterable[tuple[float | None, float | None]], row: Row | None = None) -> Points:
    """The points of a `row` whose coordinates are known and small enough to be drawn."""
    known = ((x, y) for x, y in points if x is not None and y is not None)
    return tuple(Point(x, y, row) for x, y in known if abs(x) < _LARGEST and abs(y) < _LARGEST)


def downsample_mean(points: Points) -> Points:
    """At most MAX_POINTS points, each the mean of neighbours: for telemetry, which has more samples than can be drawn."""
    size = math.ceil(len(points) / MAX_POINTS) or 1
    pieces = (points[begin : begin + size] for begin in range(0, len(points), size))
    return tuple(Point(fmean(p.x for p in piece), fmean(p.y for p in piece), piece[0].row) for piece in pieces)


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
    return few_words(named_apart(rows, names, shown, fewest=True))


def few_words(names: Sequence[str]) -> list[str]:
    """Each name in at most five words; different ones stay different, by a number where words do not do it."""
    cut = [" ".join(name.split()[:_NAME_WORDS]).rstrip(",;:") for name in names]
    cut = shortened(cut, 60)
    seen: dict[str, dict[str, int]] = {}
    for name, short in zip(names, cut, strict=True):
        seen.setdefault(short, {}).setdefault(name, len(seen.get(short, ())) + 1)
    numbered = (f"{short} ({seen[short][name]})" for name, short in zip(names, cut, strict=True))
    return [short if len(seen[short]) == 1 else text for short, text in zip(cut, numbered, strict=True)]


def result_names(rows: Sequence[Result]) -> list[str]:
    """One name for each result of a table, of what not all have: `pytorch, 2 devices`; of other programs the system."""
    several = {name: len({getattr(row, name) for row in rows}) > 1 for name in ("framework", "devices", "nodes")}

    def parts(row: Result) -> tuple[str, ...]:
        if not row.profile:
            return (row.system,)
        place = devices_text(row.devices, row.nodes) if row.devices and several["devices"] | several["nodes"] else ""
        return (row.framework if several["framework"] or not place else "", place)

    return distinct([clean(", ".join(filter(None, parts(row))), 120) or "runs" for row in rows], rows)
