"""`suite scaling`: time, rate and cost of a workload on device counts that were not measured, beside those that were.

Two ways, never mixed: the law fitted to published rows (suite.results.predict.law) carries on from the measured times per
epoch; or, given a system or a measured link, the parts of a step (suite.results.predict.step) from rates on one device.

Within a forecast one constant, the samples of an epoch, ties rates to times: samples_per_second × seconds_per_epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from suite.results.columns import rows
from suite.results.identity import Row
from suite.results.predict.epochs import RCP, epochs_at
from suite.results.predict.law import LEVEL, Fit
from suite.results.predict.observations import (
    CONSTANTS_UP_TO,
    WORKLOADS,
    Observation,
    family_key,
    observation,
    of_workload,
    outside_of_the_law,
    published_families,
    samples_per_batch_unit,
)
from suite.results.predict.step import gradients_of, parts_of_step, traffic_text
from suite.results.predict.systems import MeasuredLink, System, link_of, with_link
from suite.results.predict.validate import PROTOCOLS, Validation, errors, under
from suite.results.price import Prices, cost_of
from suite.results.scores import merged_labels, titles
from suite.results.text import clean, devices_text, figure_text, time_text
from suite.results.views.section import NOT_VERIFIED, Section, View, frame_of, without_empty
from workloads.api import GradientTraffic

if TYPE_CHECKING:
    import pandas as pd

MEASURED, PREDICTION = "measured", "prediction"
"""`kind` of a row."""
METHOD = "law of published rows: devices × time per epoch = c · (1 + b_half / b) · n^p"
_SHOWN = (
    *("devices", "kind", "batch_size_global", "seconds_per_epoch", "seconds_per_epoch_low", "seconds_per_epoch_high"),
    *("samples_per_second", "training_samples_per_second", "epochs", "epochs_source", "seconds", "device_hours"),
    *("cost", "scaling_efficiency", "binds"),
)
"""Columns of a terminal's table; rates and times to target have the bounds of the time per epoch, which stand there alone."""
_DOUBTFUL = 0.25
"""Misfit of measured steps (log of a factor) above which a note says so; our threshold."""
Range = tuple[float, float, float]
"""A predicted figure, its lower and its upper bound."""


@dataclass(frozen=True)
class Wanted:
    """What to predict."""

    devices: tuple[int, ...]
    batch_per_device: float | None = None
    """In the unit of the result; None: that of the result on the nearest number of devices."""
    batch_global: float | None = None
    system: System | None = None  # none: by the law of published rows, or on a measured link
    gradients: GradientTraffic | None = None  # none: as logged, or of the workload's reference model
    prices: Prices | None = None
    links: tuple[MeasuredLink, ...] = ()

    def batches(self, results: Sequence[Row]) -> list[tuple[int, float]]:
        """(devices, global batch) of each count but those in `results`. Raises ValueError below a sample a device."""
        known, chosen = {(row.devices, float(row.batch_size_global)) for row in results}, []
        for devices in self.devices:
            nearest = min(results, key=lambda row: (abs(math.log(row.devices / devices)), -row.batch_size_global))
            each = self.batch_per_device or nearest.batch_size_global / nearest.devices
            batch = float(self.batch_global or each * devices)
            if batch < devices:
                raise ValueError(f"a batch of {batch:g} is less than a sample for each of {devices} devices; give more")
            chosen += [(devices, batch)] if (devices, batch) not in known else []
        return chosen


@dataclass(frozen=True)
class Forecast:
    """Measured and predicted rows of results that differ in devices and batch alone."""

    title: str
    how: str  # how it was made, and what its bounds are
    table: pd.DataFrame  # A row for each device count and batch, in order; measured ones have no bounds
    notes: tuple[str, ...]
    results: tuple[Row, ...]


