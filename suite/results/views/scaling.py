"""`suite scaling`: time, rate and cost of a workload on device counts that were not measured, beside those that were.

Two ways, never mixed: the law fitted to published rows (suite.results.predict.law) carries on from the measured times per
epoch; or, given a system or a measured link, the parts of a step (suite.results.predict.step) from rates on one device.
Within a forecast one constant, the samples of an epoch, ties rates to times: samples_per_second × seconds_per_epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from suite.common.labels import LabelKind
from suite.results.columns import Result, with_size
from suite.results.combine import known
from suite.results.data_table import DataTable
from suite.results.predict import law
from suite.results.predict.epochs import RCP, EpochsEstimate, epochs_at
from suite.results.predict.step import Parts, gradients_of
from suite.results.predict.systems import MeasuredLink, System, link_of, with_link
from suite.results.predict.validate import LAWS, PROTOCOLS, Validation, errors, under
from suite.results.price import Prices
from suite.results.scores import merged_labels, title
from suite.results.series import families
from suite.results.settings_difference import named_apart
from suite.results.text import clean, cost_text, devices_text, figure_text, percent_text, range_text, time_text
from suite.results.views.section import NOT_VERIFIED, Section, View, aim_text
from workloads.api import GradientTraffic

if TYPE_CHECKING:
    import pandas as pd

MEASURED, PREDICTION = "measured", "prediction"
"""`kind` of a row."""
METHOD = "law of published rows: devices × time per epoch = c · (1 + b_half / b) · n^p"
_BOUNDS, _OPPOSITE = ("", "_low", "_high"), ("", "_high", "_low")
"""Endings of columns; the shortest time is that of the highest rate."""
_BOUNDED = (
    "seconds_per_epoch", "samples_per_second", "training_samples_per_second", "epochs", "seconds", "device_hours", "cost",
)  # fmt: skip
"""Columns of a prediction that have bounds, `seconds_low` and `seconds_high`."""
_COLUMNS = (
    "devices", "kind", "batch_size_global", *(f"{name}{end}" for name in _BOUNDED for end in _BOUNDS), "epochs_source",
    "scaling_efficiency", "binds", "seconds_outside_epochs",
)  # fmt: skip
_SHOWN = (
    "devices", "kind", "batch_size_global", "seconds_per_epoch", "epoch_range", "samples_per_second",
    "training_samples_per_second", "epochs", "epochs_source", "seconds", "time_range", "device_hours",
    "device_hours_range", "cost", "cost_range", "scaling_efficiency", "binds",
)  # fmt: skip
"""Columns of a terminal's table: bounds are one column, `90.8–104.8 s`. Those of rates and epochs are in files alone."""
_RANGES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "epoch_range": ("seconds_per_epoch", time_text),
    "time_range": ("seconds", time_text),
    "device_hours_range": ("device_hours", figure_text),
    "cost_range": ("cost", cost_text),
}
"""Column of a range to the column that it bounds, and how its numbers look."""
_DOUBTFUL = 0.25
"""Misfit of measured steps (log of a factor) above which a note says so; our threshold."""


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

    def batches(self, results: Sequence[Result]) -> Iterator[tuple[int, float]]:
        """(devices, global batch) of each count but those in `results`. Raises ValueError below a sample a device."""
        known = {(row.device_count, float(row.global_batch)) for row in results}
        for devices in self.devices:
            nearest = min(results, key=lambda row: (abs(math.log(row.device_count / devices)), -row.global_batch))
            each = self.batch_per_device or nearest.global_batch / nearest.device_count
            batch = float(self.batch_global or each * devices)
            if batch < devices:
                raise ValueError(f"a batch of {batch:g} is less than a sample for each of {devices} devices; give more")
            if (devices, batch) not in known:
                yield devices, batch


_Predicted = tuple[str, Sequence[tuple[int, float, Sequence[float], str]], str, list[str]]
"""Column of a figure; devices, global batch, (figure, low, high) and what binds of each count; how it was made; notes."""


@dataclass(frozen=True)
class Forecast:
    """Measured and predicted rows of results that differ in devices and batch alone."""

    title: str
    how: str  # how it was made, and what its bounds are
    table: DataTable  # A row for each device count and batch, in order; measured ones have no bounds
    notes: tuple[str, ...]
    results: tuple[Result, ...]


