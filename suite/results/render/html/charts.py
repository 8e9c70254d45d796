"""Data of the figures, which `vega` draws: curves, labels, and colors.

All texts are clean and all numbers are finite.
"""

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
from suite.launch.registered_frameworks import registered_frameworks
from suite.results.columns import BUSY, Columns, Result
from suite.results.combine import grouped
from suite.results.experiment_key import label
from suite.results.names import short_title, workload_name
from suite.results.published_results import ARTICLE
from suite.results.ratios import place
from suite.results.scores import merged_labels
from suite.results.series import all_series
from suite.results.settings_difference import (
    NEVER_COMPARED_WITHOUT,
    distinct_labels,
    settings_difference,
)
from suite.results.text import clean, devices_text, shortened
from suite.results.views.overview import order_of

COLORS = 6
"""Number of colors of frameworks, or of accelerators: slots 0 to 5."""
WHOLE, *_FURTHER = range(COLORS, COLORS + 6)
PARTS = _FURTHER[:3]
"""Slots of parts of time."""
OF_SPEEDUPS = (WHOLE, *_FURTHER[3:])
"""Slots of a speedup and its factors."""
HUES = (*range(COLORS), *_FURTHER)
"""Slots of all colors except the color of a whole."""
OF_SETUP = 5
"""Slot of the setup in figures of parts of time. These figures have no curves of frameworks."""
SHAPES = 6
"""Number of markers of a color."""
OTHER_SLOT = -1
"""Slot of series without a color: they are gray."""
MAX_POINTS = 120
"""Points of a curve that are drawn. More cannot be distinguished at the width of a figure."""
MAX_PATHS = 6
"""Runs of a result that are drawn separately.

If a result has more runs, their median is drawn with a band.
"""
MAX_CURVES = 24
"""Runs of a figure that are drawn separately.

If a figure has more runs, each result with several runs has a band.
"""
MAX_BANDS = 3
"""Bands that are always shown.

If a figure has more bands, each is shown while the pointer is over its series.
"""
_LARGEST = 1e15
"""Larger values are not drawn, because axes would lose their ticks."""
_FIRST = ("demo", "synthetic", "cpu")
"""Labels that must be shown with every number."""
_MAX_LABELS = 6
"""Labels that are shown. The remaining labels are counted."""
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
        *(
            "__proto__",
            "__defineGetter__",
            "__defineSetter__",
            "__lookupGetter__",
            "__lookupSetter__",
        ),
        *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf"),
    }
)
"""Properties that every JavaScript object inherits (ECMAScript, Object.prototype)."""
Item = TypeVar("Item")


class Point(NamedTuple):
    """A point of a curve, or the end of a bar."""

    x: float
    y: float
    row: Columns | None = None
    """The run or the result that the point belongs to.

    The page shows it while the pointer is over the point.
    """
    low: float | None = None
    """Smallest value of several runs, or lower bound of a prediction."""
    high: float | None = None
    """Largest value of several runs, or upper bound of a prediction."""


Points = tuple[Point, ...]
"""Points of a curve, in order."""


class Style(NamedTuple):
    """Label, color, marker, and dashes of a series."""

    label: str
    slot: int
    """Selects the color.

    If several curves of a figure have the same slot, the first curve gets its color.
    """
    style: int = 0
    """Selects marker and dashes."""
    published: bool = False
    """True for published results, which are gray and hollow with dashed lines."""


Mark = tuple[Style, Hashable, Point]
"""A point, with the style of its series and its group.

The group depends on the kind of the chart. For lines it identifies the curve within the series. For
parts and ratios it is the name of the bar or line. For bars it is the text next to the bar: its
value, or why there is no value.
"""


