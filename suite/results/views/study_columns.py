"""What the columns of a study's table hold, by the name that a study's file gives them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from suite.results.columns import Result, kind_of, own_fields, with_time
from suite.results.combine import share_of
from suite.results.identity import heading
from suite.results.logs.all_reduce import AllReduceTime, bus_bandwidth
from suite.results.logs.events import number
from suite.results.predict.fits import fit_link
from suite.results.price import Prices, cost_of
from suite.results.published import ARTICLE
from suite.results.ratios import ratio
from suite.results.scores import published_results
from suite.results.series import Series, all_series

_PASSES = {"train": 3, "forward_backward": 3}  # multiply-adds over a forward pass's: backward has two for each


@dataclass(frozen=True)
class Line:
    """One line of a study's table: key to value, in order of the study's keys, and what was measured."""

    values: Mapping[str, str]
    row: Result | None
    """A result; None: nothing was measured, and `shown` is `OOM`, `–` (not possible), `failed` or `not run`."""
    shown: str = "measured"
    notes: tuple[str, ...] = ()
    """Why, or its own labels and in what else the line differs from the others."""


@dataclass(frozen=True)
class Context:
    """The lines of a study that have figures, in order, and the prices of devices."""

    lines: Sequence[Line]
    prices: Prices | None = None

    def series_of(self, result: Result) -> Series[Result] | None:
        """Return the series that a result of the study belongs to; None for a result without a time and without a rate."""
        return self._series.get(result.key)

    @functools.cached_property
    def _series(self) -> Mapping[str, Series[Result]]:
        results = [line.row for line in self.lines if line.row is not None]
        return {result.key: series for series in all_series(results) for result in series}


def value(name: str, line: Line, context: Context) -> float | None:
    """What a column holds for a line; None where it was not measured."""
    return None if line.row is None else COLUMNS[name](line.row, line, context)


def column_names(listed: object) -> list[str]:
    """The columns that a study lists and that there are, and the cost of what has a price; default: samples/s and ms/step."""
    listed = listed if isinstance(listed, list) else []
    names = [name for name in listed if isinstance(name, str) and name in COLUMNS]
    return list(dict.fromkeys([*(names or ["samples/s", "ms/step"]), "cost", "cost/million"]))


def device_batch(row: Result) -> float | None:
    """Of a step on one device, in the batch's unit."""
    return row.batch_size_global / row.devices if row.batch_size_global and row.devices else None


Column = Callable[[Result, Line, Context], float | None]


def _of(name: str, factor: float = 1.0) -> Column:
    """A column of the result."""
    return lambda row, line, context: _times(getattr(row, name), factor)


def _link(name: str, factor: float) -> Column:
    """A figure of the link that all sizes of all-reduces fit."""
    return lambda row, line, context: _times(getattr(fit_link(row.all_reduces), name, None), factor)


def _sums(of: Callable[[AllReduceTime], float]) -> Column:
    """Mean over runs of what `of` makes of their all-reduces."""
    return lambda row, line, context: fmean(map(of, row.all_reduces)) if row.all_reduces else None


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else float(value) * factor


def _cost(row: Result, context: Context, seconds: float | None) -> float | None:
    """Devices x hours x price of a device for an hour: as given now, else as the log has it."""
    price = row.price if context.prices is None else context.prices.price(row)
    return cost_of(price, row.devices, seconds) if price is not None and seconds and row.devices else None


def _seconds(row: Result) -> Any:
    """To the target, or of the whole run."""
    return row.seconds if row.seconds is not None else row.run_seconds


def _ms_per_sample(row: Result, line: Line, context: Context) -> float | None:
    """Of one device. A batch may count tokens: its runs then tell how many samples a step has."""
    counted = _times(share_of("samples", ["steps"])(row.runs, ""), 1 / (row.devices or 1))
    batch = device_batch(row) if row.batch_unit in ("", "samples") else counted
    return row.step_ms / batch if row.step_ms and batch else None


def _megapixels(row: Result, line: Line, context: Context) -> float | None:
    side, rate = number((row.hyperparameters or {}).get("input_image_size")), row.samples_per_second
    return side * side * rate / 1e6 if side and rate else None


