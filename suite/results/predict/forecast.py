"""Predicted time, throughput and cost of a workload on device counts that were not measured.

Two ways, never mixed: the law fitted to published rows (suite.results.predict.law) carries on from the measured times per
epoch, with an interval that was calibrated on rows it had not seen; or, given a system, the parts of a step
(suite.results.predict.step) from measured rates on one device, with a range from hiding nothing to hiding everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from suite.results.predict.comparable import comparable, over_batches
from suite.results.predict.epochs import UNKNOWN, Epochs, epochs_at
from suite.results.predict.law import LEVEL, Fit
from suite.results.predict.links import MeasuredLink, link_of, with_link
from suite.results.predict.observations import (
    WORKLOADS,
    Observation,
    observation,
    outside_of_the_law,
    published_families,
)
from suite.results.predict.points import Forecast, Point, Range, Wanted
from suite.results.predict.step import DEFAULT_OVERLAP, StepCost, fit_overlap, fit_step, step_time
from suite.results.predict.systems import System
from suite.results.predict.validate import of_workload
from suite.results.score.condition import merged_labels
from suite.results.score.family_labels import family_settings
from suite.results.score.measurement import Measurement
from workloads.api import GradientTraffic

_INTERVAL = (
    f"{LEVEL:.0%} interval of the time per epoch, calibrated on published rows held out; "
    "epochs vary from run to run besides"
)
_DOUBTFUL = 0.25
"""Misfit of measured steps (log of a factor) above which a note says so; our threshold."""
_FLOAT32 = 4.0
_PARAMETERS: Mapping[str, tuple[int, int]] = {
    "resnet50": (25_557_032, 161),
    "ssd": (19_972_534, 131),
    "maskrcnn": (44_125_173, 84),
    "gnmt": (160_671_297, 44),
    "transformer": (210_804_736, 155),
    "ncf": (31_832_577, 12),
}
"""Trained parameters and tensors of the reference models, as the suite builds them (a test counts); gradients are float32."""


def forecasts(items: Sequence[Measurement], wanted: Wanted) -> list[Forecast]:
    """A forecast for each group of comparable measurements that one can be made for.

    Raises ValueError, the first reason, if there is none.
    """
    made, reasons, groups = [], [], comparable(items)
    named = [[replace(item, series=_series(group), family=over_batches(item)) for item in group] for group in groups]
    for group, settings in zip(groups, family_settings(named), strict=True):
        try:
            made.append(replace(forecast(group, wanted), settings=settings))
        except ValueError as error:
            reasons.append(str(error))
    if not made:
        more = f" (and {len(reasons) - 1} more groups of runs)" if len(reasons) > 1 else ""
        raise ValueError(reasons[0] + more)
    if reasons:
        count = f"{len(reasons)} more group{'s' if len(reasons) > 1 else ''} of runs"
        made[-1] = replace(made[-1], notes=(*made[-1].notes, f"No prediction for {count}: {'; '.join(reasons[:3])}"))
    return made


def forecast(items: Sequence[Measurement], wanted: Wanted) -> Forecast:
    """Predict `wanted` from `items`, one group of `comparable`.

    Raises ValueError if the law knows nothing of the workload, or if the parts of a step cannot be told from the items.
    """
    items = sorted(items, key=lambda item: item.devices)
    link, reason = link_of(items[0], wanted.links), why_not_by_law(items)
    if wanted.system is not None:
        return _by_step(items, wanted, wanted.system, link)
    if link is not None and (reason or _tells_parts(items)):
        return _by_step(items, wanted, None, link)
    if reason:
        raise ValueError(reason)
    return _by_law(items, wanted)


def _tells_parts(items: Sequence[Measurement]) -> bool:
    """Whether t0 and c can be told: two batches on one device."""
    return len({batch for devices, batch, _ in _steps(items) if devices == 1}) > 1


def why_not_by_law(items: Sequence[Measurement]) -> str:
    """Why the law of published rows says nothing about these measurements; empty if it does."""
    first = items[0]
    if first.workload not in WORKLOADS:
        return f"{first.workload}: no published rows on several device counts to learn from; give --system NAME or FILE"
    if first.profile not in ("reference", "published") or "cpu" in first.labels:
        what = "cpu" if "cpu" in first.labels else first.profile
        return (
            f"{first.workload} ({what}): the published rows are of reference runs on GPUs; give --system NAME or FILE"
        )
    outside = outside_of_the_law(first)
    if outside:
        return (
            f"{first.workload}, {first.series}: {outside}, and the law is of published rows of the closed division on NVIDIA's "
            "GPUs; give --system NAME or FILE"
        )
    if not _observed(items):
        reached = any(item.to_target for item in items)
        why = (
            "time per epoch or batch not known, or less than a sample a device"
            if reached
            else "no run reached its target"
        )
        return f"{first.workload}: {why}, so there is no time per epoch to carry on from; give --system NAME or FILE"
    return ""


def _measured_points(items: Sequence[Measurement]) -> list[Point]:
    """The fastest measurement of each device count and batch."""
    fastest: dict[tuple[int, int], Measurement] = {}
    for item in sorted(items, key=_slowness):
        fastest.setdefault((item.devices, item.batch_size_global or 0), item)
    return [_measured_point(fastest[place]) for place in sorted(fastest)]


def _slowness(item: Measurement) -> tuple[float, float]:
    """Smallest for the shortest time per epoch; of those without one for the highest rate."""
    return item.score.seconds_per_epoch or math.inf, -(item.score.samples_per_second or 0.0)


def _measured_point(item: Measurement) -> Point:
    per_epoch, rate = item.score.seconds_per_epoch, item.score.samples_per_second
    return Point(
        devices=item.devices,
        batch_size_global=float(item.batch_size_global or 0),
        measured=True,
        seconds_per_epoch=Range.exactly(per_epoch) if per_epoch else None,
        samples_per_second=Range.exactly(rate) if rate else None,
        epochs=Epochs(item.score.epochs, "measured") if item.score.epochs else UNKNOWN,
        binds="",
    )


def _forecast(
    items: Sequence[Measurement],
    wanted: Wanted,
    predicted: Sequence[Point],
    method: str,
    bounds: str,
    notes: Sequence[str],
) -> Forecast:
    points = sorted([*_measured_points(items), *predicted], key=lambda point: (point.devices, not point.measured))
    unknown = [point.devices for point in predicted if point.epochs.value is None]
    if unknown:
        counts = ", ".join(map(str, unknown))
        notes = [
            *notes,
            f"epochs to target at the batch on {counts} devices are not known, so neither is the time to target",
        ]
    if not all(point.measured or point.epochs.source != "RCP" for point in points):
        notes = [*notes, "RCP: mean epochs of the rules' reference runs (round v1.1) at this batch or between two"]
    return Forecast(
        workload=items[0].workload,
        series=_series(items),
        profile=items[0].profile,
        labels=merged_labels(label for item in items for label in item.labels),
        unit=items[0].batch_unit,
        method=method,
        bounds=bounds,
        points=tuple(points),
        notes=tuple(dict.fromkeys(notes)),
        price=None if wanted.prices is None else wanted.prices.price(items[0]),
    )


def _series(items: Sequence[Measurement]) -> str:
    """Whose results they are: the system, or, of several systems, the submitter and the accelerator."""
    first = items[0]
    if len({item.series for item in items}) == 1:
        return first.series
    return ", ".join(filter(None, (first.submitter, f"several systems with {first.hardware}")))


def _by_law(items: Sequence[Measurement], wanted: Wanted) -> Forecast:
    seen = _observed(items)
    known = [row for _, row in seen]
    widest, widest_row = seen[-1]
    scale = widest_row.batch_per_device * widest_row.devices / (widest.batch_size_global or 1)  # tokens to sentences
    families = of_workload(published_families().families, items[0].workload)
    fit = Fit(families)
    b_half, exponent = fit.constants
    own = next(
        (family for family in families if {_identity(row) for row in family} & {_identity(row) for row in known}), ()
    )
    predicted = []
    for devices, batch in wanted.batches([item for item, _ in seen]):
        target = Observation(items[0].workload, devices, batch * scale / devices, 1.0)
        seconds = Range(*fit.predict(known, target, without=own).seconds_per_epoch(devices))
        rate = _rate_from_epochs(seen, seconds)
        parts = {
            "samples": 1.0,
            "fixed cost": b_half / target.batch_per_device,
            "waiting for others": devices**exponent - 1.0,
        }
        binds = max(parts, key=lambda name: parts[name])
        predicted.append(Point(devices, batch, False, seconds, rate, epochs_at(batch, items), binds))
    smallest = min(row.batch_per_device for row in known)
    below = [point for point in predicted if point.batch_size_global * scale / point.devices < smallest / 8]
    notes = [f"on {point.devices} devices each has less than an eighth of any measured batch" for point in below]
    method = "law of published rows: devices × time per epoch = c · (1 + b_half / b) · n^p"
    return _forecast(items, wanted, predicted, method, _INTERVAL, notes)


def _observed(items: Sequence[Measurement]) -> list[tuple[Measurement, Observation]]:
    """What the law can carry on from; where a device has less than a sample (Mask R-CNN on 48 nodes) a part does not train."""
    pairs = [(item, observation(item)) for item in items if (item.batch_size_global or 0) >= item.devices]
    return [(item, row) for item, row in pairs if row is not None]


def _identity(row: Observation) -> tuple[int, float]:
    """Equal in a published row and the same row asked for by name, which must not count twice."""
    return row.devices, row.seconds_per_epoch


def _rate_from_epochs(seen: Sequence[tuple[Measurement, Observation]], seconds: Range) -> Range | None:
    """Samples/s where a measured rate and a time per epoch give an epoch's samples; evaluation is assumed to keep its share."""
    for item, row in reversed(seen):
        if item.score.samples_per_second:
            return seconds.inverse(item.score.samples_per_second * row.seconds_per_epoch)
    return None


