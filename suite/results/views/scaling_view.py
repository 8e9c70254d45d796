"""`suite scaling`: predictions and measured results in a table.

The module also prints the validation of the scaling model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from suite.results.columns import EPOCH_COLUMNS, EPOCHS
from suite.results.data_table import DataTable
from suite.results.predict import scaling_model
from suite.results.predict.predictions import MEASURED, PREDICTION, Prediction, PredictionRow
from suite.results.predict.validate import (
    MAIN_PROTOCOLS,
    PROTOCOLS,
    RULES,
    Validation,
    errors,
    select,
)
from suite.results.scores import merged_labels
from suite.results.text import (
    cost_text,
    devices_text,
    figure_text,
    percent_text,
    range_text,
    time_text,
)
from suite.results.views.section import NOT_VERIFIED, Section, View, target_and_data_facts

if TYPE_CHECKING:
    import pandas as pd

_RANGES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "epoch_range": ("seconds_per_epoch", time_text),
    "time_range": ("seconds", time_text),
    "device_hours_range": ("device_hours", figure_text),
    "cost_range": ("cost", cost_text),
}
"""Columns of ranges, with the bounded column and the number format."""
_SHOWN = (
    "devices", "kind", "global_batch_size", "seconds_per_epoch", "epoch_range",
    "samples_per_second",
    "training_samples_per_second", "epochs", "epochs_source", "seconds", "time_range",
    "device_hours",
    "device_hours_range", "cost", "cost_range", "scaling_efficiency", "binds",
)  # fmt: skip
"""Columns of tables.

