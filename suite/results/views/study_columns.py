"""Columns of study tables, by the names that study files use for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from suite.results.columns import Column, Result, declared_fields, kind_of, with_time
from suite.results.combine import share_of
from suite.results.experiment_key import heading
from suite.results.logs.all_reduce import AllReduceTime, bus_bandwidth
from suite.results.logs.events import number
from suite.results.predict.fits import fit_link
from suite.results.price import Prices, cost_of
from suite.results.published_results import ARTICLE
from suite.results.ratios import ratio
from suite.results.scores import published_results
from suite.results.series import Series, all_series

_FORWARD_PASSES = {"train": 3, "forward_backward": 3}
"""Number of multiply-adds of a training step in each mode, as a multiple of a forward pass.

A backward pass has twice as many multiply-adds as a forward pass.
"""
_DEFAULT_COLUMNS = ("samples/s", "ms/step")
_COST_COLUMNS = ("cost", "cost/million")


@dataclass(frozen=True)
class StudyLine:
    """Line of a study table: the values of the study's keys, and the matching result."""

    values: Mapping[str, str]
    """Maps each key of the study, in order, to the key's value in this line."""
    result: Result | None
    """The result for these values, or None if all runs failed."""
    outcome: str = "measured"
    """`measured`, `OOM`, `–` (the combination is not supported), `not run`, or the status of the
    failed run.
    """
    notes: tuple[str, ...] = ()
    """Reason why the result is missing, or labels and settings that only some lines have."""


@dataclass(frozen=True)
class StudyContext:
    """The measured lines of a study in order, and the prices of devices."""

    lines: Sequence[StudyLine]
    prices: Prices | None = None

    def series_of(self, result: Result) -> Series[Result] | None:
        """Return the series of a result.

        Returns None for a result with neither a time to target nor a throughput.
        """
        return self._series.get(result.key)

    @functools.cached_property
    def _series(self) -> Mapping[str, Series[Result]]:
        results = [line.result for line in self.lines if line.result is not None]
        return {result.key: series for series in all_series(results) for result in series}

    def similar_results(self, line: StudyLine, *keys: str) -> Iterator[Result]:
        """Yield the results of the lines that differ from `line` only in `keys`."""
        fixed_keys = [key for key in line.values if key not in keys]
        for candidate in self.lines:
            is_similar = all(candidate.values[key] == line.values[key] for key in fixed_keys)
            if candidate.result is not None and is_similar:
                yield candidate.result


StudyValue = Callable[[Result, StudyLine, StudyContext], float | None]
"""Function that computes the value of a column. Its arguments are a result, the line of the result,
and the study.
"""


def column_value(name: str, line: StudyLine, context: StudyContext) -> float | None:
    """Return the value of a column for a line, or None if the value was not measured."""
    column = STUDY_COLUMNS[name]
    if line.result is None or column.value is None:
        return None
    value: float | None = column.value(line.result, line, context)
    return value


def column_names(listed: object) -> list[str]:
    """Return the column names of a study table.

    The names are the valid column names that the study file lists, and the cost columns. If the
    study file lists no columns, the default names are used.
    """
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    existing = [name for name in names if name in STUDY_COLUMNS]
    return list(dict.fromkeys([*(existing or _DEFAULT_COLUMNS), *_COST_COLUMNS]))


def batch_per_device(result: Result) -> float | None:
    """Return the batch size per device in the batch unit of the workload."""
    if not result.global_batch_size or not result.devices:
        return None
    return result.global_batch_size / result.devices


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else float(value) * factor


def _field(name: str, factor: float = 1.0) -> StudyValue:
    """Return a column function that reads a field of the result and scales it."""
    return lambda result, line, context: _scaled(getattr(result, name), factor)


def _link(name: str, factor: float) -> StudyValue:
    """Return a column function that reads a constant of the fitted link.

    The constant is the latency, for example. The link is fitted to the all-reduces of all message
    sizes.
    """
    return lambda result, line, context: _scaled(
        getattr(fit_link(result.all_reduces), name, None), factor
    )