def view(made: Sequence[Forecast]) -> View:
    """Forecasts as a document."""
    intro = "Rows called prediction were not measured by anybody; how well such rows held: suite scaling --validate."
    sections, data = [], list[dict[str, Any]]()
    for place, one in enumerate(made):
        table, first = _with_ranges(one.table).only(_SHOWN).without_empty(_SHOWN[:3]), one.results[0]
        known = place and one.how == made[place - 1].how
        how = "Predicted in the same way, with bounds of the same kind." if known else one.how
        sections.append(
            Section(one.title, (aim_text(one.results), how), table, below=(*_answers(one.table), *one.notes), keys=2)
        )
        about = {"forecast": one.title, "workload": first.workload, "profile": first.profile, "how": one.how}
        units = {name: getattr(first, name) or "samples" for name in ("batch_unit", "sample_unit")}
        data += [about | {"labels": merged_labels(one.results)} | units | row for row in one.table]
    return View("Predicted scaling", tuple(sections), DataTable.from_rows(data), (NOT_VERIFIED, intro))


def _with_ranges(table: DataTable) -> DataTable:
    """Return the table with the columns of `_RANGES`; a measured row has no range."""
    for name, (column, text) in _RANGES.items():
        texts = []
        for row in table:
            middle, low, high = (row[f"{column}{end}"] for end in _BOUNDS)
            texts.append("" if None in (low, high) else _range(middle, low, high, text))
        table = table.with_column(name, texts)
    return table


def _range(middle: float, low: float, high: float, text: Callable[[float], str]) -> str:
    """Return two bounds as text, in the unit of the figure that they bound."""
    return range_text(low, high, middle) if text is time_text else f"{text(low)}–{text(high)}"


def _answers(table: DataTable) -> Iterator[str]:
    """On how many of the listed devices the time to target is shortest, and on how many it costs least."""
    timed = [row for row in table if row["seconds"]]
    if not timed:
        return
    least, among = min(timed, key=lambda row: row["device_hours"]), ", of the counts with a known time"
    hours = f"{figure_text(least['device_hours'])}{_bounds_text(least, 'device_hours', figure_text)} a job"
    price = ""
    if least["cost"] is not None:
        price = f", cost {cost_text(least['cost'])}{_bounds_text(least, 'cost', cost_text)}"
    shortest = min(timed, key=lambda row: row["seconds"])
    for words, row, figure in (
        ("Shortest time to target", shortest, _range_text(shortest, "seconds")),
        ("Fewest device-hours", least, f"{hours}{price}"),
    ):
        kind = {MEASURED: "measured", PREDICTION: "predicted"}[row["kind"]]
        yield f"{words}{among * (len(timed) < len(table))}: {devices_text(row['devices'])}, {kind} {figure}."


def _range_text(row: Mapping[str, Any], name: str) -> str:
    """`3.2 s (2.8 s to 3.7 s)`; without bounds if it was measured."""
    return time_text(row[name]) + _bounds_text(row, name, time_text)


