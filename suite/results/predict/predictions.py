"""Predictions of time, throughput, and cost on device counts that were not measured.

A prediction uses one of two methods. The scaling model (suite.results.predict.scaling_model) is
fitted to published results and extrapolates the measured times per epoch. The step model
(suite.results.predict.step) adds up the components of a step. The step model needs throughputs on
one device, and a system or a measured link.

Throughput and time are consistent in all rows of a prediction: samples_per_second ×
seconds_per_epoch is the number of samples per epoch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from suite.common.labels import LabelKind
from suite.results.columns import Result, column, with_size
from suite.results.combine import non_null
from suite.results.data_table import DataTable
from suite.results.predict import scaling_model
from suite.results.predict.epochs_to_target import RCP, epochs_at, reference_round
from suite.results.predict.step import StepModel, gradients_of
from suite.results.predict.systems import MeasuredLink, System, link_of, with_link
from suite.results.price import Prices
from suite.results.scores import title
from suite.results.series import families
from suite.results.settings_difference import named_apart
from suite.results.text import clean, devices_text, figure_text, percent_text, time_text
from workloads.api import GradientAllReduceInfo

MEASURED, PREDICTION = "measured", "prediction"
"""Values of the column `kind`."""
METHOD = "scaling model of published results: devices × time per epoch = c · (1 + b_half / b) · n^p"
BOUNDS = ("", "_low", "_high")
"""Column suffixes of a value, its lower bound, and its upper bound."""
_OPPOSITE = {"": "", "_low": "_high", "_high": "_low"}
"""The bounds of time and throughput are opposite: the shortest time belongs to the highest
throughput.
"""
_MAX_MISFIT = 0.25
"""Deviation of the step model from measured steps (logarithm of a factor) above which a note
warns the user.

The threshold was chosen for this suite.
"""
_MIN_BATCH_SHARE = 1 / 8
"""Smallest fraction of a measured batch per device that is predicted without a warning."""


@dataclass(kw_only=True)
class PredictionRow:
    """Measured or predicted row of a prediction table.

    The fields are the columns of files, in this order. Only predicted rows have bounds.
    """

    devices: int = column("Number of devices", unknown=0)
    kind: str = column("`measured` or `prediction`", unknown=MEASURED)
    global_batch_size: float = column("Global batch size", unknown=0.0)
    seconds_per_epoch: float | None = column("Time per epoch, evaluation included")
    seconds_per_epoch_low: float | None = column("Lower bound")
    seconds_per_epoch_high: float | None = column("Upper bound")
    samples_per_second: float | None = column(
        "Samples of an epoch over its time, evaluation included"
    )
    samples_per_second_low: float | None = column("Lower bound")
    samples_per_second_high: float | None = column("Upper bound")
    training_samples_per_second: float | None = column("Throughput of training, without evaluation")
    training_samples_per_second_low: float | None = column("Lower bound")
    training_samples_per_second_high: float | None = column("Upper bound")
    epochs: float | None = column("Epochs to target")
    epochs_low: float | None = column("Lower bound")
    epochs_high: float | None = column("Upper bound")
    seconds: float | None = column("Time to target")
    seconds_low: float | None = column("Lower bound")
    seconds_high: float | None = column("Upper bound")
    device_hours: float | None = column("Devices × time to target")
    device_hours_low: float | None = column("Lower bound")
    device_hours_high: float | None = column("Upper bound")
    cost: float | None = column("Device-hours × price")
    cost_low: float | None = column("Lower bound")
    cost_high: float | None = column("Upper bound")
    epochs_source: str = column(
        "`measured`, `between measured batches`, `RCP`, or empty", unknown=""
    )
    scaling_efficiency: float | None = column(
        "Work of a device, relative to the fewest measured devices"
    )
    binds: str = column("The largest part of a step that does not shrink with devices", unknown="")
    seconds_outside_epochs: float = column("Setup and other time outside of epochs", unknown=0.0)

    def bounded(self, name: str) -> tuple[float | None, float | None, float | None]:
        """Return a value with its lower and upper bounds."""
        middle, low, high = (getattr(self, f"{name}{end}") for end in BOUNDS)
        return middle, low, high

    def columns(self) -> dict[str, Any]:
        """Return the values by column name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True)