def _by_step(
    items: Sequence[Measurement], wanted: Wanted, described: System | None, link: MeasuredLink | None
) -> Forecast:
    """On a described system, a measured link, or the one with the other in it."""
    system = described if link is None else with_link(described, link)
    assert system is not None
    first, steps = items[0], _steps(items)
    try:
        cost = fit_step([(batch, seconds) for devices, batch, seconds in steps if devices == 1])
    except ValueError as error:
        raise ValueError(f"{first.workload}, {first.series}: {error}") from None
    gradients = wanted.gradients or gradients_of(items)
    several = [step for step in steps if step[0] > 1]
    together = link is not None and link.on_cpu
    overlap, most = (0.0, 0.0) if together else (DEFAULT_OVERLAP, 1.0)
    if several and not together:
        overlap = fit_overlap(cost, gradients, system, several)
    misfit = max(
        abs(math.log(step_time(cost, batch, devices, gradients, system, overlap).seconds / seconds))
        for devices, batch, seconds in steps
    )
    predicted, each = [], first.samples_per_batch_unit or 1.0
    for devices, batch in wanted.batches(items):
        low, middle, high = (
            step_time(cost, batch / devices, devices, gradients, system, share) for share in (most, overlap, 0.0)
        )
        step = Range(middle.seconds, low.seconds / math.exp(misfit), high.seconds * math.exp(misfit))
        per_epoch = _epoch_from_rate(items, step, batch * each)
        predicted.append(
            Point(devices, batch, False, per_epoch, step.inverse(batch * each), epochs_at(batch, items), middle.binds)
        )
    origin = "from measured steps on several devices" if several else "assumed"
    method = f"parts of a step on {system.name} ({system.title}): {_cost_text(cost, first)}, {traffic_text(gradients)}"
    hidden = (
        "gradients beside none of the backward pass, since the cores that compute also carry them"
        if together
        else f"range from gradients beside all of the backward pass to beside none of it (middle: {overlap:g}, {origin})"
    )
    bounds = f"{hidden}, and the factor of {math.exp(misfit):.3g} by which these parts miss a measured step"
    notes = [*cost.notes, "evaluation is assumed to speed up as training does"]
    if link is not None:
        notes += _link_notes(link, [point.devices for point in predicted])
    if misfit > _DOUBTFUL:
        notes.append(
            "these parts are far from measured steps: another system than the one described, a busy machine, or costs "
            "that they do not have"
        )
    return _forecast(items, wanted, predicted, method, bounds, notes)