def _bounds_text(row: Mapping[str, Any], name: str, text: Callable[[float], str]) -> str:
    """` (2.8 s to 3.7 s)`; empty if the row was measured."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f" ({text(low)} to {text(high)})" if low and high else ""


def forecasts(results: Sequence[Result], wanted: Wanted) -> list[Forecast]:
    """A forecast for each family of results that one can be made for. Raises ValueError, the first reason, if there is none."""
    groups = comparable(results)
    made, reasons = list[Forecast](), dict[str, list[str]]()
    names = named_apart([group[0] for group in groups], list(map(title, groups)), aside=("gpus", "batch"))
    for group, name in zip(groups, names, strict=True):
        try:
            made.append(forecast(group, wanted, name))
        except ValueError as error:
            reasons.setdefault(str(error), []).append(name)
    if not made:
        reason, first = next(iter(reasons.items()))
        more = f" (and {len(groups) - 1} more families of runs)" if len(groups) > 1 else ""
        raise ValueError(f"{first[0]}: {reason}{more}")
    named = {reason: ", ".join([*who[:3], *["…"] * (len(who) > 3)]) for reason, who in reasons.items()}
    without = [f"No prediction for {who}: {reason}." for reason, who in named.items()]
    return [*made[:-1], replace(made[-1], notes=(*made[-1].notes, *without[:3]))]


def comparable(results: Sequence[Result]) -> list[list[Result]]:
    """Results that one prediction may rest on, in order of devices. Raises ValueError if nothing is known of any."""
    known = [row for row in with_size(results) if row.seconds_per_epoch or row.samples_per_second]
    if not known:
        raise ValueError("a prediction needs runs with known devices and batch, and a time per epoch or a rate")
    return families(sorted(known, key=lambda row: (row.devices, row.batch_size_global)), "batch")


def forecast(results: Sequence[Result], wanted: Wanted, name: str = "") -> Forecast:
    """Predict `wanted` from `results`, a group of `comparable`.

    Raises ValueError if the law knows nothing of the workload, or if the parts of a step cannot be told from the results.
    """
    results = sorted(results, key=lambda row: (row.devices, row.batch_size_global))
    link, reason = link_of(results[0], wanted.links), why_not_by_law(results)
    one_device = {row.batch_size_global for row in results if row.devices == 1 and row.samples_per_second}
    by_parts = wanted.system is not None or (link is not None and (reason or len(one_device) > 1))
    if reason and not by_parts:
        raise ValueError(f"{reason}; give --system NAME or FILE")
    figure, predicted, how, said = _by_step(results, wanted, link) if by_parts else _by_law(results, wanted)
    table = _table(results, figure, predicted, None if wanted.prices is None else wanted.prices.price(results[0]))
    first, *rest = _notes(results, table[table["kind"] == PREDICTION])
    return Forecast(name or title(results), how, DataTable.from_frame(table), (first, *said, *rest), tuple(results))


def _table(results: Sequence[Result], name: str, predicted: Sequence[Any], price: float | None) -> pd.DataFrame:
    """The fastest result of each device count and batch, the predicted rows, and what follows from their times and rates.

    Predicted from a rate of training alone, an epoch takes as many samples at this rate as that of the result on most devices
    that has both; if no result has a time, all epochs, measured ones too, are those of samples_of_epoch.
    """
    import pandas as pd

    lines, same = [], ("devices", "batch_size_global", "seconds_per_epoch", "epochs")
    for row in results:
        about = {one: getattr(row, one) or None for one in same} | {"kind": MEASURED, "binds": ""}
        about["seconds_outside_epochs"] = _seconds_outside_epochs(row)
        about |= {"training_samples_per_second": row.samples_per_second or None}
        lines.append(about | {"epochs_source": MEASURED if row.epochs else ""})
    for devices, batch, figures, binds in predicted:
        about = {"devices": devices, "batch_size_global": batch, "kind": PREDICTION, "binds": binds}
        about["seconds_outside_epochs"] = _seconds_outside_epochs(_nearest(results, devices))
        about |= _epochs_columns(epochs_at(batch, results))
        lines.append(about | {f"{name}{end}": value for end, value in zip(_BOUNDS, figures, strict=True)})
    table = pd.DataFrame(lines, columns=list(_COLUMNS))
    table = table.astype(dict.fromkeys(set(_COLUMNS) - {"devices", "kind", "epochs_source", "binds"}, "float64"))
    samples, rates_alone = samples_of_epoch(results) or math.nan, not any(row.seconds_per_epoch for row in results)
    at_rate = (table["seconds_per_epoch"] * table["training_samples_per_second"]).dropna().tolist()
    at_rate = at_rate or [samples if rates_alone else math.nan]
    without = table["seconds_per_epoch"].isna() & ((table["kind"] == PREDICTION) | rates_alone)
    for end, other in zip(_BOUNDS, _OPPOSITE, strict=True):
        table.loc[without, f"seconds_per_epoch{end}"] = at_rate[-1] / table[f"training_samples_per_second{other}"]
        table[f"samples_per_second{other}"] = samples / table[f"seconds_per_epoch{end}"]
    table["seconds"] = table["epochs"] * table["seconds_per_epoch"]
    for end in _BOUNDS[1:]:
        table[f"seconds{end}"] = _bound_of_product(table, ("epochs", "seconds_per_epoch"), "seconds", end)
    for end in _BOUNDS:
        table[f"seconds{end}"] += table["seconds_outside_epochs"]
    for end in _BOUNDS:
        table[f"device_hours{end}"] = table["devices"] * table[f"seconds{end}"] / 3600
        table[f"cost{end}"] = table[f"device_hours{end}"] * (price or math.nan)
    order = ["devices", "kind", "batch_size_global", "seconds_per_epoch", "training_samples_per_second"]
    table = table.sort_values(order, ascending=[True] * 4 + [False]).drop_duplicates(order[:3], ignore_index=True)
    return table.assign(scaling_efficiency=_efficiency(table))


def _nearest(results: Sequence[Result], devices: int) -> Result:
    """Return the result on the nearest number of devices."""
    return min(results, key=lambda result: abs(math.log((result.devices or 1) / devices)))


def _seconds_outside_epochs(result: Result) -> float:
    """Return the part of the time to target outside of epochs: setup and other. 0 if time per epoch includes it."""
    if result.parts is None or result.seconds is None or not result.seconds_per_epoch or not result.epochs:
        return 0.0
    return result.seconds - result.epochs * result.seconds_per_epoch


def _epochs_columns(estimate: EpochsEstimate) -> dict[str, Any]:
    values = (estimate.epochs, estimate.low, estimate.high)
    bounded = {f"epochs{end}": value for end, value in zip(_BOUNDS, values, strict=True)}
    return bounded | {"epochs_source": estimate.source}


def _bound_of_product(table: pd.DataFrame, factors: Sequence[str], product: str, end: str) -> pd.Series[float]:
    """Return one bound of a product of two figures with independent errors: their log widths add in quadrature."""
    import numpy as np

    widths = [np.log(table[f"{factor}{end}"] / table[factor]) for factor in factors]
    half = np.hypot(*widths)
    return table[product] * np.exp(half if end == "_high" else -half)


def _efficiency(table: pd.DataFrame) -> pd.Series[float]:
    """What each device does, over each of the fewest measured; from times per epoch, else from training rates.

    Of several batches on the fewest devices the one nearest to the row's, for each device, is the base.
    """
    measured, each = table[table["kind"] == MEASURED], table["batch_size_global"] / table["devices"]
    fewest = each[measured.index[measured["devices"] == measured["devices"].min()]]
    base = table.loc[[(fewest / one).apply(math.log).abs().idxmin() for one in each]].reset_index(drop=True)
    rates = table["training_samples_per_second"] / base["training_samples_per_second"]
    return (base["seconds_per_epoch"] / table["seconds_per_epoch"]).fillna(rates) * base["devices"] / table["devices"]


def samples_of_epoch(results: Sequence[Result]) -> float | None:
    """Samples that an epoch trains on: of our runs as counted, else as logged; None where neither is known.

    NCF logs its positive pairs, and trains on so many negatives for each beside them.
    """
    counted = [run for row in results for run in row.runs if row.profile and run.samples and run.epochs]
    if counted:
        return math.fsum(known(counted, "samples")) / math.fsum(known(counted, "epochs"))
    for row in results:
        negatives = (row.hyperparameters or {}).get("input_hp_num_neg", 0)
        if row.train_samples and isinstance(negatives, int | float):
            return float(row.train_samples) * (1 + negatives)
    return None


def _notes(results: Sequence[Result], predicted: pd.DataFrame) -> Iterator[str]:
    """What rates and times are made of, and where epochs are from."""
    samples = samples_of_epoch(results)
    if samples is None:
        yield "The samples of an epoch are not known, so there is no rate with evaluation."
    elif not any(row.seconds_per_epoch for row in results):
        yield "No run has a time per epoch: all times are the samples of an epoch over the rate of training, no evaluation."
    else:
        text = figure_text(samples, 6)
        yield f"samples/s: the {text} samples of an epoch over its time, with evaluation; training samples/s: without."
    if unknown := predicted.loc[predicted["epochs"].isna(), "devices"].tolist():
        counts = " and ".join(filter(None, (", ".join(f"{one:,}" for one in unknown[:-1]), devices_text(unknown[-1]))))
        yield f"Epochs to target at the batch on {counts} are not known, so neither is the time to target."
    outside = sorted({_seconds_outside_epochs(result) for result in results} - {0.0})
    if outside and len(predicted):
        ends = " to ".join(dict.fromkeys((time_text(outside[0]), time_text(outside[-1]))))
        yield f"Setup and other time outside of epochs ({ends}) are assumed to stay as measured on the nearest device count."
    if (predicted["epochs_source"] == RCP).any():
        yield f"{RCP}: mean epochs of the rules' reference runs (round v1.1) at this batch or between two."


def why_not_by_law(results: Sequence[Result]) -> str:
    """Why the law of published rows says nothing about these results; empty if it does."""
    first = results[0]
    if first.workload not in law.WORKLOADS:
        return "no published rows on several device counts to learn from"
    if first.profile not in ("reference", "") or first.has_label(LabelKind.CPU):
        return "the published rows are of reference runs on GPUs"
    if outside := law.outside_of_the_law(first):
        return f"{outside}, and the law is of published rows of the closed division on NVIDIA's GPUs"
    if not _observed(results):
        reached = any(row.to_target for row in results)
        why = "time per epoch or batch not known, or less than a sample a device" if reached else "no run to a target"
        return f"{why}, so there is no time per epoch to carry on from"
    return ""


def _observed(results: Sequence[Result]) -> list[tuple[Result, law.Observation]]:
    """What the law can carry on from."""
    return [(row, seen) for row in results if (seen := law.observation(row)) is not None]


def _by_law(results: Sequence[Result], wanted: Wanted) -> _Predicted:
    pairs = _observed(results)
    seen, (widest, widest_seen) = [one for _, one in pairs], pairs[-1]
    scale = widest_seen.batch_per_device * widest_seen.devices / widest.global_batch  # tokens to sentences
    fit = law.published_fit(widest.workload)
    b_half, exponent = fit.constants
    times = {(one.devices, one.seconds_per_epoch) for one in seen}  # a published row asked for by name counts once
    same_family = [
        family for family in fit.families if times & {(one.devices, one.seconds_per_epoch) for one in family}
    ]
    predicted, notes = [], []
    for devices, batch in wanted.batches([row for row, _ in pairs]):
        target = law.Observation(widest.workload, devices, batch * scale / devices, 1.0)
        per_epoch = fit.predict(seen, target, same_family).seconds_per_epoch(devices)
        fixed, waiting = b_half / target.batch_per_device, devices**exponent - 1
        binds = max((1.0, "samples"), (fixed, "fixed cost"), (waiting, "waiting for others"))[1]
        predicted.append((devices, batch, per_epoch, binds))
        if target.batch_per_device < min(one.batch_per_device for one in seen) / 8:
            notes.append(f"On {devices_text(devices)} each has less than an eighth of any measured batch.")
    bounds = f"{percent_text(law.LEVEL)} interval of the time per epoch, calibrated on published rows held out"
    how = f"By the {METHOD}. Ranges: {bounds}; those of time and cost have the error of the epochs in them, too."
    return "seconds_per_epoch", predicted, how, notes


def predict_times(
    results: Sequence[Result], devices: Sequence[int], prices: Prices | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Predict the time to target of a group of `comparable` on other device counts, by the law of published rows.

    Returns:
        Rows of a forecast's table with a time to target, and the reason if there is none.
    """
    if not devices:
        return [], ""
    if not results:
        return [], "neither a time per epoch nor a rate is known of these runs"
    if reason := why_not_by_law(results):
        return [], reason
    table = forecast(results, Wanted(tuple(devices), prices=prices)).table
    rows = [row for row in table if row["kind"] == PREDICTION and row["seconds"]]
    return rows, "" if rows else "the epochs to target at their batches are not known"