@dataclass(frozen=True)
class Chart:
    """Curves, points, or bars over one pair of axes."""

    title: str
    labels: tuple[str, ...]
    """Labels that are shown with the numbers, such as `demo` and `cpu`."""
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    """The points. Those of one style follow each other."""
    note: str = ""
    """Caption, such as the number of curves that are not drawn."""
    kind: str = "lines"
    """How the points are drawn.

    - `lines`: curves over linear axes
    - `powers`: curves over logarithmic axes
    - `scaling`: `powers` with dotted lines of ideal scaling
    - `points`: points over logarithmic axes, without lines; points of slot WHOLE are large
    - `bars`: a bar for each style, as long as the x of its point
    - `parts`: bars in which styles are stacked
    - `ratios`: points over a logarithmic axis, in a line for each name
    """
    targets: Points = ()
    """Points whose different values of y get a horizontal line each."""
    from_zero: bool = False
    """True: the y axis begins at zero."""

    @property
    def styles(self) -> list[Style]:
        """The styles in order, without repetition."""
        return [*dict.fromkeys(style for style, _, _ in self.marks)]


def charts(
    title: str, rows: Iterable[Result], axes: tuple[str, str], marks: Iterable[Mark], **more: Any
) -> list[Chart]:
    """Return a list with the chart of all marks, or an empty list if there are no marks.

    Args:
        title: Title of the chart.
        rows: The results that the marks belong to. Their labels are shown with the chart.
        axes: Labels of the x axis and the y axis.
        marks: The marks, in any order.
        more: Further fields of the chart. `labels` are shown in addition to the labels of `rows`.
    """
    drawable = []
    for style, group, point in marks:
        drawable_group = drawable_name(group) if isinstance(group, str) else group
        drawable.append((style._replace(label=drawable_name(style.label)), drawable_group, point))
    if not drawable:
        return []
    marks_by_style = grouped(drawable, lambda mark: mark[0]).values()
    ordered = tuple(mark for marks_of_style in marks_by_style for mark in marks_of_style)
    labels = shown_labels((*more.pop("labels", ()), *merged_labels(rows)))
    return [Chart(title, labels, *axes, ordered, **more)]


def drawable_name(name: str) -> str:
    """Return a name that is no property of every JavaScript object.

    If necessary, an invisible character is added.

    Vega looks names of series and bars up in plain objects, and a log may contain any name.
    """
    return name + _WORD_JOINER if name in _OBJECT_PROPERTIES else name


def titled(rows: Sequence[Result], quantity: str = "") -> str:
    """Return the title of a chart of results of a workload: `SSD: time to target over devices`."""
    workload = workload_name(rows[0].workload) if rows else ""
    return ": ".join(
        filter(None, (short_title(clean(workload or "unknown workload", 40)), quantity))
    )


def file_name(number: int, title: str) -> str:
    """Return the name of a figure's file without its extension.

    It has lower-case letters, digits, and `-` only, so that no title from a log can lead out of the
    folder.
    """
    return f"{number:02d}-{re.sub(r'[^a-z0-9]+', '-', title.lower())[:80]}".strip("-")


def time_unit(longest_seconds: float) -> tuple[str, float]:
    """Return the unit of a time axis and its length in seconds.

    It is minutes from two minutes on, as in tables.
    """
    return ("seconds", 1.0) if longest_seconds < 120 else ("minutes", 60.0)


def finite_points(
    points: Iterable[tuple[float | None, float | None]], row: Columns | None = None
) -> Points:
    """Return the points of a row whose coordinates are known and small enough to be drawn."""
    return tuple(
        Point(x, y, row)
        for x, y in points
        if x is not None and y is not None and abs(x) < _LARGEST and abs(y) < _LARGEST
    )


def downsample_mean(points: Points) -> Points:
    """Return at most MAX_POINTS points, each the mean of neighbors.

    Telemetry has more samples than can be drawn.
    """
    size = math.ceil(len(points) / MAX_POINTS) or 1
    pieces = (points[begin : begin + size] for begin in range(0, len(points), size))
    return tuple(
        Point(fmean(p.x for p in piece), fmean(p.y for p in piece), piece[0].row)
        for piece in pieces
    )