def _link_notes(link: MeasuredLink, predicted: Sequence[int]) -> list[str]:
    """What a reader must know of a measured link."""
    fit, notes = link.fit, []
    if fit.largest_deviation > _DOUBTFUL:
        notes.append(f"of the all-reduces measured one is {fit.largest_deviation:.0%} off their line")
    beyond = [devices for devices in predicted if devices > max(link.devices)]
    if beyond:
        notes.append(
            f"all-reduces were measured on up to {max(link.devices)} devices; for more the same link is assumed between any two"
        )
    return notes


def _steps(items: Sequence[Measurement]) -> list[tuple[int, float, float]]:
    """(devices, samples a device, seconds of a step) of each measured rate, evaluation not counted."""
    return [
        (item.devices, item.batch_size_global / item.devices, _samples(item) / item.score.samples_per_second)
        for item in items
        if item.batch_size_global and item.score.samples_per_second
    ]


def _samples(item: Measurement) -> float:
    """Of a step, as the rate counts them: where no log tells the two apart it counts what the batch does, tokens too."""
    return (item.batch_size_global or 0) * (item.samples_per_batch_unit or 1.0)


def _cost_text(cost: StepCost, item: Measurement) -> str:
    unit = "token" if item.batch_unit.startswith("token") else "sample"
    return f"t0 {cost.fixed_seconds * 1e3:.3g} ms, c {cost.seconds_per_sample * 1e3:.3g} ms a {unit}"


def _epoch_from_rate(items: Sequence[Measurement], step: Range, samples: float) -> Range | None:
    """Time per epoch where a measured one and its rate give the samples of an epoch."""
    for item in reversed(items):
        per_epoch, rate = item.score.seconds_per_epoch, item.score.samples_per_second
        if per_epoch and rate:
            return step.times(per_epoch * rate / samples)
    return None


def gradients_of(items: Sequence[Measurement]) -> GradientTraffic:
    """What a step's all-reduce moves: as logged, else of the reference model, which no demo has.

    Raises ValueError where neither is known.
    """
    logged = next((item.gradients for item in items if item.gradients is not None), None)
    if logged is not None:
        return logged
    workload = items[0].workload
    if workload not in _PARAMETERS or items[0].profile == "demo":
        raise ValueError(f"{workload}: size of its gradients is not known; give --gradient-mb")
    parameters, tensors = _PARAMETERS[workload]
    return GradientTraffic(parameters * _FLOAT32, tensors)


def traffic_text(gradients: GradientTraffic) -> str:
    """`102.2 MB of gradients in 161 tensors, 5 buckets`."""
    parts = [f"{gradients.tensors} tensors"] if gradients.tensors else []
    parts += [f"{gradients.buckets} buckets"] if gradients.buckets > 1 else []
    return f"{gradients.size_bytes / 1e6:,.1f} MB of gradients" + (f" in {', '.join(parts)}" if parts else "")