def _by_step(results: Sequence[Result], wanted: Wanted, link: MeasuredLink | None) -> _Predicted:
    """On a described system, a measured link, or the one with the other in it."""
    system = wanted.system if link is None else with_link(wanted.system, link)
    assert system is not None
    each, steps = law.samples_per_batch_unit(results[0]) or 1.0, []
    rated = [(row, row.samples_per_second) for row in results if row.samples_per_second]
    for row, rate in rated:
        samples = row.global_batch * (law.samples_per_batch_unit(row) or 1.0)
        steps.append((row.device_count, row.global_batch / row.device_count, samples / rate))
    parts = Parts(steps, wanted.gradients or gradients_of(results), system, link is not None and link.on_cpu)
    predicted = []
    for devices, batch in wanted.batches(results):
        (middle, low, high), binds = parts.seconds(devices, batch / devices)
        predicted.append((devices, batch, [batch * each / seconds for seconds in (middle, high, low)], binds))
    unit = "token" if results[0].batch_unit.startswith("token") else "sample"
    how = f"By the parts of a step on {clean(system.name, 80)} ({clean(system.title, 200)}): {parts.text(unit)}"
    off, most = (link.fit.largest_deviation, max(link.devices)) if link is not None else (0.0, math.inf)
    beyond = any(devices > most for devices, *_ in predicted)
    longer = "Larger batches take longer for each sample, which t0 + c·b cannot say: t0 is taken as 0."
    far = "These parts are far from measured steps: another system, a busy machine, or costs that they do not have."
    notes = {
        longer: parts.cost.t0 == 0.0,
        "Larger batches take no longer: c is taken as 0.": parts.cost.c == 0.0,
        "Evaluation is assumed to speed up as training does.": any(row.seconds_per_epoch for row, _ in rated),
        f"Of the all-reduces measured one is {percent_text(off)} off their line.": off > _DOUBTFUL,
        f"All-reduces were measured on up to {most} devices; for more the same link is assumed.": beyond,
        far: parts.misfit > _DOUBTFUL,
    }
    return "training_samples_per_second", predicted, how, [note for note, holds in notes.items() if holds]


