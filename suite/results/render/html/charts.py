"""The data of the figures, without drawing: every text is clean, every number finite; names and looks."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from suite.common.labels import LabelKind, label_of_text
from suite.launch.known import known
from suite.results.columns import BUSY, Columns, Result
from suite.results.combine import grouped
from suite.results.identity import label
from suite.results.names import short_title, workload_name
from suite.results.published import ARTICLE
from suite.results.ratios import place
from suite.results.scores import merged_labels
from suite.results.series import all_series
from suite.results.settings_difference import NEVER_COMPARED_WITHOUT, distinct_labels, settings_difference
from suite.results.text import clean, devices_text, shortened
from suite.results.views.overview import order_of

# Of frameworks, or of accelerators; those after them are of a whole, of parts of time, of factors of a speedup
COLOURS = 6
WHOLE, *_OTHERS = range(COLOURS, COLOURS + 6)
PARTS, OF_SPEEDUPS = _OTHERS[:3], (WHOLE, *_OTHERS[3:])
HUES = (*range(COLOURS), *_OTHERS)  # Slots of all colors except the color of a whole
OF_SETUP = 5  # Slot of the setup in figures of parts of time, which have no curves of frameworks
SHAPES = 6  # Markers of one colour
OTHER_SLOT = -1  # Slot of what has no colour of its own: grey
MAX_POINTS = 120  # Points of one curve that are drawn: more cannot be distinguished at the width of a figure
MAX_PATHS = 6  # Runs of one result that are drawn one by one; of more the median and a band
MAX_CURVES = 24  # Runs of one figure that are drawn one by one; else of several of one result the median and a band
MAX_BANDS = 3  # Of more series a band is only shown where a pointer is: over each other none can be read
_LARGEST = 1e15  # Larger values are not drawn: axes would lose their ticks
_FIRST = ("demo", "synthetic", "cpu")  # Labels that no number may stand without
_MOST = 6  # Labels that are shown one by one
_SHORT = (
    (r"\blearning rate (?=\S)", "lr "),
    (r"\bglobal batch (?=\d)", "bs "),
    (r"(?<=\d) devices?\b", " dev"),
    (r"\bprecision (?=\S)", ""),
    (r"\bclock rule (?=\S)", "clock "),
    (r"\btarget [^,≥≤]+ [≥≤] ", "target "),
)
_WORD_JOINER = "\u2060"
_OBJECT_PROPERTIES = frozenset(
    {
        *("__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
        *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf"),
    }
)
"""Properties that every JavaScript object inherits (ECMAScript, Object.prototype)."""
Item = TypeVar("Item")


class Point(NamedTuple):
    """A place in a figure."""

    x: float
    y: float
    row: Columns | None = None  # The run or result of its tooltip
    low: float | None = None  # Least and most of several runs, or bounds of a prediction
    high: float | None = None


Points = tuple[Point, ...]  # The points of one curve in order


class Style(NamedTuple):
    """Name and look of a series."""

    label: str
    slot: int  # Selects the color. The first curve with a slot in a figure has this color.
    style: int = 0  # Selects marker and dashes
    published: bool = False  # Not ours: dashed, hollow and grey


Mark = tuple[Style, Hashable, Point]
"""Whose, where in it, and the point. Where: in which of its curves; of a part of a bar in which bar; of a bar its value in
words, or why there is none."""


@dataclass(frozen=True)
class Chart:
    """Curves over one pair of axes."""

    title: str
    labels: tuple[str, ...]  # Labels to show with the numbers: `demo`, `cpu`
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]  # Those of one style together
    note: str = ""  # Caption: which curves were left out
    kind: str = "lines"
    """`lines`: linear axes; `powers`: logarithmic ones; `scaling`: these, with ideal scaling dotted; `points`: these without
    lines; `bars`: each style is one, its value the x of its point; `parts`: styles stacked in named bars; `ratios`: points on
    a logarithmic axis, in a line for each name."""
    targets: Points = ()  # A horizontal line at each different y
    from_zero: bool = False

    @property
    def styles(self) -> list[Style]:
        """Each style once, in order."""
        return [*dict.fromkeys(style for style, _, _ in self.marks)]


def charts(
    title: str, rows: Iterable[Result], axes: tuple[str, str], marks: Iterable[Mark], **more: Any
) -> list[Chart]:
    """Return a list with the chart of these marks, or an empty list without marks.

    Args:
        title: Title of the chart.
        rows: Results of the marks, for labels.
        axes: Labels of the axes.
        marks: Marks of the chart.
        more: Further fields of `Chart`, and `labels` in addition to the labels of the rows.
    """
    named = (
        (
            style._replace(label=drawable_name(style.label)),
            drawable_name(where) if isinstance(where, str) else where,
            point,
        )
        for style, where, point in marks
    )
    together = tuple(mark for of_style in grouped(named, lambda mark: mark[0]).values() for mark in of_style)
    shown = shown_labels((*more.pop("labels", ()), *merged_labels(rows)))
    return [Chart(title, shown, *axes, together, **more)] if together else []


def drawable_name(name: str) -> str:
    """Return the name, with an invisible character after it if every JavaScript object inherits a property of that name.

    Vega looks names of series and bars up in plain objects, and a log may contain any name.
    """
    return name + _WORD_JOINER if name in _OBJECT_PROPERTIES else name


def titled(rows: Sequence[Result], what: str = "") -> str:
    """Return the title of a chart of results of one workload: `SSD: time to target over devices`."""
    workload = workload_name(rows[0].workload) if rows else ""
    return ": ".join(filter(None, (short_title(clean(workload or "unknown workload", 40)), what)))


def file_name(number: int, title: str) -> str:
    """Return the stem of a file name. It has lower-case letters, digits, and `-` only, so it cannot lead out of a folder."""
    return f"{number:02d}-{re.sub(r'[^a-z0-9]+', '-', title.lower())[:80]}".strip("-")


def time_unit(longest_seconds: float) -> tuple[str, float]:
    """Return `seconds` or `minutes`, and its seconds. As in tables, times from two minutes are in minutes."""
    return ("seconds", 1.0) if longest_seconds < 120 else ("minutes", 60.0)


def finite_points(points: Iterable[tuple[float | None, float | None]], row: Columns | None = None) -> Points:
    """Return the points of a row whose coordinates are known and small enough to be drawn."""
    known = ((x, y) for x, y in points if x is not None and y is not None)
    return tuple(Point(x, y, row) for x, y in known if abs(x) < _LARGEST and abs(y) < _LARGEST)


def downsample_mean(points: Points) -> Points:
    """Return at most MAX_POINTS points, each the mean of neighboring points, for telemetry with many samples."""
    size = math.ceil(len(points) / MAX_POINTS) or 1
    pieces = (points[begin : begin + size] for begin in range(0, len(points), size))
    return tuple(Point(fmean(p.x for p in piece), fmean(p.y for p in piece), piece[0].row) for piece in pieces)


def evenly(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """Return at most `limit` evenly spaced items, with the first and the last."""
    if len(items) <= limit:
        return items
    return [items[round(index * (len(items) - 1) / (limit - 1))] for index in range(limit)]


def band(paths: Sequence[Points], row: Columns) -> Points:
    """Return the median of the paths of a row's runs with the least and the largest value, while at least half of the runs
    last.
    """
    import numpy as np

    every = [np.array(sorted(point[:2] for point in path)).T for path in paths]
    places = np.unique(np.concatenate([xs for xs, _ in every]))
    places = places if len(places) <= MAX_POINTS else np.linspace(places[0], places[-1], MAX_POINTS)
    values = np.array([np.interp(places, xs, ys, left=np.nan, right=np.nan) for xs, ys in every])
    kept = 2 * np.isfinite(values).sum(axis=0) >= len(paths)
    middle, low, high = (of(values[:, kept], axis=0) for of in (np.nanmedian, np.nanmin, np.nanmax))
    drawn = zip(*(one.tolist() for one in (places[kept], middle, low, high)), strict=True)
    return tuple(Point(x, y, row, least, most) for x, y, least, most in drawn)


def shown_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels without repetition, the most important first. Of many labels the last ones are counted."""
    short = {BUSY if label_of_text(text).kind is LabelKind.BUSY else text for text in labels}
    ordered = sorted(short, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    more = (f"and {len(ordered) - _MOST} more",) if len(ordered) > _MOST else ()
    return (*(clean(name, 60) for name in ordered[:_MOST]), *more)


# --- names and looks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """Names and looks of a result and of its curve over devices, in all figures of a page."""

    of_curve: Style  # `pytorch, lr 0.01`
    of_result: Style  # `pytorch, lr 0.01, 2 dev`


Looks = Mapping[str, Look]  # Key of a result to its look


def framework_slots(names: Iterable[str]) -> dict[str, int]:
    """Return the color slot of each framework, the same in each figure of a page. Frameworks beyond the palette are gray."""
    own = {name: one.colour for name, one in known().items() if one.colour is not None}
    others = sorted({name for name in names if name and name not in own})
    return {**own, **dict(zip(others, sorted({*range(COLOURS)} - {*own.values()}), strict=False))}


def groups(results: Iterable[Result]) -> list[list[Result]]:
    """Return the results that may share axes, by workload, profile, and whether they ran on CPUs. Reference runs are first."""
    kinds = grouped(results, lambda row: (order_of(row), row.workload))
    return [members for _, members in sorted(kinds.items(), key=lambda item: item[0])]


def looks(results: Iterable[Result], beside: Sequence[Result] = ()) -> dict[str, Look]:
    """Return the look of each result, and of the published results next to them.

    Labels contain the settings in which results differ.
    """
    listed, found = [*results, *beside], dict[str, Look]()
    slots, grey = framework_slots(row.framework for row in listed), {row.key for row in beside}
    ours = [row for row in listed if row.profile]
    frameworks, places = {row.framework for row in ours}, {place(row) for row in ours}
    rounds = {row.round for row in listed if not row.profile}
    styles = defaultdict[tuple[int, str], defaultdict[str, int]](
        lambda: defaultdict(count().__next__)
    )  # of each colour

    def who(row: Result) -> str:
        if row.profile:
            return row.framework if len(frameworks) > 1 else ""
        whose = filter(None, (row.round if len(rounds) > 1 else "", row.submitter, row.system))
        return "DGX-1 article" if row.round == ARTICLE else " ".join(whose)

    for members in groups(listed):
        curves = [list(series) for series in all_series(members)]
        drawn = {row.key for curve in curves for row in curve}
        curves += [[row] for row in members if row.key not in drawn]
        told = _labels(curves, [who(curve[0]) for curve in curves])
        names = iter(shortened([", ".join(filter(None, (clean(who(curve[0]), 60), short(text))))
                                for curve, texts in zip(curves, told, strict=True) for text in texts], 80))  # fmt: skip
        for curve, (text, *texts) in zip(curves, told, strict=True):
            name = next(names)
            for row, words in zip(curve, texts, strict=True):
                where = short(devices_text(row.devices, row.nodes)) if row.devices and len(places) > 1 else ""
                full = ", ".join(filter(None, (next(names), where if row.profile else "")))
                usual, published = clean(row.framework, 60) or "runs", row.key in grey
                slot = OTHER_SLOT if published else slots.get(row.framework, OTHER_SLOT)
                of_curve = styles[slot, "curve"][text if row.profile else name]
                own = styles[slot, "result"][f"{words if row.profile else name}, {where}"]
                both = (name or usual, slot, of_curve, published), (full or usual, slot, own, published)
                found[row.key] = Look(*(Style(*one) for one in both))
    return found


def _labels(curves: Sequence[Sequence[Result]], whose: Sequence[str]) -> list[list[str]]:
    """Return for each curve its label, then the label of each of its results.

    Results of this suite always name precision, batch, and clock if they differ anywhere in the figure.

    Args:
        curves: Curves of one figure.
        whose: Name of each curve. Only curves of the same name are distinguished by their settings.
    """
    results = [result for curve in curves for result in curve]
    grows = any(len({result.batch_size_global for result in curve}) > 1 for curve in curves)
    shown = ("devices", "nodes", *(("batch_size_global",) if grows else ()))
    of_curves = distinct_labels([curve[0] for curve in curves], whose, shown)
    forced = settings_difference(results if results[0].profile else ()).only(NEVER_COMPARED_WITHOUT)
    if len({(result.devices, result.batch_size_global) for result in results}) == len({one.devices for one in results}):
        forced = forced.without(("batch_size_global",))  # the batch follows from the devices
    texts = {name: iter(forced.texts(name)) for name in NEVER_COMPARED_WITHOUT if name in forced.columns}
    labels = []
    for curve, settings in zip(curves, of_curves, strict=True):
        of_results: list[dict[str, str]] = [{name: next(column) for name, column in texts.items()} for _ in curve]
        common = {name: text for name, text in of_results[0].items() if all(one[name] == text for one in of_results)}
        sizes = sorted({result.batch_size_global or 0 for result in curve})
        if len(sizes) > 1 and "batch_size_global" in texts:
            common["batch_size_global"] = f"{sizes[0]:,}–{sizes[-1]:,}"
        labels.append([_joined(settings, common), *(_joined(settings, values) for values in of_results)])
    return labels


def _joined(settings: str, values: Mapping[str, str]) -> str:
    """Return the label of a curve or result: its settings, then the values that are always named, each once."""
    named = [f"{label(name)} {text}" for name, text in values.items()]
    kept = [text for text in settings.split(", ") if text and text not in named]
    return ", ".join((*kept, *named))


def short(text: str) -> str:
    """Return text shortened for a legend: `lr 0.01, bs 2,048, fp16, 2 dev`."""
    for pattern, form in _SHORT:
        text = re.sub(pattern, form, text)
    return text
