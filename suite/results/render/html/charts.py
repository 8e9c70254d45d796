"""Data of the figures: curves, labels, and colors.

The module `vega` draws the figures. All strings are sanitized and all numbers are finite.
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
"""Number of color slots for frameworks or accelerators. The slots are numbered from 0 to 5."""
WHOLE, *_FURTHER = range(COLORS, COLORS + 6)
PARTS = _FURTHER[:3]
"""Color slots for the components of a run time (training, evaluation, …)."""
OF_SPEEDUPS = (WHOLE, *_FURTHER[3:])
"""Color slots for a speedup and its factors."""
HUES = (*range(COLORS), *_FURTHER)
"""All color slots except the slot for totals."""
OF_SETUP = 5
"""Color slot for the setup time in figures of the components of a run time. These figures
contain no framework curves, so the slot of a framework is reused.
"""
SHAPES = 6
"""Number of marker shapes per color."""
OTHER_SLOT = -1
"""Color slot of series without an assigned color. These series are drawn in gray."""
MAX_POINTS = 120
"""Maximum number of drawn points per curve. More points cannot be distinguished at the width of a
figure.
"""
MAX_PATHS = 6
"""Maximum number of runs per result that are drawn as separate curves.

If a result has more runs, the figure shows their median with a band.
"""
MAX_CURVES = 24
"""Maximum number of runs per figure that are drawn as separate curves.

If a figure has more runs, each result with several runs is drawn as a median with a band.
"""
MAX_BANDS = 3
"""Maximum number of bands that are always visible.

If a figure has more bands, each band is visible only while the pointer is over its series.
"""
_LARGEST = 1e15
"""Maximum value that is drawn. Larger values are omitted, because the axes would lose their
ticks.
"""
_FIRST = ("demo", "synthetic", "cpu")
"""Labels that must be shown with every number."""
_MAX_LABELS = 6
"""Maximum number of displayed labels. Further labels are replaced by their number."""
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
"""Names of the properties that every JavaScript object inherits (ECMAScript, Object.prototype)."""
Item = TypeVar("Item")


class Point(NamedTuple):
    """A point of a curve, or the end of a bar."""

    x: float
    y: float
    row: Columns | None = None
    """The run or result at this point.

    The page displays the run or result while the pointer is over the point.
    """
    low: float | None = None
    """Minimum over several runs, or lower bound of a prediction."""
    high: float | None = None
    """Maximum over several runs, or upper bound of a prediction."""


Points = tuple[Point, ...]
"""Points of a curve, in order."""


class Style(NamedTuple):
    """Label, color, marker, and dash pattern of a series."""

    label: str
    slot: int
    """Color slot.

    If several curves of a figure have the same slot, only the first curve has the color of the
    slot.
    """
    style: int = 0
    """Index that selects the marker and the dash pattern."""
    published: bool = False
    """True for published results. The markers of published results are gray and hollow, and their
    lines are dashed.
    """


Mark = tuple[Style, Hashable, Point]
"""A tuple (style of the series, group, point).