def _all_reduce(value: Callable[[AllReduceTime], float]) -> StudyValue:
    """Return a column function that averages `value` over the all-reduce runs of a result."""
    return lambda result, line, context: (
        fmean(map(value, result.all_reduces)) if result.all_reduces else None
    )


def _per_sample(name: str, divisor: str, factor: float = 1.0) -> StudyValue:
    """Return a column function that divides the sum of `name` by the sum of `divisor`.

    Both sums are computed over all runs of a result.
    """
    quotient = share_of(name, [divisor])
    return lambda result, line, context: _scaled(quotient(result.runs, ""), factor)


def _latency_us(times: AllReduceTime) -> float:
    return 1e6 * times.sizes[0].median_seconds


def _bus_gb_per_second(times: AllReduceTime) -> float:
    return (
        max(
            bus_bandwidth(size.size_bytes, size.median_seconds, times.devices)
            for size in times.sizes
        )
        / 1e9
    )


def _seconds(result: Result) -> float | None:
    """Return the time to target. For runs of fixed length, return the duration of the run."""
    return result.seconds if result.seconds is not None else result.run_seconds


def _run_seconds(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    return _seconds(result)


def _run_minutes(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    return _scaled(_seconds(result), 1 / 60)


def _mean_of_timed_steps(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    return result.step_ms if result.steps_timed else None


def _ms_per_sample(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    """Return the time per sample on one device in ms.

    If the batch size is in tokens, the number of samples per step is computed from the runs.
    """
    batch = batch_per_device(result)
    if result.batch_unit not in ("", "samples"):
        batch = _scaled(share_of("samples", ["steps"])(result.runs, ""), 1 / (result.devices or 1))
    return result.step_ms / batch if result.step_ms and batch else None


def _megapixels_per_second(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    side, rate = (
        number((result.hyperparameters or {}).get("input_image_size")),
        result.samples_per_second,
    )
    return side * side * rate / 1e6 if side and rate else None


def _tflops(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    """Return the TFLOP/s of a result.

    A multiply-add counts as two floating-point operations.
    """
    multiply_adds, rate = result.model_multiply_adds, result.samples_per_second
    if not multiply_adds or not rate:
        return None
    return 2 * multiply_adds * rate * _FORWARD_PASSES.get(result.mode, 1) / 1e12


def _speedup(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    """Return the speedup over the baseline of the result's series.

    The speedup of the baseline is 1.
    """
    series = context.series_of(result)
    if series is None:
        return None
    speedup = series.speedup(result)
    return 1.0 if speedup is None else speedup.value


def _speedup_per_device(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    """Return the speedup over the baseline divided by the ratio of device counts."""
    series = context.series_of(result)
    if series is None or not series.baseline.devices or not result.devices:
        return None
    return _scaled(_speedup(result, line, context), series.baseline.devices / result.devices)


def _ratio_to_first(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    first = context.lines[0].result or result
    return ratio(first, result, False).value


def _doubling(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    """Return the step time divided by twice the step time at half of the batch size.

    A ratio above 1 means that a sample takes longer at this batch size than at half of this batch
    size.
    """
    half_batch = (batch_per_device(result) or 0.0) / 2
    for candidate in context.similar_results(line, "batch"):
        if batch_per_device(candidate) == half_batch and candidate.step_ms and result.step_ms:
            return result.step_ms / (2 * candidate.step_ms)
    return None


def _article_minutes(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    """Return the DGX-1 scaling article's time on the same number of devices, in minutes.

    Returns None unless the result is from reference runs.
    """
    if result.profile != "reference":
        return None
    for published in with_time(published_results()):
        is_same = (published.workload, published.devices) == (result.workload, result.devices)
        if published.round == ARTICLE and is_same:
            return published.target_seconds / 60
    return None


def _cost(result: Result, context: StudyContext, seconds: float | None) -> float | None:
    """Return the cost of a result: devices × hours × price per device-hour.

    The price is read from the command line or from the log.
    """
    price = result.price if context.prices is None else context.prices.price(result)
    if price is None or not seconds or not result.devices:
        return None
    return cost_of(price, result.devices, seconds)


def _run_cost(result: Result, line: StudyLine, context: StudyContext) -> float | None:
    return _cost(result, context, _seconds(result))


def _cost_of_million_samples(
    result: Result, line: StudyLine, context: StudyContext
) -> float | None:
    return _cost(
        result, context, 1e6 / result.samples_per_second if result.samples_per_second else None
    )


def _column(heading: str, text: str, value: StudyValue) -> Column:
    """Declare a numeric column that only studies have."""
    return Column(text, value, kind="number", heading=heading)


def _result_columns() -> Iterator[tuple[str, Column]]:
    """Yield the numeric columns of results that a study table can show.

    Each column is yielded twice, with its name and with its heading. suite.results.columns defines
    these columns.
    """
    for item in declared_fields(Result):
        if kind_of(item) in ("number", "count"):
            declared: Column = item.metadata["column"]
            for name in (item.name, heading(item.name)):
                yield name, _column(name, declared.text, _field(item.name))


_STUDY_COLUMNS = (
    _column("megapixels/s", "Pixels of training per second, in millions", _megapixels_per_second),
    _column("ms/sample", "Time of a sample on a device", _ms_per_sample),
    _column(
        "ms mean", "Mean time of the steps, if each was timed separately", _mean_of_timed_steps
    ),
    _column(
        "t(2b)/2t(b)",
        "Above 1 if a sample takes longer in this batch than in half the batch",
        _doubling,
    ),
    _column(
        "memory GB", "Peak memory of the first device or process", _field("memory_bytes", 1e-9)
    ),
    _column("host GB", "Peak memory of all processes", _field("host_memory_bytes", 1e-9)),
    _column(
        "J/sample", "Energy of all devices per sample", _per_sample("energy_joules", "samples")
    ),
    _column(
        "MB/s data", "Bytes of batches per second", _per_sample("data_bytes", "train_seconds", 1e-6)
    ),
    _column("TFLOP/s", "Floating-point operations per second of all devices", _tflops),
    _column(
        "gradient MB",
        "Size of the gradients in fp32, in which frameworks sum them",
        _field("model_parameters", 4e-6),
    ),
    _column("latency µs", "Median time of the smallest all-reduce", _all_reduce(_latency_us)),
    _column("α µs", "Latency of the fitted link", _link("alpha_seconds", 1e6)),
    _column("± α", "Standard error of α", _link("alpha_error", 1e6)),
    _column("B GB/s", "Bandwidth of the fitted link", _link("bytes_per_second", 1e-9)),
    _column("± B", "Standard error of B", _link("bandwidth_error", 1e-9)),
    _column(
        "bus GB/s",
        "Largest bus bandwidth of all sizes, as nccl-tests define it",
        _all_reduce(_bus_gb_per_second),
    ),
    _column(
        "fit off by %",
        "Largest deviation of a measurement from the fit",
        _link("largest_deviation", 100.0),
    ),
    _column("seconds", "Time to the target, or length of the runs", _run_seconds),
    _column("time", "Time to the target. Older study files use this name", _field("seconds")),
    _column("minutes", "Time to the target, or length of the runs", _run_minutes),
    _column("minutes/epoch", "Time per epoch", _field("seconds_per_epoch", 1 / 60)),
    _column("speedup", "Speedup over the baseline of the series", _speedup),
    _column("per device", "Speedup divided by the ratio of devices", _speedup_per_device),
    _column("over first", "Ratio to the first line of the study", _ratio_to_first),
    _column(
        "article minutes",
        "Time in the DGX-1 scaling article on the same number of devices",
        _article_minutes,
    ),
    _column("cost", "Devices × hours × price", _run_cost),
    _column("cost/million", "Cost of training on a million samples", _cost_of_million_samples),
)
STUDY_COLUMNS: Mapping[str, Column] = {
    **dict(_result_columns()),
    **{column.heading: column for column in _STUDY_COLUMNS},
}
"""Maps each name that a study file may list to a column."""