def view(made: Sequence[Forecast]) -> View:
    """Forecasts as a document."""
    intro = "Rows called prediction were not measured by anybody; how well such rows held: suite scaling --validate."
    sections, data = [], list[dict[str, Any]]()
    for one in made:
        table, first = without_empty(one.table[list(_SHOWN)], _SHOWN[:3]), one.results[0]
        sections.append(Section(one.title, (one.how,), table, below=(*_answers(one.table), *one.notes), keys=2))
        about = {"forecast": one.title, "workload": first.workload, "profile": first.profile}
        about |= {"labels": merged_labels(one.results), "how": one.how}
        about |= {"batch_unit": first.batch_unit or "samples", "sample_unit": first.sample_unit or "samples"}
        data += [about | vars(row) for row in rows(one.table)]
    return View("Predicted scaling", tuple(sections), frame_of(data), (NOT_VERIFIED, intro))


def _answers(table: pd.DataFrame) -> Iterator[str]:
    """On how many of the listed devices the time to target is shortest, and on how many it costs least."""
    timed = [row for row in rows(table) if row.seconds]
    if not timed:
        return
    among = "" if len(timed) == len(table) else ", of the counts with a known time"
    fastest = min(timed, key=lambda row: (row.seconds, row.devices))
    cheapest = min(timed, key=lambda row: (row.device_hours, row.devices))
    kinds = {MEASURED: "", PREDICTION: f" ({PREDICTION})"}
    time = _range_text(fastest.seconds, fastest.seconds_low, fastest.seconds_high)
    yield f"Shortest time to target{among}: {devices_text(fastest.devices)}, {time}{kinds[fastest.kind]}."
    price = "" if cheapest.cost is None else f", cost {figure_text(cheapest.cost)}"
    hours = f"{figure_text(cheapest.device_hours)} a job{price}{kinds[cheapest.kind]}"
    yield f"Fewest device-hours{among}: {devices_text(cheapest.devices)}, {hours}."


def _range_text(value: float, low: float | None, high: float | None) -> str:
    """`3.2 s (2.8 s to 3.7 s)`; without bounds if it was measured."""
    return time_text(value) + (f" ({time_text(low)} to {time_text(high)})" if low and high else "")


def forecasts(results: Sequence[Row], wanted: Wanted) -> list[Forecast]:
    """A forecast for each family of results that one can be made for. Raises ValueError, the first reason, if there is none."""
    if wanted.prices is not None:
        wanted.prices.refuse_unknown_names(results)
    groups = comparable(results)
    made, reasons = list[Forecast](), list[str]()
    for group, title in zip(groups, titles(groups, "gpus", "batch"), strict=True):
        try:
            made.append(forecast(group, wanted, title))
        except ValueError as error:
            reasons.append(f"{title}: {error}")
    if not made:
        more = f" (and {len(reasons) - 1} more families of runs)" if len(reasons) > 1 else ""
        raise ValueError(reasons[0] + more)
    if reasons:
        which = f"No prediction for {len(reasons)} more: {'; '.join(reasons[:3])}."
        made[-1] = replace(made[-1], notes=(*made[-1].notes, which))
    return made


def comparable(results: Sequence[Row]) -> list[list[Row]]:
    """Results that one prediction may rest on, in order of devices. Raises ValueError if nothing is known of any."""
    known = [row for row in results if row.batch_size_global and (row.seconds_per_epoch or row.samples_per_second)]
    if not known:
        raise ValueError("a prediction needs runs with a known batch and a time per epoch or a rate; there are none")
    groups: dict[object, list[Row]] = {}
    for row in sorted((row for row in known if row.devices), key=lambda row: (row.devices, row.batch_size_global)):
        groups.setdefault(family_key(row), []).append(row)
    if not groups:
        raise ValueError(f"{known[0].workload}, {known[0].run}: the number of devices is not known")
    return list(groups.values())


