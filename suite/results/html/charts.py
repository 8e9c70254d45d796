"""The data of the figures, without drawing: every text is clean, every number finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.results.html.theme import OTHER_SLOT

Point = tuple[float, float]
Points = tuple[Point, ...]
"""The points of one curve in order."""

MAX_POINTS = 120
"""Points of one curve that are drawn: more cannot be distinguished at the width of a figure."""
MAX_PATHS = 40
"""Runs of one series that are drawn."""
_LARGEST = 1e15
"""Larger values are not drawn: axes would lose their ticks."""


@dataclass(frozen=True)
class Series:
    """Curves with one colour and label: the runs of one row, or one scaling curve."""

    label: str
    slot: int
    """Number that selects the colour of its framework (theme.py)."""
    paths: tuple[Points, ...]
    published: bool = False
    """True for results that are not ours: drawn dashed and in grey."""
    ranges: tuple[tuple[float, float, float], ...] = ()
    """(x, lowest, highest) of points with several runs."""
    style: int = 0
    """Number that selects marker and dashes: curves of one colour differ in them."""


@dataclass(frozen=True)
class Chart:
    """A line chart with one pair of axes."""

    name: str
    """Stem of its file: lower-case letters, digits and `-`."""
    title: str
    labels: tuple[str, ...]
    """Labels to show with the numbers: `demo`, `cpu`."""
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    target: float | None = None
    """A horizontal line."""
    target_label: str = ""
    from_zero: bool = False
    note: str = ""
    """Caption: which curves were left out."""
    powers: bool = False
    """Both axes logarithmic, with a tick at each x that has room: sizes in bytes, numbers of devices."""


@dataclass(frozen=True)
class ScalingChart:
    """Time to target against devices on logarithmic axes, with total speedup on linear ones as its inset."""

    name: str
    title: str
    labels: tuple[str, ...]
    times: tuple[Series, ...]
    """Points are (devices, time in `unit`)."""
    speedups: tuple[Series, ...]
    """Points are (devices over those of the baseline, speedup)."""
    unit: str = "minutes"
    """`seconds` where every time is below two minutes."""
    note: str = ""


@dataclass(frozen=True)
class ScatterChart:
    """Minutes to target against devices as points, both axes logarithmic; each series is one framework."""

    name: str
    title: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    """Points are (devices, minutes)."""
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """One bar."""

    label: str
    value: float | None
    """None: there is no bar, `text` says why."""
    text: str
    slot: int
    """Number that selects the colour of its framework."""


@dataclass(frozen=True)
class BarChart:
    """Values of named lines as horizontal bars, in order from the top."""

    name: str
    title: str
    labels: tuple[str, ...]
    y_label: str
    bars: tuple[Bar, ...]
    note: str = ""


AnyChart = Chart | ScalingChart | ScatterChart | BarChart


def slots_and_styles(frameworks: Sequence[str], slots: Mapping[str, int]) -> list[tuple[int, int]]:
    """For each curve the slot of its framework and its number among the curves of that colour."""
    seen: dict[int, int] = {}
    placed = []
    for name in frameworks:
        slot = slots.get(name, OTHER_SLOT)
        placed.append((slot, seen.get(slot, 0)))
        seen[slot] = seen.get(slot, 0) + 1
    return placed


def finite_points(points: Iterable[tuple[float | None, float | None]]) -> Points:
    """The points whose coordinates are known and small enough to be drawn."""
    return tuple(
        (x, y) for x, y in points if x is not None and y is not None and abs(x) < _LARGEST and abs(y) < _LARGEST
    )


def downsample(points: Points) -> Points:
    """At most MAX_POINTS of the points, evenly chosen, including the first and the last."""
    count = len(points)
    if count <= MAX_POINTS:
        return points
    return tuple(points[round(index * (count - 1) / (MAX_POINTS - 1))] for index in range(MAX_POINTS))


def downsample_mean(points: Points) -> Points:
    """At most MAX_POINTS points, each the mean of neighbours: for telemetry, which has more samples than can be drawn."""
    size = math.ceil(len(points) / MAX_POINTS) or 1
    pieces = [points[begin : begin + size] for begin in range(0, len(points), size)]
    return tuple(
        (math.fsum(x for x, _ in piece) / len(piece), math.fsum(y for _, y in piece) / len(piece)) for piece in pieces
    )


def evenly_chosen(paths: Sequence[Points], limit: int = MAX_PATHS) -> tuple[Points, ...]:
    """At most `limit` of the paths that have a point, evenly chosen."""
    drawn = [path for path in paths if path]
    if len(drawn) <= limit:
        return tuple(drawn)
    return tuple(drawn[round(index * (len(drawn) - 1) / (limit - 1))] for index in range(limit))