class PredictionRequest:
    """Device counts and batches for which a prediction is requested."""

    devices: tuple[int, ...]
    batch_per_device: float | None = None
    """Batch per device in the batch unit of the result. None selects the batch per device of the
    result with the nearest device count.
    """
    batch_global: float | None = None
    system: System | None = None
    """System for the step model. None selects the scaling model or a measured link."""
    gradients: GradientAllReduceInfo | None = None
    """Gradients of an all-reduce. None selects the logged gradients, or the gradients of the
    workload's reference model.
    """
    prices: Prices | None = None
    links: tuple[MeasuredLink, ...] = ()

    def batches(self, results: Sequence[Result]) -> Iterator[tuple[int, float]]:
        """Yield each device count to predict, with its global batch.

        Measured combinations are skipped.

        Raises:
            ValueError: A batch has less than one sample per device.
        """
        measured = {(result.device_count, float(result.global_batch)) for result in results}
        for devices in self.devices:
            nearest = min(
                results,
                key=lambda result: (
                    abs(math.log(result.device_count / devices)),
                    -result.global_batch,
                ),
            )
            per_device = self.batch_per_device or nearest.global_batch / nearest.device_count
            batch = float(self.batch_global or per_device * devices)
            is_parallel = results[0].workload in scaling_model.MODEL_PARALLEL
            if batch < devices and not is_parallel:
                raise ValueError(
                    f"a batch of {batch:g} is less than a sample for each of {devices} devices. Set"
                    " a larger batch"
                )
            if (devices, batch) not in measured:
                yield devices, batch


class PredictedFigure(NamedTuple):
    """Value that a method predicts for a device count."""

    devices: int
    batch: float
    """Global batch in the batch unit of the result."""
    middle: float
    low: float
    high: float
    binds: str


