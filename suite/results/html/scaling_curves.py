"""The charts of time to target against devices, with total speedup in the inset, from measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.html.charts import AnyChart, Chart, ScalingChart, Series, finite_points, slots_and_styles
from suite.results.html.curves import SHORT_SECONDS, file_name
from suite.results.html.export import write_files
from suite.results.html.figures import draw, matplotlib_settings
from suite.results.html.labels import shown_labels
from suite.results.html.theme import OTHER_SLOT, framework_slots
from suite.results.names import WORKLOAD_TITLES
from suite.results.predict.points import Forecast, Point, Range
from suite.results.score.measurement import Measurement, by_family
from suite.results.text import clean

_PROFILES = {"reference": 0, "demo": 1, "synthetic": 2}
MAX_TOGETHER = 6
"""Curves of all workloads in one figure: more would tangle."""
_MAX_FAMILIES = 12
"""Curves of ours, and as many published ones, of one figure."""
_DISTINGUISHING_FIELDS = ("workload", "framework", "system", "hardware", "batch_rule", "precision", "clock", "rules")


def scaling_charts(
    ours: Sequence[Measurement], published: Sequence[Measurement] = (), slots: Mapping[str, int] | None = None
) -> list[ScalingChart]:
    """One chart for each profile (they never mix) that has measurements on several numbers of devices.

    `published` measurements of the same workloads are drawn too; with them one number of devices is enough. More than
    MAX_TOGETHER curves are spread over one chart for each workload. `slots`: the colour of each framework on the page.
    """
    if slots is None:
        slots = framework_slots(item.framework for item in ours)
    charts = []
    for profile in sorted({item.profile for item in ours}, key=lambda name: (_PROFILES.get(name, 3), name)):
        timed = [item for item in ours if item.profile == profile and item.to_target and item.devices > 0]
        workloads = sorted({item.workload for item in timed})
        beside = [item for item in published if item.to_target and item.devices > 0 and item.workload in workloads]
        together = len(by_family(timed)) + len(by_family(beside)) <= MAX_TOGETHER
        for members in [workloads] if together else [[name] for name in workloads]:
            families = by_family([item for item in timed if item.workload in members])
            theirs = by_family([item for item in beside if item.workload in members])
            if any(len({item.devices for item in family}) > 1 for family in families) or (families and theirs):
                charts.append(_chart(profile, families, theirs, slots))
    return charts


def _chart(
    profile: str,
    families: Sequence[Sequence[Measurement]],
    beside: Sequence[Sequence[Measurement]],
    slots: Mapping[str, int],
) -> ScalingChart:
    drawn = [_fastest_per_device_count(family) for family in families[:_MAX_FAMILIES]]
    theirs = [_fastest_per_device_count(family) for family in _nearest(beside, drawn)[:_MAX_FAMILIES]]
    names = _curve_labels([family[0] for family in drawn])
    several = len({family[0].workload for family in (*drawn, *theirs)}) > 1
    their_names = _published_names([family[0] for family in theirs], several)
    left_out = len(families) + len(beside) - len(drawn) - len(theirs)
    unit, scale = _time_unit([item for family in (*drawn, *theirs) for item in family])
    placed = slots_and_styles([family[0].framework for family in drawn], slots)
    curves = [
        _Curve(family, name, slot, style, False)
        for family, name, (slot, style) in zip(drawn, names, placed, strict=True)
    ]
    curves += [
        _Curve(family, name, OTHER_SLOT, style, True)
        for style, (family, name) in enumerate(zip(theirs, their_names, strict=True))
    ]
    labels = dict.fromkeys(label for family in families for item in family for label in item.labels)
    workloads = list(dict.fromkeys(family[0].workload for family in drawn))
    what = clean(workloads[0], 40) if len(workloads) == 1 else "all workloads"
    return ScalingChart(
        name=file_name("00", profile, "time to target over devices", *(workloads if len(workloads) == 1 else [])),
        title=f"Time to target, {what}",
        labels=shown_labels(labels),
        times=tuple(times for curve in curves if (times := _times(curve, scale)).paths[0]),
        speedups=tuple(_speedups(one) for one in curves if len({item.devices for item in one.family}) > 1),
        note=f"{left_out:,} more published curves are not drawn; the table has them" if left_out > 0 else "",
        unit=unit,
    )


@dataclass(frozen=True)
class _Curve:
    """The measurements of a curve, in order of devices, and how it is drawn."""

    family: Sequence[Measurement]
    name: str
    slot: int
    style: int
    published: bool


def _nearest(
    beside: Sequence[Sequence[Measurement]], drawn: Sequence[Sequence[Measurement]]
) -> list[Sequence[Measurement]]:
    """The published curves, those on numbers of devices like ours first: where not all can be drawn, these say most."""
    ours = [item.devices for family in drawn for item in family] or [1]

    def distance(family: Sequence[Measurement]) -> float:
        return min(abs(math.log(item.devices / count)) for item in family for count in ours)

    return sorted(beside, key=distance)


def _time_unit(items: Sequence[Measurement]) -> tuple[str, float]:
    longest = max((item.score.seconds_maximum or item.score.seconds or 0.0 for item in items), default=0.0)
    return ("seconds", 1.0) if longest < SHORT_SECONDS else ("minutes", 60.0)


def _fastest_per_device_count(family: Sequence[Measurement]) -> list[Measurement]:
    """The fastest on each number of devices, where several settings were tried."""
    fastest: dict[int, Measurement] = {}
    for item in family:
        held = fastest.get(item.devices)
        if held is None or (item.score.seconds or 0.0) < (held.score.seconds or 0.0):
            fastest[item.devices] = item
    return [fastest[devices] for devices in sorted(fastest)]


def _curve_labels(firsts: Sequence[Measurement]) -> list[str]:
    """A label for each curve, made of the fields in which it differs from the others."""
    names = [name for name in _DISTINGUISHING_FIELDS[:2] if len({getattr(item, name) for item in firsts}) > 1]
    texts = [_label(item, names) for item in firsts]
    for name in _DISTINGUISHING_FIELDS[2:]:
        if len(set(texts)) < len(texts) and len({getattr(item, name) for item in firsts}) > 1:
            names.append(name)
            texts = [_label(item, names) for item in firsts]
    return [
        text if texts.count(text) == 1 else f"{text} ({index})".strip() for index, text in enumerate(texts, start=1)
    ]


def _label(item: Measurement, names: Sequence[str]) -> str:
    shown = [_value_text(item, name) for name in names] or [item.framework or item.workload]
    return clean(", ".join(text for text in shown if text), 300)


def _value_text(item: Measurement, name: str) -> str:
    value = str(getattr(item, name))
    return f"batch {value}" if name == "batch_rule" and value else value


def _published_names(items: Sequence[Measurement], several: bool) -> list[str]:
    """A different name for each published curve, with what else differs where submitter and system are the same."""
    named = ("origin", "submitter", "system") if len({item.origin for item in items}) > 1 else ("submitter", "system")
    texts = []
    for item in items:
        article = "article" in item.labels
        who = "DGX-1 article" if article else " ".join(str(getattr(item, name)) for name in named)
        texts.append(clean(f"{item.workload}, {who}" if several else who, 200))
    for name in ("framework", "hardware"):
        repeated = {text for text in texts if texts.count(text) > 1}
        texts = [
            clean(f"{text}, {getattr(item, name)}", 200) if text in repeated else text
            for text, item in zip(texts, items, strict=True)
        ]
    return texts


def _times(curve: _Curve, scale: float) -> Series:
    points = finite_points((float(item.devices), (item.score.seconds or 0.0) / scale) for item in curve.family)
    ranges = tuple(
        (float(item.devices), item.score.seconds_minimum / scale, item.score.seconds_maximum / scale)
        for item in curve.family
        if item.score.seconds_minimum and item.score.seconds_maximum and item.score.runs_successful > 1
    )
    path = tuple(point for point in points if point[1] > 0)
    return Series(curve.name, curve.slot, (path,), curve.published, ranges, curve.style)


def _speedups(curve: _Curve) -> Series:
    """Total speedup against the ratio of devices, both relative to the fewest devices."""
    base = curve.family[0]
    ratios = (
        (item.devices / base.devices, (base.score.seconds or 0.0) / item.score.seconds if item.score.seconds else None)
        for item in curve.family
    )
    return Series(curve.name, curve.slot, (finite_points(ratios),), curve.published, style=curve.style)


def write_scaling_figures(items: Sequence[Measurement], folder: Path) -> None:
    """The charts of the measurements as SVG and PNG in a new folder. Raises ValueError for one that is not empty."""
    _write(scaling_charts(items), folder)


def write_forecast_figures(forecasts: Sequence[Forecast], folder: Path) -> None:
    """The charts of predictions as SVG and PNG in a new folder. Raises ValueError for one that is not empty."""
    _write(forecast_charts(forecasts), folder)


def _write(charts: Sequence[AnyChart], folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"--figures {folder} exists already and is not an empty folder; give a new one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib_settings():
            for chart in charts:
                write_files(draw(chart), folder, chart.name)
    except OSError as error:
        raise ValueError(f"--figures {folder} cannot be written ({error.strerror}); give another place") from error


# --- predictions --------------------------------------------------------------------------------------------------------


def forecast_charts(forecasts: Sequence[Forecast], first: int = 1) -> list[Chart]:
    """Of each forecast its time over devices with bounds, and what each device does over one of the fewest measured.

    `first`: the number of the first one, which makes names of files unique.
    """
    return [chart for number, one in enumerate(forecasts, start=first) for chart in _forecast_charts(one, number)]


def _forecast_charts(forecast: Forecast, number: int) -> list[Chart]:
    points = [(point, value) for point in forecast.points if (value := _shown(forecast, point)) is not None]
    if not points:
        return []
    title = f"{WORKLOAD_TITLES.get(forecast.workload, clean(forecast.workload, 40))}, predicted"
    labels = ("prediction", *shown_labels([forecast.profile, *forecast.labels]))
    binds = "; ".join(f"{point.devices}: {point.binds}" for point in forecast.points if point.binds)
    whose = ", ".join(filter(None, (clean(forecast.series, 60), forecast.settings)))
    note = f"{whose}, by the {clean(forecast.method, 200)}. Bounds: {clean(forecast.bounds, 300)}."
    note += f" What a step waits for most: {clean(binds, 200)}." if binds else ""
    efficiency = [(point, share) for point, _ in points if (share := forecast.efficiency(point)) is not None]
    charts = []
    for what, found in ((_quantity(forecast), points), ("work of a device over the fewest", _exact(efficiency))):
        series = [
            _points_series(name, [one for one in found if one[0].measured is measured]) for name, measured in _KINDS
        ]
        name = file_name(f"forecast-{number:02d}", forecast.workload, what)
        kept = tuple(one for one in series if one.paths)
        charts.append(Chart(name, title, labels, "devices", what, kept, note=note, powers=True))
    return charts


_KINDS = (("measured", True), ("prediction", False))


def _quantity(forecast: Forecast) -> str:
    return "seconds per epoch" if _with_epochs(forecast) else "samples per second"


def _with_epochs(forecast: Forecast) -> bool:
    return all(point.seconds_per_epoch is not None for point in forecast.points)


def _shown(forecast: Forecast, point: Point) -> Range | None:
    return point.seconds_per_epoch if _with_epochs(forecast) else point.samples_per_second


def _exact(found: Sequence[tuple[Point, float]]) -> list[tuple[Point, Range]]:
    return [(point, Range.exactly(value)) for point, value in found]


def _points_series(name: str, found: Sequence[tuple[Point, Range]]) -> Series:
    """Measured points in grey and hollow, as published ones are; predicted ones with their bounds."""
    path = finite_points((float(point.devices), value.middle) for point, value in found)
    ranges = tuple((float(point.devices), value.low, value.high) for point, value in found if value.low < value.high)
    return Series(name, OTHER_SLOT if name == "measured" else 0, (path,) if path else (), name == "measured", ranges)