def validation(result: Validation) -> View:
    """The errors of the law beside the simpler rules, bars, later rounds, and the rows that are known to be far off."""
    left_out = ", ".join(f"{why} ({count})" for why, count in result.left_out.items())
    rows_used = sum(map(len, result.families))
    intro = (
        f"{rows_used} rows in {len(result.families)} families, closed division, NVIDIA GPUs; time per epoch "
        f"with evaluation. No row's own time is used in its prediction. Left out: {left_out}."
    )
    protocols = (
        "One row left out: predicted from the other rows of its family. Smallest row: from the family's fewest devices alone, "
        "to so many times as many, with constants that never saw the family. New machine: these constants saw no family of "
        "the accelerator or the submitter either."
    )
    fits = {name: law.Fit(law.of_workload(result.families, name)).constants for name in law.WORKLOADS}
    constants = "; ".join(f"{name} {half:.3g} samples and {power:g}" for name, (half, power) in fits.items())
    worst = under(result.held, next(iter(PROTOCOLS))).rename(columns={"error": "signed_error"})
    worst = worst.loc[worst["signed_error"].abs().nlargest(12).index]
    factor = f"{result.factor:.2f} spreads hold {percent_text(law.LEVEL)} of all rows held out."
    by_round = (
        {"round": which, "workload": workload, "predicted": name, **errors(chosen)}
        for (which, workload), held in result.later.groupby(["round", "workload"])
        for name in list(PROTOCOLS)[:2]
        if len(chosen := under(held, name))
    )
    columns = ["run", "workload", "devices", "batch_per_device", "signed_error"]
    most_likely, later = f"Most likely b_half and p: {constants}.", law.CONSTANTS_UP_TO[-1]
    heading = f"Rounds after {later}, with b_half and p of the rounds up to it"
    parts = (
        Section("", (intro, protocols), _errors(result.held), below=(most_likely,), keys=2),
        Section("Bars", (), DataTable.from_frame(result.bars)),
        Section(heading, (), _errors(result.later), keys=2),
        Section("The same rounds one by one, by the law", (), DataTable.from_rows(by_round), keys=3),
        Section(
            "The 12 rows furthest off, one row left out", (), DataTable.from_frame(worst[columns]), below=(factor,)
        ),
    )
    return View("Validation of the scaling law on published rows", parts, DataTable.from_frame(result.held))


def _errors(held: pd.DataFrame) -> DataTable:
    pairs = ((name, rule) for name in PROTOCOLS for rule in LAWS)
    return DataTable.from_rows(
        {"predicted": name, "rule": rule, **errors(under(held, name, rule))} for name, rule in pairs
    )
