"""Rows of a comparison and their verdicts.

A verdict claims a difference only if the runs are sufficient evidence (docs/how-to/compare.md).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from suite.results.columns import Result, Run, column, epochs_trained
from suite.results.experiment_key import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME
from suite.results.ratios import SIGNIFICANCE, Interval, Ratio, permutation_test, ratio_text
from suite.results.scores import failures
from suite.results.text import epochs_text, rate_text, time_text


class RowKind(enum.Enum):
    """Kind of a row in the data of a comparison.

    The value of a member is its text in files.
    """

    RATIO = "ratio"
    REFUSED = "refused"
    CONVERGENCE = "convergence"


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """Row in the data of a comparison. The fields are the columns of files, in this order."""

    kind: RowKind = column("`ratio`, `refused`, or `convergence`", unknown=RowKind.RATIO)
    workload: str | None = column("Workload of both results")
    devices: int | None = column("Devices of both results")
    ours: str | None = column("Name of the result on the first side")
    theirs: str | None = column("Name of the result on the second side, or the published runs")
    quantity: str | None = column("Quantity that is compared: `time to target`")
    unit: str | None = column("Unit of both values")
    ours_value: float | None = column("Value on the first side")
    theirs_value: float | None = column("Value on the second side")
    ratio: float | None = column("How much better the first side is. Above 1 it is better")
    ratio_low: float | None = column("Lower end of the 95 % confidence interval of the ratio")
    ratio_high: float | None = column("Upper end of the 95 % confidence interval of the ratio")
    p: float | None = column("p value of the permutation test")
    runs_ours: int | None = column(
        "Successful runs on the first side. Unknown if only their mean is known"
    )
    runs_theirs: int | None = column(
        "Successful runs on the second side. Unknown if only their mean is known"
    )
    failed_ours: int | None = column("Failed runs on the first side, if there are any")
    failed_theirs: int | None = column("Failed runs on the second side, if there are any")
    verdict: str | None = column("The verdict, or the reason of a refusal")
    differences: str | None = column("Settings that differ, with both values")

    def columns(self) -> dict[str, Any]:
        """Return the values by column name in the form for files."""
        return {item.name: getattr(self, item.name) for item in fields(self)} | {
            "kind": self.kind.value
        }


COLUMNS = tuple(item.name for item in fields(ComparisonRow))
"""Column names of the data of a comparison."""


@dataclass(frozen=True)
class Quantity:
    """Quantity by which two results are compared, such as the time to target."""

    name: str
    unit: str
    verb: str
    """Verb between a side and its value, such as `took`."""
    claim: str
    """Sentence that a side is better, with the placeholders `{better}`, `{worse}`, and
    `{times}`.
    """
    value: Callable[[Result], float | None]
    value_of_run: Callable[[Run], float | None]
    """Function that returns the value of a run. The value of a result is the mean over runs."""
    ratio: Callable[[Ratio], float | None]
    interval: Callable[[Ratio], Interval | None]


def quantities(in_blocks: bool, epoch_unit: str) -> tuple[Quantity, ...]:
    """Return the quantities in which two results are compared, the most important quantity first.

    Args:
        in_blocks: The logs of both results separate setup, so time per epoch is the time of the
            blocks.
        epoch_unit: Unit in which the results count training up to the target.
    """
    epochs = replace(
        _EPOCHS, unit=epoch_unit, claim=f"{{worse}} needs {{times}} as many {epoch_unit}"
    )
    return _TIME, _EPOCH_TIME if in_blocks else _EPOCH_TIME_WITH_SETUP, epochs, _THROUGHPUT


def _scaled_seconds(run: Run) -> float | None:
    return None if run.seconds is None else run.seconds * (run.scaling_factor or 1.0)


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


_TIME = Quantity(
    name=TIME,
    unit="s",
    verb="took",
    claim="{better} is {times} faster",
    value=lambda result: result.seconds,
    value_of_run=_scaled_seconds,
    ratio=lambda measured: measured.total,
    interval=lambda measured: measured.intervals[0],
)
_EPOCH_TIME = Quantity(
    name=EPOCH_TIME,
    unit="s",
    verb="took",
    claim="{better} is {times} faster",
    value=lambda result: result.seconds_per_epoch,
    value_of_run=lambda run: _over(run.block_seconds, epochs_trained(run)),
    ratio=lambda measured: measured.throughput,
    interval=lambda measured: measured.intervals[1],
)
_EPOCH_TIME_WITH_SETUP = replace(
    _EPOCH_TIME,
    value=lambda result: result.seconds_over_epochs,
    value_of_run=lambda run: _over(run.seconds, epochs_trained(run)),
)
_EPOCHS = Quantity(
    name=EPOCHS,
    unit="epochs",
    verb="needed",
    claim="{worse} needs {times} as many epochs",
    value=lambda result: result.epochs,
    value_of_run=lambda run: run.epochs,
    ratio=lambda measured: measured.efficiency,
    interval=lambda measured: measured.intervals[2],
)
_THROUGHPUT = Quantity(
    name=THROUGHPUT,
    unit="samples/s",
    verb="trained",
    claim="{better} trains {times} as many samples/s",
    value=lambda result: result.samples_per_second,
    value_of_run=lambda run: _over(run.samples, run.train_seconds),
    ratio=lambda measured: measured.rate,
    interval=lambda measured: None if measured.total is not None else measured.intervals[1],
)


def quantity_title(quantity_name: str, epoch_unit: str) -> str:
    """Return the name of a quantity for results with a unit of epochs: `samples to target`."""
    if quantity_name == EPOCHS:
        return f"{epoch_unit} to target"
    return (
        f"time per {epoch_unit.removesuffix('s')}" if quantity_name == EPOCH_TIME else quantity_name
    )


def quantity_texts(quantity_name: str, *values: float) -> list[str]:
    """Format values of a quantity with its unit: `12.2 s`, `16.4`, `140,187 samples/s`.

    Epochs have no unit.

    Args:
        quantity_name: Name of the quantity.
        values: Values. Times get a common unit.
    """
    if quantity_name in (TIME, EPOCH_TIME):
        return [time_text(value, min(values)) for value in values]
    if quantity_name == EPOCHS:
        return [epochs_text(value) for value in values]
    return [f"{rate_text(value)} {_THROUGHPUT.unit}" for value in values]


def judge(
    quantity: Quantity, row: ComparisonRow, measured: Ratio, names: tuple[str, str]
) -> ComparisonRow:
    """Return a row with values, interval, p value, and verdict of a quantity.

    Args:
        quantity: The quantity. Its ratio in `measured` must be available.
        row: The row with the columns that all quantities share.
        measured: Ratio of the result of the first side (`after`) to the result of the second side
            (`before`).
        names: Names of the two sides in sentences.
    """
    ours, theirs = measured.after, measured.before
    values_ours, values_theirs = _values_of_runs(quantity, ours), _values_of_runs(quantity, theirs)
    p, smallest_p = permutation_test(values_ours, values_theirs) or (None, 1.0)
    interval = quantity.interval(measured)
    row = replace(
        row,
        kind=RowKind.RATIO,
        quantity=quantity.name,
        unit=quantity.unit,
        ours_value=quantity.value(ours),
        theirs_value=quantity.value(theirs),
        ratio=quantity.ratio(measured),
        ratio_low=None if interval is None else interval.low,
        ratio_high=None if interval is None else interval.high,
        p=p,
        runs_ours=len(values_ours) or None,
        runs_theirs=len(values_theirs) or None,
        failed_ours=ours.runs_failed or None,
        failed_theirs=theirs.runs_failed or None,
    )
    return replace(
        row, verdict=_verdict(quantity, row, {names[0]: ours, names[1]: theirs}, smallest_p)
    )


def _values_of_runs(quantity: Quantity, result: Result) -> list[float | None]:
    """Return the value of each run. Published means without individual runs return []."""
    return [] if result.single_figure else [quantity.value_of_run(run) for run in result.runs]


def _verdict(
    quantity: Quantity, row: ComparisonRow, sides: Mapping[str, Result], smallest_p: float
) -> str:
    """Return the verdict on a quantity.

    If failed runs invalidate the official score of a side, the verdict calls neither side better.

    Args:
        quantity: The quantity.
        row: Columns with the values of the quantity.
        sides: Result of each side, by the name of the side.
        smallest_p: The smallest p value that is possible with this number of runs.
    """
    verdict = _verdict_on_successful_runs(quantity, row, tuple(sides), smallest_p)
    failed = {name: failures(result) for name, result in sides.items() if result.runs_failed}
    if not failed or quantity.name == THROUGHPUT:
        return verdict
    failed_text = " and ".join(f"{runs} of {name}" for name, (runs, _) in failed.items())
    unscored = " and ".join(name for name, (_, has_score) in failed.items() if not has_score)
    if unscored:
        consequence = f"so {unscored} has no official score and neither side is called better"
        return f"{_values_text(quantity, row, tuple(sides))}. {failed_text} failed, {consequence}."
    not_in_p = "" if row.p is None else " and do not count in p"
    return f"{verdict} {failed_text} failed{not_in_p}."


def _texts(row: ComparisonRow) -> list[str]:
    """Return the values of both sides with units."""
    assert row.quantity is not None
    assert row.ours_value is not None
    assert row.theirs_value is not None
    return quantity_texts(row.quantity, row.ours_value, row.theirs_value)


def _are_equal(row: ComparisonRow) -> bool:
    """Check whether the formatted values are equal and the ratio rounds to 1."""
    ours, theirs = _texts(row)
    assert row.ratio is not None
    return ours == theirs and ratio_text(row.ratio) == "1.00"


def _values_text(quantity: Quantity, row: ComparisonRow, names: tuple[str, ...]) -> str:
    """Return both values, the better side first: `B took 8.6 s, A 9.7 s`."""
    sides = list(zip(names, _texts(row), strict=True))
    if _are_equal(row):
        return f"No difference ({sides[0][1]} each)"
    assert row.ratio is not None
    if row.ratio < 1:
        sides.reverse()
    (better, better_value), (worse, worse_value) = sides
    return f"{better} {quantity.verb} {better_value}, {worse} {worse_value}"


def _verdict_on_successful_runs(
    quantity: Quantity, row: ComparisonRow, names: tuple[str, ...], smallest_p: float
) -> str:
    """Return the verdict on the successful runs.

    The verdict claims a difference only if the runs are sufficient evidence.
    """
    assert row.ratio is not None
    values = _values_text(quantity, row, names)
    counts = (row.runs_ours, row.runs_theirs)
    if counts == (1, 1):
        return f"{values}. One run per side is too few to judge."
    if row.p is None and row.runs_ours is not None and row.runs_theirs is not None and 1 in counts:
        return (
            f"{values}. One run against {max(row.runs_ours, row.runs_theirs)} is too few to judge."
        )
    if row.p is None:
        return f"{values}. Without single runs, run-to-run variation is unknown."
    interval = _interval_of_better(row)
    interval_text = ""
    if interval is not None:
        interval_text = (
            f" (95 % confidence interval {ratio_text(interval.low)} to {ratio_text(interval.high)})"
        )
    evidence = f"{_p_text(row.p)}, {row.runs_ours} against {row.runs_theirs} runs"
    times = ratio_text(max(row.ratio, 1 / row.ratio))
    if row.p < SIGNIFICANCE and (interval is None or interval.low > 1):
        if times == "1.00":
            return f"{values}." if _are_equal(row) else f"Less than 0.5 % apart: {values}."
        better, worse = names if row.ratio >= 1 else reversed(names)
        claim = quantity.claim.format(better=better, worse=worse, times=f"{times}×")
        return f"{claim}{interval_text}. This is more than run-to-run variation ({evidence})."
    if _are_equal(row):
        return f"{values}."
    if smallest_p >= SIGNIFICANCE:
        why = (
            f"{row.runs_ours} against {row.runs_theirs} runs are too few to judge "
            f"(the smallest possible p is {smallest_p:.2g})"
        )
    elif row.p >= SIGNIFICANCE:
        why = f"This is not more than run-to-run variation ({evidence})"
    else:
        why = f"{evidence}, but the interval includes 1"
    return f"No difference shown: {values}{interval_text}. {why}."


def _interval_of_better(row: ComparisonRow) -> Interval | None:
    """Return the interval of the ratio between the better and the worse side.

    The function returns None without an interval.
    """
    assert row.ratio is not None
    if not row.ratio_low or not row.ratio_high:
        return None
    if row.ratio >= 1:
        return Interval(row.ratio_low, row.ratio_high)
    return Interval(1 / row.ratio_high, 1 / row.ratio_low)


def _p_text(p: float) -> str:
    return "p below 0.001" if p < 0.0005 else f"p = {p:.3f}"


def is_known_ratio(value: float | None) -> bool:
    """Check whether a ratio is a positive finite number."""
    return bool(value) and value is not None and math.isfinite(value)