The meaning of the group depends on the kind of chart. For `lines`, the group identifies the curve
within the series. For `parts` and `ratios`, the group is the name of the bar or line. For `bars`,
the group is the text next to the bar: its value, or the reason for a missing value.
"""


@dataclass(frozen=True)
class Chart:
    """A chart with curves, points, or bars over an x axis and a y axis."""

    title: str
    labels: tuple[str, ...]
    """Labels that are displayed with the numbers, such as `demo` and `cpu`."""
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    """Marks of the chart, grouped by style."""
    note: str = ""
    """Caption of the chart, such as the number of omitted curves."""
    kind: str = "lines"
    """Kind of chart.

    - `lines`: curves over linear axes
    - `powers`: curves over logarithmic axes
    - `scaling`: `powers` with dotted lines of ideal scaling
    - `points`: points over logarithmic axes, without lines (points of slot WHOLE are large)
    - `bars`: a bar for each style, whose length is the x coordinate of its point
    - `parts`: bars that consist of stacked styles
    - `ratios`: points over a logarithmic axis, with a horizontal line for each name
    """
    targets: Points = ()
    """Points of the targets. Each distinct target value is drawn as a horizontal line."""
    from_zero: bool = False
    """True if the y axis begins at zero."""

    @property
    def styles(self) -> list[Style]:
        """Return the distinct styles in order."""
        return [*dict.fromkeys(style for style, _, _ in self.marks)]


def charts(
    title: str, rows: Iterable[Result], axes: tuple[str, str], marks: Iterable[Mark], **more: Any
) -> list[Chart]:
    """Return a list with the chart of all marks, or an empty list if there are no marks.

    Args:
        title: Title of the chart.
        rows: The results that the marks represent. The labels of these results are displayed with
            the chart.
        axes: Labels of the x axis and the y axis.
        marks: The marks, in any order.
        more: Further fields of the chart. `labels` are displayed in addition to the labels of
            `rows`.
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
    """Change a name that every JavaScript object inherits as a property.

    The function adds an invisible character to such a name. Other names are returned unchanged.

    Vega uses the names of series and bars as keys of JavaScript objects, and a log may contain any
    name.
    """
    return name + _WORD_JOINER if name in _OBJECT_PROPERTIES else name


def titled(rows: Sequence[Result], quantity: str = "") -> str:
    """Return the title of a chart for a workload: `SSD: time to target over devices`."""
    workload = workload_name(rows[0].workload) if rows else ""
    return ": ".join(
        filter(None, (short_title(clean(workload or "unknown workload", 40)), quantity))
    )


def file_name(number: int, title: str) -> str:
    """Return the file name of a figure without its extension.

    The file name consists of lower-case letters, digits, and `-`. A title from a log therefore
    cannot cause a write outside of the output folder.
    """
    return f"{number:02d}-{re.sub(r'[^a-z0-9]+', '-', title.lower())[:80]}".strip("-")


def time_unit(longest_seconds: float) -> tuple[str, float]:
    """Return the unit of a time axis, and the number of seconds in the unit.

    From two minutes on, the unit is minutes, as in the tables.
    """
    return ("seconds", 1.0) if longest_seconds < 120 else ("minutes", 60.0)


def finite_points(
    points: Iterable[tuple[float | None, float | None]], row: Columns | None = None
) -> Points:
    """Return the points whose coordinates are finite and small enough to draw."""
    return tuple(
        Point(x, y, row)
        for x, y in points
        if x is not None and y is not None and abs(x) < _LARGEST and abs(y) < _LARGEST
    )


def downsample_mean(points: Points) -> Points:
    """Return at most MAX_POINTS points, each of which is the mean of neighboring points.

    Telemetry contains more samples than a figure can show.
    """
    size = math.ceil(len(points) / MAX_POINTS) or 1
    pieces = (points[begin : begin + size] for begin in range(0, len(points), size))
    return tuple(
        Point(fmean(p.x for p in piece), fmean(p.y for p in piece), piece[0].row)
        for piece in pieces
    )