def _tflops(row: Result, line: Line, context: Context) -> float | None:
    adds, rate = row.model_multiply_adds, row.samples_per_second  # two operations each
    return 2 * adds * rate * _PASSES.get(row.mode, 1) / 1e12 if adds and rate else None


def _others(line: Line, context: Context, *keys: str) -> list[Result]:
    """The results of the lines that are equal in every other key."""
    rest = [key for key in line.values if key not in keys]
    alike = (one.row for one in context.lines if all(one.values[key] == line.values[key] for key in rest))
    return [row for row in alike if row is not None]


def _speedup(row: Result, line: Line, context: Context) -> float | None:
    """Return the speedup over the baseline of the result's series; 1 for the baseline."""
    series = context.series_of(row)
    if series is None:
        return None
    speedup = series.speedup(row)
    return 1.0 if speedup is None else speedup.value


def _per_device(row: Result, line: Line, context: Context) -> float | None:
    """Return the speedup divided by the ratio of devices."""
    series = context.series_of(row)
    if series is None or not series.baseline.devices or not row.devices:
        return None
    return _times(_speedup(row, line, context), series.baseline.devices / row.devices)


def _doubling(row: Result, line: Line, context: Context) -> float | None:
    """t(2b) / 2t(b): above 1 where a sample takes longer in this batch than in half of it."""
    batch = device_batch(row) or 0.0
    halves = (one.step_ms for one in _others(line, context, "batch") if device_batch(one) == batch / 2)
    half = next((ms for ms in halves if ms), None)
    return row.step_ms / (2 * half) if half and row.step_ms else None


def _article_minutes(row: Result, line: Line, context: Context) -> float | None:
    """Of the DGX-1 scaling article, beside runs that train what it trained."""
    rows = with_time(one for one in published_results() if one.round == ARTICLE and row.profile == "reference")
    return next(
        (one.target_seconds / 60 for one in rows if (one.workload, one.device_count) == (row.workload, row.devices)),
        None,
    )


_FIGURES = [item for item in own_fields(Result) if kind_of(item) in ("number", "count")]
COLUMNS: Mapping[str, Column] = {
    **{name: _of(item.name) for item in _FIGURES for name in (item.name, heading(item.name))},
    "megapixels/s": _megapixels,
    "ms/sample": _ms_per_sample,
    "ms mean": lambda row, line, context: row.step_ms if row.steps_timed else None,
    "t(2b)/2t(b)": _doubling,
    "memory GB": _of("memory_bytes", 1e-9),
    "host GB": _of("host_memory_bytes", 1e-9),
    "J/sample": lambda row, line, context: share_of("energy_joules", ["samples"])(row.runs, ""),
    "MB/s data": lambda row, line, context: _times(share_of("data_bytes", ["train_seconds"])(row.runs, ""), 1e-6),
    "TFLOP/s": _tflops,
    "gradient MB": _of("model_parameters", 4 / 1e6),  # fp32, as all three frameworks sum them
    "latency µs": _sums(lambda sums: 1e6 * sums.sizes[0].median_seconds),
    "α µs": _link("alpha_seconds", 1e6),
    "± α": _link("alpha_error", 1e6),
    "B GB/s": _link("bytes_per_second", 1e-9),
    "± B": _link("bandwidth_error", 1e-9),
    "bus GB/s": _sums(
        lambda sums: max(bus_bandwidth(one.size_bytes, one.median_seconds, sums.devices) for one in sums.sizes) / 1e9
    ),
    "fit off by %": _link("largest_deviation", 100.0),
    "seconds": lambda row, line, context: _seconds(row),
    "time": _of("seconds"),  # name of the column in study files written before its heading became `time to target`
    "minutes": lambda row, line, context: _times(_seconds(row), 1 / 60),
    "minutes/epoch": _of("seconds_per_epoch", 1 / 60),
    "speedup": _speedup,
    "per device": _per_device,
    "over first": lambda row, line, context: ratio(context.lines[0].row or row, row, False).value,
    "article minutes": _article_minutes,
    "cost": lambda row, line, context: _cost(row, context, _seconds(row)),
    "cost/million": lambda row, line, context: _cost(row, context, 1e6 / (row.samples_per_second or math.inf)),
}
"""Name of a column to its value, None where it was not measured: those of results, by name or heading, and others."""