def forecast(results: Sequence[Row], wanted: Wanted, title: str = "") -> Forecast:
    """Predict `wanted` from `results`, a group of `comparable`.

    Raises ValueError if the law knows nothing of the workload, or if the parts of a step cannot be told from the results.
    """
    results = sorted(results, key=lambda row: (row.devices, row.batch_size_global))
    link, reason = link_of(results[0], wanted.links), why_not_by_law(results)
    known = _Known.of(results)
    one_device = {row.batch_size_global for row in results if row.devices == 1 and row.samples_per_second}
    by_parts = wanted.system is not None or (link is not None and (reason or len(one_device) > 1))
    if reason and not by_parts:
        raise ValueError(reason)
    predicted, how, notes = _by_step(known, wanted, link) if by_parts else _by_law(known, wanted)
    table_rows = sorted([*known.measured(), *predicted], key=lambda row: (row["devices"], row["kind"] == PREDICTION))
    price = None if wanted.prices is None else wanted.prices.price(results[0])
    for row in table_rows:
        row["scaling_efficiency"] = _efficiency(table_rows, row)
        timed = price is not None and row["seconds"] is not None
        row["cost"] = cost_of(price or 0.0, row["devices"], row["seconds"]) if timed else None
    notes = [*known.notes(), *notes, *_epoch_notes(predicted)]
    title = title or titles([results])[0]
    return Forecast(title, how, frame_of(table_rows), tuple(dict.fromkeys(notes)), tuple(results))