def evenly(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """Return at most `limit` evenly spaced items, including the first and the last item."""
    if len(items) <= limit:
        return items
    return [items[round(index * (len(items) - 1) / (limit - 1))] for index in range(limit)]


def band(paths: Sequence[Points], row: Columns) -> Points:
    """Return the curve of the median, minimum, and maximum over the runs of a result.

    The curve ends where fewer than half of the runs have values.
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
    """Return at most _MAX_LABELS distinct labels.

    The most important labels come first. Further labels are replaced by their number.
    """
    short = {BUSY if label_of_text(text).kind is LabelKind.BUSY else text for text in labels}
    ordered = sorted(
        short, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)
    )
    more = (f"and {len(ordered) - _MAX_LABELS} more",) if len(ordered) > _MAX_LABELS else ()
    return (*(clean(name, 60) for name in ordered[:_MAX_LABELS]), *more)


# Names and styles


@dataclass(frozen=True)
class Look:
    """Styles for a result and for its scaling curve, equal in all figures of a page."""

    of_curve: Style
    """Style of the curve, with a label such as `pytorch, lr 0.01`."""
    of_result: Style
    """Style of the result, with a label such as `pytorch, lr 0.01, 2 dev`."""


Looks = Mapping[str, Look]
"""Maps the key of each result to the result's styles."""


def framework_slots(names: Iterable[str]) -> dict[str, int]:
    """Return the color slot of each framework for all figures of a page.

    Frameworks without a registered color get the free slots in alphabetical order. If there are too
    few slots, the remaining frameworks are drawn in gray.
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
    """Return groups of results that may be drawn over the same axes.

    The results of a group have the same workload, profile, and device type. Groups of reference
    runs come first.
    """
    kinds = grouped(results, lambda result: (order_of(result), result.workload))
    return [members for _, members in sorted(kinds.items(), key=lambda item: item[0])]


def looks(results: Iterable[Result], published: Sequence[Result] = ()) -> dict[str, Look]:
    """Return the styles of each result.

    Labels omit settings that are equal for all results of the page.

    Args:
        results: Results of this suite, or published results if there are no results of this suite.
        published: Published results that are drawn in gray for comparison.
    """
    listed = [*results, *published]
    found: dict[str, Look] = {}
    gray = {result.key for result in published}
    sources = _Sources(listed)
    counters: defaultdict[tuple[int, str], defaultdict[str, int]] = defaultdict(
        lambda: defaultdict(count().__next__)
    )  # number of styles that are already used in each color slot
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
    """Names of the sources of results.

    The source of a suite result is its framework. The source of a published result is its submitter
    and system. Name components that are equal for all results are omitted.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        ours = [result for result in results if result.profile]
        self._has_several_frameworks = len({result.framework for result in ours}) > 1
        self._has_several_sizes = len({place(result) for result in ours}) > 1
        self._has_several_rounds = (
            len({result.round for result in results if not result.profile}) > 1
        )

    def name(self, result: Result) -> str:
        """Return the source name of a result.

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
        """Format the number of devices of a result.

        The text is empty if all results of this suite have the same number of devices.
        """
        if not result.devices or not self._has_several_sizes:
            return ""
        return short(devices_text(result.devices, result.nodes))


def _labels(curves: Sequence[Sequence[Result]], whose: Sequence[str]) -> list[list[str]]:
    """Return for each curve the label of the curve, followed by the labels of its results.

    Labels of suite results always include precision, batch size, and clock if these settings differ
    anywhere in the figure.

    Args:
        curves: Curves of one figure.
        whose: Name of each curve. Settings are added to distinguish curves with the same name.
    """
    results = [result for curve in curves for result in curve]
    grows = any(len({result.global_batch_size for result in curve}) > 1 for curve in curves)
    shown = ("devices", "nodes", *(("global_batch_size",) if grows else ()))
    of_curves = distinct_labels([curve[0] for curve in curves], whose, shown)
    forced = settings_difference(results if results[0].profile else ()).only(NEVER_COMPARED_WITHOUT)
    if len({(result.devices, result.global_batch_size) for result in results}) == len(
        {result.devices for result in results}
    ):
        # The global batch size follows from the number of devices.
        forced = forced.without(("global_batch_size",))
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

    The label consists of the differing settings, followed by the settings that are always included.
    Repeated settings are omitted.
    """
    named = [f"{label(name)} {text}" for name, text in values.items()]
    kept = [text for text in settings.split(", ") if text and text not in named]
    return ", ".join((*kept, *named))


def short(text: str) -> str:
    """Abbreviate settings for a legend, as in `lr 0.01, bs 2,048, fp16, 2 dev`."""
    for pattern, form in _SHORT:
        text = re.sub(pattern, form, text)
    return text