The bounds of a value are combined into one column, such as `90.8–104.8 s`. Only files contain all
bounds.
"""
_KEY_COLUMNS = _SHOWN[:3]
_WORST_SHOWN = 12
"""Maximum number of results with the largest errors that the validation shows."""


def scaling_view(predictions: Sequence[Prediction]) -> View:
    """Return predictions as a document."""
    introduction = (
        "Rows of kind prediction were not measured. suite scaling --validate shows the errors of"
        " such predictions for published results."
    )
    sections = []
    data: list[dict[str, Any]] = []
    method_before = ""
    for prediction in predictions:
        method = (
            prediction.how
            if prediction.how != method_before
            else "The same, with bounds of the same kind."
        )
        method_before = prediction.how
        sections.append(
            Section(
                prediction.title,
                table=_shown_table(prediction),
                facts=(*target_and_data_facts(prediction.results), ("Method", method)),
                below=(*_answers(prediction.rows), *prediction.notes),
                keys=2,
            )
        )
        first = prediction.results[0]
        common = {
            "forecast": prediction.title,
            "workload": first.workload,
            "profile": first.profile,
            "how": prediction.how,
            "labels": merged_labels(prediction.results),
            "batch_unit": first.batch_unit or "samples",
            "epoch_unit": first.epoch_unit,
            "sample_unit": first.sample_unit or "samples",
        }
        data += [common | row.columns() for row in prediction.rows]
    return View(
        "Predicted scaling",
        tuple(sections),
        DataTable.from_rows(data),
        (NOT_VERIFIED, introduction),
    )


def _shown_table(prediction: Prediction) -> DataTable:
    """Return the table of a prediction.

    Results that count samples (or tokens) to target have no time per epoch.
    """
    table = _with_ranges(prediction).only(_SHOWN)
    unit = prediction.results[0].epoch_unit
    if unit != EPOCHS:
        counts = [None if row.epochs is None else round(row.epochs) for row in prediction.rows]
        table = table.with_column("epochs", counts).renamed({"epochs": EPOCH_COLUMNS[unit]})
        table = table.without("seconds_per_epoch", "epoch_range")
    return table.without_empty(_KEY_COLUMNS)


def _with_ranges(prediction: Prediction) -> DataTable:
    """Return the table of a prediction with the columns of `_RANGES`.

    Measured rows have no range.
    """
    table = prediction.table
    for name, (figure, text) in _RANGES.items():
        table = table.with_column(name, [_range(row, figure, text) for row in prediction.rows])
    return table


def _range(row: PredictionRow, figure: str, text: Callable[[float], str]) -> str:
    """Return the bounds of a value as text with its unit, or an empty string."""
    middle, low, high = row.bounded(figure)
    if middle is None or low is None or high is None:
        return ""
    return range_text(low, high, middle) if text is time_text else f"{text(low)}–{text(high)}"


def _answers(rows: Sequence[PredictionRow]) -> Iterator[str]:
    """Yield sentences on the device counts with the shortest time and fewest device-hours."""
    with_times = [row for row in rows if row.seconds and row.device_hours]
    if not with_times:
        return
    scope = ", among the device counts with a known time" if len(with_times) < len(rows) else ""
    shortest = min(with_times, key=lambda row: row.seconds or 0.0)
    fewest = min(with_times, key=lambda row: row.device_hours or 0.0)
    time = f"{time_text(shortest.seconds or 0.0)}{_bounds_text(shortest, 'seconds', time_text)}"
    bounds = _bounds_text(fewest, "device_hours", figure_text)
    hours = f"{figure_text(fewest.device_hours or 0.0)}{bounds} device-hours"
    if fewest.cost is not None:
        hours += f", cost {cost_text(fewest.cost)}{_bounds_text(fewest, 'cost', cost_text)}"
    yield (
        f"Shortest time to target{scope}: {devices_text(shortest.devices)}, {_kind_text(shortest)}"
        f" {time}."
    )
    yield (
        f"Fewest device-hours{scope}: {devices_text(fewest.devices)}, {_kind_text(fewest)} {hours}."
    )


def _kind_text(row: PredictionRow) -> str:
    return {MEASURED: "measured", PREDICTION: "predicted"}[row.kind]


def _bounds_text(row: PredictionRow, figure: str, text: Callable[[float], str]) -> str:
    """Return the bounds of a value as text, such as ` (2.8 s to 3.7 s)`.

    The text is empty for a measured row.
    """
    _, low, high = row.bounded(figure)
    return f" ({text(low)} to {text(high)})" if low and high else ""


def validation_view(result: Validation) -> View:
    """Return the validation of the scaling model.

    The validation contains the errors of the model and of simpler rules, the limits, later rounds,
    and the largest errors.
    """
    left_out = ", ".join(f"{reason} ({count})" for reason, count in result.left_out.items())
    count = sum(map(len, result.families))
    introduction = (
        f"{count} results in {len(result.families)} families, closed division, NVIDIA GPUs. The"
        " quantity is the time per epoch with evaluation. The prediction of a result never uses"
        f" its time. Left out: {left_out}."
    )
    protocols = (
        "One row left out: predicted from the other results of its family. Smallest row: predicted"
        " from the family's result on the fewest devices, with constants that were fitted without"
        " the family. New machine: the constants were also fitted without all results of the"
        " accelerator or the submitter."
    )
    models = {
        workload: (
            scaling_model.ScalingModel(
                scaling_model.families_of_workload(result.families, workload)
            ).constants
        )
        for workload in scaling_model.WORKLOADS
    }
    constants = ", ".join(
        f"{workload} {b_half:.3g} samples and {exponent:g}"
        for workload, (b_half, exponent) in models.items()
    )
    worst = select(result.held, MAIN_PROTOCOLS[0]).rename(columns={"error": "signed_error"})
    worst = worst.loc[worst["signed_error"].abs().nlargest(_WORST_SHOWN).index]
    level = percent_text(scaling_model.LEVEL)
    by_round = [
        {"round": round_name, "workload": workload, "predicted": protocol, **errors(rows)}
        for (round_name, workload), held in result.later.groupby(["round", "workload"])
        for protocol in MAIN_PROTOCOLS
        if len(rows := select(held, protocol))
    ]
    later_rounds = sorted({family[0].round for family in result.later_families})
    later_count = sum(map(len, result.later_families))
    last_round = scaling_model.CONSTANTS_UP_TO[-1]
    columns = ["run", "workload", "devices", "batch_per_device", "signed_error"]
    sections = (
        Section(
            "",
            (introduction, protocols),
            _error_table(result.held),
            below=(f"Most likely b_half and p: {constants}.",),
            keys=2,
        ),
        Section("Limits", (), DataTable.from_frame(result.bars)),
        Section(
            f"Rounds after {last_round}, with b_half and p fitted to the rounds up to it",
            (),
            _error_table(result.later),
            keys=2,
        ),
        Section(
            "The same rounds separately, scaling model", (), DataTable.from_rows(by_round), keys=3
        ),
        Section(
            f"Workloads of rounds {', '.join(later_rounds)}, which have no limits",
            (),
            DataTable.from_rows(_later_rows(result)),
            below=(
                "Inside: share of results inside the 90 % interval of a prediction.",
                f"{later_count} results in {len(result.later_families)} families. The parameters of"
                " each workload are fitted to these results, without the family that is predicted.",
            ),
            keys=2,
        ),
        Section(
            f"The {_WORST_SHOWN} largest errors, one row left out",
            (),
            DataTable.from_frame(worst[columns]),
            below=(
                (
                    f"An interval of {result.factor:.2f} spreads contains {level} of all held-out"
                    " results."
                ),
            ),
        ),
    )
    return View(
        "Validation of the scaling model on published results",
        sections,
        DataTable.from_frame(result.held),
    )


def _later_rows(result: Validation) -> Iterator[dict[str, Any]]:
    """Yield the errors of the model and of perfect scaling for each later workload and protocol."""
    linear = next(rule for rule, grid in RULES.items() if grid is scaling_model.LINEAR_GRID)
    for workload in scaling_model.LATER_WORKLOADS:
        held = result.later_workloads[result.later_workloads["workload"] == workload]
        for protocol in MAIN_PROTOCOLS:
            found = errors(select(held, protocol))
            yield {
                "workload": workload,
                "predicted": protocol,
                **found,
                "perfect_scaling_median_error": errors(select(held, protocol, linear))[
                    "median_error"
                ],
                "inside_share": result.later_coverage(workload, protocol),
            }


def _error_table(held: pd.DataFrame) -> DataTable:
    return DataTable.from_rows(
        {"predicted": protocol, "rule": rule, **errors(select(held, protocol, rule))}
        for protocol in PROTOCOLS
        for rule in RULES
    )