def evenly(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """Return at most `limit` items at equal distances, with the first and the last item."""
    if len(items) <= limit:
        return items
    return [items[round(index * (len(items) - 1) / (limit - 1))] for index in range(limit)]


def band(paths: Sequence[Points], row: Columns) -> Points:
    """Return the median, the minimum, and the maximum of the curves of a result's runs.

    The points end where fewer than half of the runs have values.
    """
    import numpy as np

    curves = [np.array(sorted(point[:2] for point in path)).T for path in paths]
    x = np.unique(np.concatenate([curve_x for curve_x, _ in curves]))
    if len(x) > MAX_POINTS:
        x = np.linspace(x[0], x[-1], MAX_POINTS)
    y = np.array(
        [np.interp(x, curve_x, curve_y, left=np.nan, right=np.nan) for curve_x, curve_y in curves]
    )
    kept = 2 * np.isfinite(y).sum(axis=0) >= len(paths)
    median, low, high = (
        statistic(y[:, kept], axis=0) for statistic in (np.nanmedian, np.nanmin, np.nanmax)
    )
    values = np.stack([x[kept], median, low, high], axis=1).tolist()
    return tuple(Point(px, py, row, py_low, py_high) for px, py, py_low, py_high in values)


def shown_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return at most _MAX_LABELS different labels, and the number of further labels.

    The most important labels come first.
    """
    short = {BUSY if label_of_text(text).kind is LabelKind.BUSY else text for text in labels}
    ordered = sorted(
        short, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)
    )
    more = (f"and {len(ordered) - _MAX_LABELS} more",) if len(ordered) > _MAX_LABELS else ()
    return (*(clean(name, 60) for name in ordered[:_MAX_LABELS]), *more)


# --- names and looks
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """Styles of a result, and of its curve over devices, in all figures of a page."""

    of_curve: Style
    """Style with a label such as `pytorch, lr 0.01`."""
    of_result: Style
    """Style with a label such as `pytorch, lr 0.01, 2 dev`."""


Looks = Mapping[str, Look]
"""Key of a result to its look."""


def framework_slots(names: Iterable[str]) -> dict[str, int]:
    """Return the color slot of each framework, the same in all figures of a page.

    Frameworks without a registered color get the free slots, in alphabetical order. If there are
    too few, the last ones have none and are gray.
    """
    registered = {
        name: framework.colour
        for name, framework in registered_frameworks().items()
        if framework.colour is not None
    }
    further = sorted({name for name in names if name and name not in registered})
    free = sorted({*range(COLORS)} - {*registered.values()})
    return {**registered, **dict(zip(further, free, strict=False))}


def groups(results: Iterable[Result]) -> list[list[Result]]:
    """Return groups of results that may share axes: same workload, profile, and kind of device.

    Reference runs are first.
    """
    kinds = grouped(results, lambda result: (order_of(result), result.workload))
    return [members for _, members in sorted(kinds.items(), key=lambda item: item[0])]


def looks(results: Iterable[Result], published: Sequence[Result] = ()) -> dict[str, Look]:
    """Return the look of each result. Labels leave out settings that all results of the page have.

    Args:
        results: Results of this suite, or published results without results of this suite.
        published: Published results that are drawn in gray for comparison.
    """
    listed = [*results, *published]
    found: dict[str, Look] = {}
    gray = {result.key for result in published}
    sources = _Sources(listed)
    counters: defaultdict[tuple[int, str], defaultdict[str, int]] = defaultdict(
        lambda: defaultdict(count().__next__)
    )  # numbers of the styles of each color
    slots = framework_slots(result.framework for result in listed)
    for members in groups(listed):
        curves = [list(series) for series in all_series(members)]
        drawn = {result.key for curve in curves for result in curve}
        curves += [[result] for result in members if result.key not in drawn]
        labels = _labels(curves, [sources.name(curve[0]) for curve in curves])
        full_names = []
        for curve, texts in zip(curves, labels, strict=True):
            source = clean(sources.name(curve[0]), 60)
            full_names += [", ".join(filter(None, (source, short(text)))) for text in texts]
        names = iter(shortened(full_names, 80))
        for curve, (curve_text, *result_texts) in zip(curves, labels, strict=True):
            curve_name = next(names)
            for result, result_text in zip(curve, result_texts, strict=True):
                size = sources.size(result)
                result_name = ", ".join(filter(None, (next(names), size if result.profile else "")))
                default, is_gray = clean(result.framework, 60) or "runs", result.key in gray
                slot = OTHER_SLOT if is_gray else slots.get(result.framework, OTHER_SLOT)
                curve_style = counters[slot, "curve"][curve_text if result.profile else curve_name]
                result_key = f"{result_text if result.profile else curve_name}, {size}"
                result_style = counters[slot, "result"][result_key]
                found[result.key] = Look(
                    of_curve=Style(curve_name or default, slot, curve_style, is_gray),
                    of_result=Style(result_name or default, slot, result_style, is_gray),
                )
    return found


class _Sources:
    """Names of the sources of results: framework, or submitter and system.

    A part that all results share is left out.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        ours = [result for result in results if result.profile]
        self._has_several_frameworks = len({result.framework for result in ours}) > 1
        self._has_several_sizes = len({place(result) for result in ours}) > 1
        self._has_several_rounds = (
            len({result.round for result in results if not result.profile}) > 1
        )

    def name(self, result: Result) -> str:
        """Return the name of a result.

        Examples: `pytorch` for a result of this suite, `v4.0 Dell XE9640` for a published result.
        """
        if result.profile:
            return result.framework if self._has_several_frameworks else ""
        if result.round == ARTICLE:
            return "DGX-1 article"
        return " ".join(
            filter(
                None,
                (result.round if self._has_several_rounds else "", result.submitter, result.system),
            )
        )

    def size(self, result: Result) -> str:
        """Return the number of devices as text; empty if all local results have the same."""
        if not result.devices or not self._has_several_sizes:
            return ""
        return short(devices_text(result.devices, result.nodes))


def _labels(curves: Sequence[Sequence[Result]], whose: Sequence[str]) -> list[list[str]]:
    """Return for each curve its label, then the label of each of its results.

    Results of this suite always name precision, batch, and clock if they differ anywhere in the
    figure.

    Args:
        curves: Curves of one figure.
        whose: Name of each curve. Only curves of the same name are distinguished by their settings.
    """
    results = [result for curve in curves for result in curve]
    grows = any(len({result.global_batch_size for result in curve}) > 1 for curve in curves)
    shown = ("devices", "nodes", *(("global_batch_size",) if grows else ()))
    of_curves = distinct_labels([curve[0] for curve in curves], whose, shown)
    forced = settings_difference(results if results[0].profile else ()).only(NEVER_COMPARED_WITHOUT)
    if len({(result.devices, result.global_batch_size) for result in results}) == len(
        {result.devices for result in results}
    ):
        forced = forced.without(("global_batch_size",))  # the batch follows from the devices
    texts = {
        name: iter(forced.texts(name)) for name in NEVER_COMPARED_WITHOUT if name in forced.columns
    }
    labels = []
    for curve, settings in zip(curves, of_curves, strict=True):
        of_results: list[dict[str, str]] = [
            {name: next(column) for name, column in texts.items()} for _ in curve
        ]
        first = of_results[0]
        common = {
            name: text
            for name, text in first.items()
            if all(values[name] == text for values in of_results)
        }
        sizes = sorted({result.global_batch_size or 0 for result in curve})
        if len(sizes) > 1 and "global_batch_size" in texts:
            common["global_batch_size"] = f"{sizes[0]:,}–{sizes[-1]:,}"
        labels.append(
            [_joined(settings, common), *(_joined(settings, values) for values in of_results)]
        )
    return labels


def _joined(settings: str, values: Mapping[str, str]) -> str:
    """Return the label of a curve or result.

    It has the settings, then the values that are always named. Each occurs once.
    """
    named = [f"{label(name)} {text}" for name, text in values.items()]
    kept = [text for text in settings.split(", ") if text and text not in named]
    return ", ".join((*kept, *named))


def short(text: str) -> str:
    """Return settings as text for a legend: `lr 0.01, bs 2,048, fp16, 2 dev`."""
    for pattern, form in _SHORT:
        text = re.sub(pattern, form, text)
    return text