@dataclass(frozen=True)
class _Predicted:
    """Predicted values of all device counts, computed with one method."""

    column: str
    """Column of the predicted values."""
    figures: tuple[PredictedFigure, ...]
    how: str
    """Description of the computation and of the bounds."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """Measured and predicted rows of results that differ only in devices and batch."""

    title: str
    how: str
    """Description of the computation and of the bounds."""
    rows: tuple[PredictionRow, ...]
    """Rows in order, one for each device count and batch."""
    notes: tuple[str, ...]
    results: tuple[Result, ...]

    @property
    def table(self) -> DataTable:
        """Return the rows as a table with all columns."""
        return DataTable.from_rows(row.columns() for row in self.rows)


def predictions(results: Sequence[Result], request: PredictionRequest) -> list[Prediction]:
    """Return a prediction for each group of results that can be predicted.

    A group contains results that differ only in devices and batch. The notes of the last prediction
    list the groups that cannot be predicted.

    Raises:
        ValueError: No group can be predicted. The message contains the first reason.
    """
    groups = comparable_groups(results)
    names = named_apart(
        [group[0] for group in groups], list(map(title, groups)), ignored=("gpus", "batch")
    )
    found: list[Prediction] = []
    refused: dict[str, list[str]] = {}
    for group, name in zip(groups, names, strict=True):
        try:
            found.append(predict(group, request, name))
        except ValueError as error:
            refused.setdefault(str(error), []).append(name)
    if not found:
        reason, (first, *_) = next(iter(refused.items()))
        more = f" (and {len(groups) - 1} more families of runs)" if len(groups) > 1 else ""
        raise ValueError(f"{first}: {reason}{more}")
    notes = []
    for reason, names in itertools.islice(refused.items(), 3):
        more = ", …" if len(names) > 3 else ""
        notes.append(f"No prediction for {', '.join(names[:3])}{more}: {reason}.")
    return [*found[:-1], replace(found[-1], notes=(*found[-1].notes, *notes))]


def comparable_groups(results: Sequence[Result]) -> list[list[Result]]:
    """Return groups of results that differ only in devices and batch, sorted by devices.

    Raises:
        ValueError: No result has devices, a batch, and a time per epoch or a throughput.
    """
    usable = [
        result
        for result in with_size(results)
        if result.seconds_per_epoch or result.samples_per_second
    ]
    if not usable:
        raise ValueError(
            "a prediction needs runs with known devices and batch, and a time per epoch or a"
            " throughput"
        )
    return families(sorted(usable, key=_size), "batch")


def _size(result: Result) -> tuple[int, int]:
    return result.device_count, result.global_batch


def predict(results: Sequence[Result], request: PredictionRequest, name: str = "") -> Prediction:
    """Return the prediction for a group of results.

    Args:
        results: A group from `comparable_groups`.
        request: Device counts and batches to predict.
        name: Title of the prediction. If empty, the title is derived from the results.

    Raises:
        ValueError: The scaling model does not cover the workload, and the step model cannot be
            computed from the results.
    """
    results = sorted(results, key=_size)
    link, reason = link_of(results[0], request.links), why_not_by_model(results)
    batches_on_one = {
        result.global_batch
        for result in results
        if result.devices == 1 and result.samples_per_second
    }
    is_by_step = request.system is not None or (
        link is not None and (bool(reason) or len(batches_on_one) > 1)
    )
    if reason and not is_by_step:
        raise ValueError(f"{reason}. Set --system NAME or FILE")
    predicted = (
        _predict_by_step(results, request, link)
        if is_by_step
        else _predict_by_model(results, request)
    )
    rows = _rows(
        results, predicted, None if request.prices is None else request.prices.price(results[0])
    )
    first, *rest = _notes(results, [row for row in rows if row.kind == PREDICTION])
    return Prediction(
        name or title(results),
        predicted.how,
        tuple(rows),
        (first, *predicted.notes, *rest),
        tuple(results),
    )


def predict_times(
    results: Sequence[Result], devices: Sequence[int], prices: Prices | None = None
) -> tuple[list[PredictionRow], str]:
    """Predict the time to target on further device counts with the scaling model.

    The results are a group from `comparable_groups`.

    Returns:
        Rows of a prediction with a time to target, and the reason if there is no row.
    """
    if not devices:
        return [], ""
    if not results:
        return [], "neither a time per epoch nor a throughput is known for these runs"
    if reason := why_not_by_model(results):
        return [], reason
    prediction = predict(results, PredictionRequest(tuple(devices), prices=prices))
    rows = [row for row in prediction.rows if row.kind == PREDICTION and row.seconds]
    return rows, "" if rows else "the epochs to target at their batches are not known"


# --- rows
# --------------------------------------------------------------------------------------------------


def _rows(
    results: Sequence[Result], predicted: _Predicted, price: float | None
) -> list[PredictionRow]:
    """Return the fastest result of each device count and batch, and the predicted rows.

    All values that can be computed are filled in.
    """
    rows = [
        *map(_measured_row, results),
        *(_predicted_row(figure, predicted.column, results) for figure in predicted.figures),
    ]
    _fill_times_per_epoch(rows, results)
    for row in rows:
        _fill_times_to_target(row, price)
    rows.sort(key=_order)
    fastest: dict[tuple[Any, ...], PredictionRow] = {}
    for row in rows:
        fastest.setdefault((row.devices, row.kind, row.global_batch_size), row)
    kept = list(fastest.values())
    _fill_efficiency(kept)
    return kept


def _order(row: PredictionRow) -> tuple[Any, ...]:
    seconds, throughput = row.seconds_per_epoch, row.training_samples_per_second
    return (
        row.devices,
        row.kind,
        row.global_batch_size,
        math.inf if seconds is None else seconds,
        math.inf if throughput is None else -throughput,
    )


def _measured_row(result: Result) -> PredictionRow:
    return PredictionRow(
        devices=result.device_count,
        global_batch_size=float(result.global_batch),
        seconds_per_epoch=result.seconds_per_epoch or None,
        training_samples_per_second=result.samples_per_second or None,
        epochs=result.epochs or None,
        epochs_source=MEASURED if result.epochs else "",
        seconds_outside_epochs=_seconds_outside_epochs(result),
    )


def _predicted_row(figure: PredictedFigure, name: str, results: Sequence[Result]) -> PredictionRow:
    nearest = min(results, key=lambda result: abs(math.log(result.device_count / figure.devices)))
    estimate = epochs_at(figure.batch, results)
    row = PredictionRow(
        devices=figure.devices,
        kind=PREDICTION,
        global_batch_size=figure.batch,
        epochs=estimate.epochs,
        epochs_low=estimate.low,
        epochs_high=estimate.high,
        epochs_source=estimate.source,
        binds=figure.binds,
        seconds_outside_epochs=_seconds_outside_epochs(nearest),
    )
    for end, value in zip(BOUNDS, (figure.middle, figure.low, figure.high), strict=True):
        setattr(row, f"{name}{end}", value)
    return row


def _fill_times_per_epoch(rows: Sequence[PredictionRow], results: Sequence[Result]) -> None:
    """Fill in times per epoch from throughputs, and throughputs from times per epoch.

    If only the training throughput is predicted, the number of samples per epoch comes from the
    result on the most devices that has both values. If no result has a time per epoch,
    `samples_of_epoch` returns the number of samples.
    """
    samples = samples_of_epoch(results)
    has_times = any(result.seconds_per_epoch for result in results)
    samples_at_training_rate = None if has_times else samples
    for row in rows:
        if row.seconds_per_epoch is not None and row.training_samples_per_second is not None:
            samples_at_training_rate = row.seconds_per_epoch * row.training_samples_per_second
    for row in rows:
        is_without_time = row.seconds_per_epoch is None and (
            row.kind == PREDICTION or not has_times
        )
        for end, opposite in _OPPOSITE.items():
            if is_without_time:
                rate = getattr(row, f"training_samples_per_second{opposite}")
                setattr(row, f"seconds_per_epoch{end}", _quotient(samples_at_training_rate, rate))
            setattr(
                row,
                f"samples_per_second{opposite}",
                _quotient(samples, getattr(row, f"seconds_per_epoch{end}")),
            )


def _quotient(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below


def _fill_times_to_target(row: PredictionRow, price: float | None) -> None:
    """Fill in time to target, device-hours, and cost.

    The errors of epochs and of time per epoch are assumed to be independent.
    """
    if row.epochs is None or row.seconds_per_epoch is None:
        return
    seconds = row.epochs * row.seconds_per_epoch
    for end, sign in zip(BOUNDS, (0.0, -1.0, 1.0), strict=True):
        width = 0.0
        if sign:
            epochs_bound, seconds_bound = (
                getattr(row, f"epochs{end}"),
                getattr(row, f"seconds_per_epoch{end}"),
            )
            if epochs_bound is None or seconds_bound is None:
                continue
            width = math.hypot(
                math.log(epochs_bound / row.epochs), math.log(seconds_bound / row.seconds_per_epoch)
            )
        bound = seconds * math.exp(sign * width) + row.seconds_outside_epochs
        hours = row.devices * bound / 3600
        setattr(row, f"seconds{end}", bound)
        setattr(row, f"device_hours{end}", hours)
        setattr(row, f"cost{end}", hours * price if price else None)


def _fill_efficiency(rows: Sequence[PredictionRow]) -> None:
    """Fill in the throughput per device relative to the smallest measured device count.

    The efficiency is computed from times per epoch, or from throughputs if there are no times.

    If several batches were measured on the smallest device count, the baseline is the result whose
    batch per device is nearest to the row's batch per device.
    """
    measured = [row for row in rows if row.kind == MEASURED]
    fewest_devices = min(row.devices for row in measured)
    fewest = [row for row in measured if row.devices == fewest_devices]
    for row in rows:
        per_device = row.global_batch_size / row.devices

        def distance(candidate: PredictionRow, per_device: float = per_device) -> float:
            return abs(math.log(candidate.global_batch_size / candidate.devices / per_device))

        base = min(fewest, key=distance)
        ratio = _quotient(base.seconds_per_epoch, row.seconds_per_epoch)
        if ratio is None:
            ratio = _quotient(row.training_samples_per_second, base.training_samples_per_second)
        row.scaling_efficiency = None if ratio is None else ratio * base.devices / row.devices


def _seconds_outside_epochs(result: Result) -> float:
    """Return the time to target minus the time in epochs.

    The result is 0 if the time per epoch includes setup.
    """
    if (
        result.parts is None
        or result.seconds is None
        or not result.seconds_per_epoch
        or not result.epochs
    ):
        return 0.0
    return result.seconds - result.epochs * result.seconds_per_epoch


def samples_of_epoch(results: Sequence[Result]) -> float | None:
    """Return the number of samples that an epoch trains on, or None if unknown.

    They are counted by runs of this suite, or logged. If a result counts samples in place of
    epochs, its epoch is one sample.

    NCF logs its positive pairs, and trains on several negatives for each positive pair.
    """
    if results[0].epoch_unit == "samples":
        return 1.0
    counted = [
        run
        for result in results
        for run in result.runs
        if run.profile and run.samples and run.epochs
    ]
    if counted:
        return math.fsum(non_null(counted, "samples")) / math.fsum(non_null(counted, "epochs"))
    for result in results:
        negatives = (result.hyperparameters or {}).get("input_hp_num_neg", 0)
        if result.train_samples and isinstance(negatives, int | float):
            return float(result.train_samples) * (1 + negatives)
    return None


def _notes(results: Sequence[Result], predicted: Sequence[PredictionRow]) -> Iterator[str]:
    """Yield sentences on throughputs, times, and unknown or assumed figures."""
    samples, unit = samples_of_epoch(results), results[0].epoch_unit
    if unit == "samples":
        yield (
            "samples/s is the samples to target over the time to target, with evaluation. training"
            " samples/s is without evaluation."
        )
    elif samples is None:
        yield "The samples of an epoch are not known, so there is no throughput with evaluation."
    elif not any(result.seconds_per_epoch for result in results):
        yield (
            "No run has a time per epoch. All times are the samples of an epoch over the training"
            " throughput, without evaluation."
        )
    else:
        yield (
            f"samples/s is the {figure_text(samples, 6)} samples of an epoch over its time, with"
            " evaluation. training samples/s is without evaluation."
        )
    unknown = [row.devices for row in predicted if row.epochs is None]
    if unknown:
        counts = [f"{devices:,}" for devices in unknown[:-1]]
        text = (
            f"{', '.join(counts)} and {devices_text(unknown[-1])}"
            if counts
            else devices_text(unknown[-1])
        )
        yield (
            f"{unit.capitalize()} to target at the batch on {text} are not known, so the time to"
            " target is not known either."
        )
    outside = sorted({_seconds_outside_epochs(result) for result in results} - {0.0})
    if outside and predicted:
        ends = " to ".join(dict.fromkeys((time_text(outside[0]), time_text(outside[-1]))))
        yield (
            f"Setup and remaining time outside of epochs ({ends}) are assumed to be as on the"
            " nearest measured device count."
        )
    if any(row.epochs_source == RCP for row in predicted):
        yield (
            f"{RCP}: mean {unit} of the reference runs of round"
            f" {reference_round(results[0].workload)} at this batch, or interpolated between two"
            " batches."
        )


# --- the two methods
# --------------------------------------------------------------------------------------------------


def why_not_by_model(results: Sequence[Result]) -> str:
    """Return why the scaling model does not cover these results.

    The reason is empty if the scaling model covers the results.
    """
    first = results[0]
    if first.workload not in (*scaling_model.WORKLOADS, *scaling_model.LATER_WORKLOADS):
        return "there are no published results on several device counts to fit the scaling model to"
    if first.profile not in ("reference", "") or first.has_label(LabelKind.CPU):
        return "the scaling model covers reference runs on GPUs only"
    if reason := scaling_model.why_not_covered(first):
        return (
            f"{reason}, and the scaling model is fitted to published results of the closed division"
            " on NVIDIA GPUs"
        )
    if not _observed(results):
        has_target = any(result.to_target for result in results)
        reason = (
            "time per epoch or batch not known, or less than a sample per device"
            if has_target
            else "no run to a target"
        )
        return f"{reason}, so there is no time per epoch to extrapolate"
    return ""


def _observed(results: Sequence[Result]) -> list[tuple[Result, scaling_model.Observation]]:
    """Return the results that the scaling model can use, with their observations."""
    pairs = [(result, scaling_model.observation(result)) for result in results]
    return [(result, observed) for result, observed in pairs if observed is not None]


def _predict_by_model(results: Sequence[Result], request: PredictionRequest) -> _Predicted:
    """Predict times per epoch with the scaling model of published results."""
    pairs = _observed(results)
    observations = [observed for _, observed in pairs]
    largest_result, largest = pairs[-1]
    samples_per_unit = (
        largest.batch_per_device * largest.devices / largest_result.global_batch
    )  # Tokens are converted to sentences.
    model = scaling_model.published_model(largest_result.workload)
    b_half, exponent = model.constants
    families_of_results = _published_copies(model, observations)
    figures, notes = [], []
    for devices, batch in request.batches([result for result, _ in pairs]):
        per_device = batch * samples_per_unit / devices
        target = scaling_model.Observation(largest.workload, devices, per_device, 1.0)
        middle, low, high = model.predict(
            observations, target, families_of_results
        ).seconds_per_epoch(devices)
        parts = (
            (1.0, "samples"),
            (b_half / per_device, "fixed cost"),
            (devices**exponent - 1, "waiting for others"),
        )
        figures.append(PredictedFigure(devices, batch, middle, low, high, max(parts)[1]))
        if (
            per_device
            < min(observed.batch_per_device for observed in observations) * _MIN_BATCH_SHARE
        ):
            notes.append(
                f"On {devices_text(devices)} each device has less than an eighth of any measured"
                " batch."
            )
    level = percent_text(scaling_model.LEVEL)
    how = (
        f"{METHOD[0].upper()}{METHOD[1:]}. Ranges are {level} intervals of the time per epoch,"
        " calibrated on held-out published results. The ranges of time and cost also contain the"
        " error of the epochs."
    )
    return _Predicted("seconds_per_epoch", tuple(figures), how, tuple(notes))


def _published_copies(
    model: scaling_model.ScalingModel, observations: Sequence[scaling_model.Observation]
) -> list[scaling_model.Family]:
    """Return the model's families that contain one of the observations.

    A published result must not be counted twice.
    """
    times = {(observed.devices, observed.seconds_per_epoch) for observed in observations}
    return [
        family
        for family in model.families
        if times & {(observed.devices, observed.seconds_per_epoch) for observed in family}
    ]


def _predict_by_step(
    results: Sequence[Result], request: PredictionRequest, link: MeasuredLink | None
) -> _Predicted:
    """Predict training throughputs with the step model.

    The bandwidths and latencies come from a described system, a measured link, or both.
    """
    system = request.system if link is None else with_link(request.system, link)
    assert system is not None
    samples_per_unit = scaling_model.samples_per_batch_unit(results[0]) or 1.0
    measured = [
        (result, result.samples_per_second) for result in results if result.samples_per_second
    ]
    steps = []
    for result, rate in measured:
        samples = result.global_batch * (scaling_model.samples_per_batch_unit(result) or 1.0)
        steps.append(
            (result.device_count, result.global_batch / result.device_count, samples / rate)
        )
    is_on_cpu = link is not None and link.on_cpu
    model = StepModel(steps, request.gradients or gradients_of(results), system, is_on_cpu)
    figures = []
    for devices, batch in request.batches(results):
        (middle, low, high), binds = model.seconds(devices, batch / devices)
        samples = batch * samples_per_unit
        figures.append(
            PredictedFigure(devices, batch, samples / middle, samples / high, samples / low, binds)
        )
    unit = "token" if results[0].batch_unit.startswith("token") else "sample"
    how = (
        f"By the parts of a step on {clean(system.name, 80)} ({clean(system.title, 200)}):"
        f" {model.text(unit)}"
    )
    notes = _step_notes(
        model, link, figures, has_times=any(result.seconds_per_epoch for result, _ in measured)
    )
    return _Predicted("training_samples_per_second", tuple(figures), how, tuple(notes))


def _step_notes(
    model: StepModel, link: MeasuredLink | None, figures: Sequence[PredictedFigure], has_times: bool
) -> Iterator[str]:
    if model.cost.t0 == 0.0:
        yield (
            "Larger batches take longer per sample, which t0 + c·b cannot express, so t0 is taken"
            " as 0."
        )
    if model.cost.c == 0.0:
        yield "Larger batches do not take longer, so c is taken as 0."
    if has_times:
        yield "Evaluation is assumed to speed up as training does."
    if link is not None and link.fit.largest_deviation > _MAX_MISFIT:
        yield (
            f"A measured all-reduce deviates by {percent_text(link.fit.largest_deviation)} from the"
            " fit of the link."
        )
    if link is not None and any(figure.devices > max(link.devices) for figure in figures):
        yield (
            f"All-reduces were measured on up to {max(link.devices)} devices. The same link is"
            " assumed for more devices."
        )
    if model.misfit > _MAX_MISFIT:
        yield (
            "The model is far from the measured steps: the system is different, the machine was"
            " busy, or a step has costs that the model does not have."
        )