@dataclass(frozen=True)
class _Known:
    """The results of a forecast and what ties their rates to their times."""

    results: Sequence[Row]
    samples: float | None  # of an epoch
    rates_alone: bool  # no result has a time per epoch: all times are made of training rates

    @classmethod
    def of(cls, results: Sequence[Row]) -> _Known:
        return cls(results, samples_of_epoch(results), not any(row.seconds_per_epoch for row in results))

    def seconds_per_epoch(self, row: Row) -> float | None:
        """Evaluation included; of results without any such time that of training."""
        if self.rates_alone and self.samples and row.samples_per_second:
            return self.samples / float(row.samples_per_second)
        return row.seconds_per_epoch or None

    def measured(self) -> list[dict[str, Any]]:
        """The fastest result of each device count and batch."""
        fastest: dict[tuple[int, int], Row] = {}
        for row in sorted(self.results, key=lambda row: -(row.samples_per_second or 0)):
            place = row.devices, row.batch_size_global
            fastest[place] = min(fastest.get(place, row), row, key=lambda one: self.seconds_per_epoch(one) or math.inf)
        found = []
        for (devices, batch), row in sorted(fastest.items()):
            per_epoch, rate = _exactly(self.seconds_per_epoch(row)), _exactly(row.samples_per_second)
            epochs = (row.epochs, MEASURED) if row.epochs else (None, "")
            found.append(self.row(devices, float(batch), MEASURED, per_epoch, rate, epochs))
        return found

    def row(
        self, devices: int, batch: float, kind: str, per_epoch: Range | None, training: Range | None,
        epochs: tuple[float | None, str], binds: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """A row of the table; `training` is the rate of training alone, the one column that leaves evaluation out."""
        rate = _over(self.samples, per_epoch) if self.samples and per_epoch else None
        seconds = _times(per_epoch, epochs[0]) if per_epoch and epochs[0] else None
        return {
            "devices": devices,
            "kind": kind,
            "batch_size_global": batch,
            **_columns("seconds_per_epoch", per_epoch, kind),
            **_columns("samples_per_second", rate, kind),
            **_columns("training_samples_per_second", training, kind),
            "epochs": epochs[0],
            "epochs_source": epochs[1],
            **_columns("seconds", seconds, kind),
            "device_hours": devices * seconds[0] / 3600 if seconds else None,
            "binds": binds,
        }

    def notes(self) -> Iterator[str]:
        """What the figures of rates and times are made of."""
        if self.samples is None:
            yield "The samples of an epoch are not known, so there is no rate with evaluation."
        elif self.rates_alone:
            yield "No run has a time per epoch: all times are the samples of an epoch over the rate of training, no evaluation."
        else:
            samples = figure_text(self.samples, 6)
            yield f"samples/s: the {samples} samples of an epoch over its time, with evaluation; training samples/s: without."


def _exactly(value: float | None) -> Range | None:
    return (value, value, value) if value else None


def _over(value: float, by: Range) -> Range:
    return value / by[0], value / by[2], value / by[1]


def _times(values: Range, factor: float) -> Range:
    return values[0] * factor, values[1] * factor, values[2] * factor


def _columns(name: str, value: Range | None, kind: str) -> dict[str, float | None]:
    middle, low, high = value or (None, None, None)
    low, high = (low, high) if kind == PREDICTION else (None, None)
    return {name: middle, f"{name}_low": low, f"{name}_high": high}


def samples_of_epoch(results: Sequence[Row]) -> float | None:
    """Samples that an epoch trains on: of our runs as counted, else as logged; None where neither is known.

    NCF logs its positive pairs, and trains on so many negatives for each beside them.
    """
    counted = [run for row in results for run in row.runs if row.profile and run.samples and run.epochs]
    if counted:
        return math.fsum(run.samples for run in counted) / math.fsum(run.epochs for run in counted)
    for row in results:
        negatives = (row.hyperparameters or {}).get("input_hp_num_neg", 0)
        if row.train_samples and isinstance(negatives, int | float):
            return float(row.train_samples) * (1 + negatives)
    return None


def _efficiency(table_rows: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> float | None:
    """What each device does, over each of the fewest measured; from times per epoch, else from training rates.

    Of several batches on the fewest devices the one nearest to the row's, for each device, is the base.
    """
    measured = [one for one in table_rows if one["kind"] == MEASURED]
    each = row["batch_size_global"] / row["devices"]
    fewest = [one for one in measured if one["devices"] == measured[0]["devices"]]
    base = min(fewest, key=lambda one: abs(math.log(one["batch_size_global"] / one["devices"] / each)))
    share = base["devices"] / row["devices"]
    for name, power in (("seconds_per_epoch", -1), ("training_samples_per_second", 1)):
        if row[name] and base[name]:
            return float((row[name] / base[name]) ** power * share)
    return None


def _epoch_notes(predicted: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    unknown = ", ".join(str(row["devices"]) for row in predicted if row["epochs"] is None)
    if unknown:
        yield f"Epochs to target at the batch on {unknown} devices are not known, so neither is the time to target."
    if any(row["epochs_source"] == RCP for row in predicted):
        yield f"{RCP}: mean epochs of the rules' reference runs (round v1.1) at this batch or between two."


def why_not_by_law(results: Sequence[Row]) -> str:
    """Why the law of published rows says nothing about these results; empty if it does."""
    first, way_out = results[0], "give --system NAME or FILE"
    if first.workload not in WORKLOADS:
        return f"no published rows on several device counts to learn from; {way_out}"
    if first.profile not in ("reference", "") or "cpu" in first.labels:
        return f"the published rows are of reference runs on GPUs; {way_out}"
    outside = outside_of_the_law(first)
    if outside:
        return f"{outside}, and the law is of published rows of the closed division on NVIDIA's GPUs; {way_out}"
    if not _observed(results):
        reached = any(row.to_target for row in results)
        why = "time per epoch or batch not known, or less than a sample a device" if reached else "no run to a target"
        return f"{why}, so there is no time per epoch to carry on from; {way_out}"
    return ""


def _observed(results: Sequence[Row]) -> list[tuple[Row, Observation]]:
    """What the law can carry on from; where a device has less than a sample (Mask R-CNN on 48 nodes) a part does not train."""
    pairs = [(row, observation(row)) for row in results if (row.batch_size_global or 0) >= (row.devices or 0)]
    return [(row, seen) for row, seen in pairs if seen is not None]


def _by_law(known: _Known, wanted: Wanted) -> tuple[list[dict[str, Any]], str, list[str]]:
    pairs = _observed(known.results)
    seen = [one for _, one in pairs]
    widest, widest_seen = pairs[-1]
    scale = widest_seen.batch_per_device * widest_seen.devices / widest.batch_size_global  # tokens to sentences
    families = of_workload(published_families()[0], widest.workload)
    fit = Fit(families)
    b_half, exponent = fit.constants
    times = {(one.devices, one.seconds_per_epoch) for one in seen}  # a published row asked for by name counts once
    own = [family for family in families if times & {(one.devices, one.seconds_per_epoch) for one in family}]
    predicted, notes = [], []
    for devices, batch in wanted.batches([row for row, _ in pairs]):
        target = Observation(widest.workload, devices, batch * scale / devices, 1.0)
        per_epoch = fit.predict(seen, target, own).seconds_per_epoch(devices)
        fixed, waiting = b_half / target.batch_per_device, devices**exponent - 1
        binds = max((1.0, "samples"), (fixed, "fixed cost"), (waiting, "waiting for others"))[1]
        epochs = epochs_at(batch, known.results)
        predicted.append(known.row(devices, batch, PREDICTION, per_epoch, None, epochs, binds))
        if target.batch_per_device < min(one.batch_per_device for one in seen) / 8:
            notes.append(f"On {devices} devices each has less than an eighth of any measured batch.")
    bounds = f"{LEVEL:.0%} interval of the time per epoch, calibrated on published rows held out"
    return predicted, f"By the {METHOD}. Bounds: {bounds}; epochs vary from run to run besides.", notes


def prediction_note(family_rows: Sequence[Row], devices: int) -> str:
    """One sentence on time with so many devices, by the law of published rows; empty where that law says nothing."""
    known = [row for row in family_rows if row.devices and row.batch_size_global]
    if not known or why_not_by_law(known):
        return ""
    table = forecast(known, Wanted((devices,))).table
    row = next((row for row in rows(table) if row.kind == PREDICTION), None)
    if row is None:
        return ""
    time = _range_text(row.seconds_per_epoch, row.seconds_per_epoch_low, row.seconds_per_epoch_high)
    note = f"Predicted, not measured: {devices_text(devices)}, batch {row.batch_size_global:,.10g}: {time} per epoch"
    note += f" ({LEVEL:.0%} interval)"
    if row.seconds is None:
        return f"{note}; epochs to target at this batch are not known (suite scaling)."
    time = _range_text(row.seconds, row.seconds_low, row.seconds_high)
    return f"{note}, {row.epochs:.4g} epochs ({row.epochs_source}), so {time} to the target (suite scaling)."


def _by_step(known: _Known, wanted: Wanted, link: MeasuredLink | None) -> tuple[list[dict[str, Any]], str, list[str]]:
    """On a described system, a measured link, or the one with the other in it."""
    results = known.results
    system = wanted.system if link is None else with_link(wanted.system, link)
    assert system is not None
    first, each = results[0], samples_per_batch_unit(results[0]) or 1.0
    steps = []
    for row in (row for row in results if row.samples_per_second):
        samples = row.batch_size_global * (samples_per_batch_unit(row) or 1.0)
        steps.append((row.devices, row.batch_size_global / row.devices, samples / row.samples_per_second))
    parts = parts_of_step(steps, wanted.gradients or gradients_of(results), system, link is not None and link.on_cpu)
    timed = [row for row in results if row.seconds_per_epoch and row.samples_per_second]
    trained = (
        timed[-1].seconds_per_epoch * timed[-1].samples_per_second
        if timed
        else known.samples
        if known.rates_alone
        else None
    )
    predicted = []
    for devices, batch in wanted.batches(results):
        step, binds = parts.seconds(devices, batch / devices)
        per_epoch = _times(step, trained / (batch * each)) if trained else None
        epochs = epochs_at(batch, results)
        predicted.append(known.row(devices, batch, PREDICTION, per_epoch, _over(batch * each, step), epochs, binds))
    unit = "token" if first.batch_unit.startswith("token") else "sample"
    how = f"By the parts of a step on {clean(system.name, 80)} ({clean(system.title, 200)}): {parts.cost.text(unit)}, "
    how += f"{traffic_text(parts.gradients)}. Bounds: {parts.bounds}."
    notes = [*parts.cost.notes, *(["Evaluation is assumed to speed up as training does."] if timed else [])]
    notes += _link_notes(link, [row["devices"] for row in predicted]) if link is not None else []
    if parts.misfit > _DOUBTFUL:
        notes.append(
            "These parts are far from measured steps: another system, a busy machine, or costs that they do not have."
        )
    return predicted, how, notes


def _link_notes(link: MeasuredLink, predicted: Sequence[int]) -> list[str]:
    """What a reader must know of a measured link."""
    found, most = [], max(link.devices)
    if link.fit.largest_deviation > _DOUBTFUL:
        found.append(f"Of the all-reduces measured one is {link.fit.largest_deviation:.0%} off their line.")
    if max(predicted, default=0) > most:
        found.append(f"All-reduces were measured on up to {most} devices; for more the same link is assumed.")
    return found


_RULES = {"law": "the law", "power": "power of devices", "linear": "perfect scaling"}
_WORST = 12
"""Rows that are named as known to be far off."""


def validation(found: Validation) -> View:
    """The errors of the law beside the simpler rules, bars, later rounds, and the rows that are known to be far off."""
    left_out = ", ".join(f"{why} {count}" for why, count in found.left_out.items())
    intro = (
        f"{sum(map(len, found.families))} rows in {len(found.families)} families, closed division, NVIDIA GPUs; time per epoch "
        f"with evaluation. No row's own time is used in its prediction. Left out: {left_out}."
    )
    protocols = (
        "One row left out: predicted from the other rows of its family. Smallest row: from the family's fewest devices alone, "
        "to so many times as many, with constants that never saw the family. New machine: these constants saw no family of "
        "the accelerator or the submitter either."
    )
    fitted = (f"{name} {half:.3g} samples and {power:g}" for name, (half, power) in found.constants.items())
    bars = frame_of(
        {"bar": bar.name, "reached": bar.reached, "at_least": bar.low, "at_most": bar.high, "met": bar.met}
        for bar in found.bars
    )
    worst = under(found.held, next(iter(PROTOCOLS))).rename(columns={"error": "signed_error"})
    worst = worst.loc[worst["signed_error"].abs().sort_values(ascending=False).index[:_WORST]]
    after, calibrated = CONSTANTS_UP_TO[-1], f"{found.factor:.2f} spreads hold {LEVEL:.0%} of all rows held out."
    parts = (
        Section(
            "",
            (intro, protocols),
            _errors(found.held),
            below=(f"Most likely b_half and p: {', '.join(fitted)}.",),
            keys=2,
        ),
        Section("Bars", (), bars),
        Section(f"Rounds after {after}, with b_half and p of the rounds up to it", (), _errors(found.later), keys=2),
        Section("The same rounds one by one, by the law", (), frame_of(_by_round(found.later)), keys=3),
        Section(
            f"The {_WORST} rows furthest off, one row left out",
            (),
            worst[["run", "workload", "devices", "batch_per_device", "signed_error"]],
            below=(calibrated,),
        ),
    )
    return View("Validation of the scaling law on published rows", parts, found.held)


def _errors(held: pd.DataFrame) -> pd.DataFrame:
    return frame_of(
        {"predicted": name, "rule": rule, **errors(under(held, name, law))}
        for name in PROTOCOLS
        for law, rule in _RULES.items()
    )


def _by_round(later: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (name, workload), held in later.groupby(["round", "workload"]):
        for protocol in list(PROTOCOLS)[:2]:
            if len(chosen := under(held, protocol)):
                yield {"round": name, "workload": workload, "predicted": protocol, **errors(chosen)}
