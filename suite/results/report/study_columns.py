"""What the columns of a study's table hold, by the name that a study's file gives them."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.logs.all_reduce import bus_bandwidth
from suite.results.logs.events import number
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import Telemetry, json_lines, telemetry, telemetry_files
from suite.results.names import workload_name
from suite.results.published.csv_files import ARTICLE, load_published_results
from suite.results.report.study_lines import Line
from suite.results.report.time_fractions import row_time_fractions
from suite.results.score.groups import Row
from suite.results.score.link_fit import LinkFit, fit_link
from suite.results.score.measurement import measurements, samples_per_batch_unit
from suite.results.score.price import Prices, cost_of

_BYTES_OF_A_GRADIENT = 4
"""fp32, as all three frameworks sum them."""
_PASSES = {"train": 3, "forward_backward": 3, "forward": 1, "inference": 1}
"""Multiply-adds of a step over those of a forward pass: the backward pass has two for each."""


@dataclass(frozen=True)
class Context:
    """What a column may look at beside its own line."""

    lines: Sequence[Line]
    """Those with figures, in order."""
    prices: Prices | None = None


Column = Callable[[Row, Line, Context], float | None]


def records(row: Row) -> list[RunRecord]:
    """The logs of a row's successful runs."""
    return [run.reading.record for run in row.attempts if run.succeeded and run.reading is not None]


def samples_per_second(row: Row) -> float | None:
    """All samples over all training seconds."""
    return row.score.samples_per_second


def step_seconds(row: Row) -> float | None:
    """Mean time of a step: as timed one by one where they were, else of whole stretches."""
    each = _step_times(row, "mean_ms")
    if each is not None:
        return each / 1e3
    seconds = sum(
        block.train_seconds or 0.0 for one in records(row) for block in one.throughput if block.step is not None
    )
    steps = sum(record.timed_steps for record in records(row))
    return seconds / steps if steps and seconds > 0 else None


def device_batch(row: Row) -> float | None:
    """Of a step on one device, in the batch's unit."""
    group = row.group
    return group.batch_size_global / group.devices if group.batch_size_global and group.devices else None


def _step_times(row: Row, name: str) -> float | None:
    """A figure of `suite_step_times`, mean over runs."""
    return _mean(record.step_times.get(name) for record in records(row))


def _staleness(row: Row, name: str) -> float | None:
    """A figure of `suite_staleness`, mean over runs."""
    return _mean(record.staleness.get(name) for record in records(row))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _sensor(row: Row, name: str, of: Callable[[list[float]], float] = statistics.fmean) -> float | None:
    """Mean over runs of what `of` makes of a sensor's values."""
    found = []
    for record in records(row):
        recorded = _recorded(record.path.parent)
        values = [value for value in (recorded.series.get(name, ()) if recorded else ()) if value is not None]
        found += [of(values)] if values else []
    return _mean(found)


def _recorded(folder: Path) -> Telemetry | None:
    """A run's telemetry, which several columns ask for one after the other."""
    files = [path for path in telemetry_files(folder) if path.is_file()]
    return _read_once(folder, tuple(path.stat().st_mtime_ns for path in files)) if files else None


@functools.lru_cache(maxsize=8)
def _read_once(folder: Path, changed_ns: tuple[int, ...]) -> Telemetry | None:
    return telemetry(folder)


def _memory_bytes(row: Row) -> float | None:
    """Peak of the first device, or on CPU cores of the first process (metrics.jsonl)."""
    peaks = [
        number(line.get("memory_peak_bytes"))
        for record in records(row)
        for line in json_lines(record.path.parent / "metrics.jsonl")
    ]
    return max((peak for peak in peaks if peak is not None), default=None)


def _joules_per_sample(row: Row) -> float | None:
    pairs = [(run.energy_joules, run.samples) for run in row.runs if run.energy_joules is not None and run.samples]
    samples = sum(count or 0.0 for _, count in pairs)
    return sum(joules or 0.0 for joules, _ in pairs) / samples if samples else None


def _logged(row: Row, key: str) -> float | None:
    """A number in the log, of the first run."""
    return next((number(record.hyperparameters.get(key)) for record in records(row)), None)


def _quality(row: Row) -> float | None:
    return _mean(next(iter(record.quality.values()), None) for record in records(row))


def _eval_loss(row: Row) -> float | None:
    last = [record.evaluations[-1] for record in records(row) if record.evaluations]
    return _mean(evaluation.values.get("eval_loss", evaluation.values.get("loss")) for evaluation in last)


def _tflops(row: Row) -> float | None:
    adds, rate = _logged(row, "model_multiply_adds"), samples_per_second(row)
    return None if adds is None or rate is None else 2 * adds * rate * _PASSES.get(row.group.mode, 1) / 1e12


def _data_rate(row: Row) -> float | None:
    blocks = [block for record in records(row) for block in record.throughput if block.data_bytes]
    seconds = sum(block.train_seconds or 0.0 for block in blocks)
    return sum(block.data_bytes or 0.0 for block in blocks) / seconds if seconds else None


def _seconds(row: Row) -> float | None:
    return row.score.seconds if row.score.seconds is not None else _mean(run.seconds for run in row.runs)


def _latency(row: Row) -> float | None:
    """Seconds of the smallest all-reduce, mean over runs."""
    return _mean(sums.sizes[0].median_seconds for sums in row.all_reduces)


def _bus_bandwidth(row: Row) -> float | None:
    """The highest of any size, bytes/s, mean over runs."""
    return _mean(
        max(bus_bandwidth(one.size_bytes, one.median_seconds, sums.devices) for one in sums.sizes)
        for sums in row.all_reduces
    )


def _link(row: Row, of: Callable[[LinkFit], float | None], factor: float) -> float | None:
    """A figure of the link that all sizes fit."""
    fit = fit_link(row.all_reduces)
    return None if fit is None else _times(of(fit), factor)


# --- against other lines ------------------------------------------------------------------------------------------------


def _others(line: Line, context: Context, *keys: str) -> list[Line]:
    """The lines that are equal in every other key."""

    def rest(one: Line) -> dict[str, str]:
        return {key: value for key, value in one.values.items() if key not in keys}

    return [other for other in context.lines if rest(other) == rest(line)]


def ratio(row: Row, base: Row | None) -> float | None:
    """How many times faster than `base`: times to target where there are some, else samples per second."""
    if base is None:
        return None
    if row.group.to_target and base.group.to_target:
        return base.score.seconds / row.score.seconds if base.score.seconds and row.score.seconds else None
    mine, theirs = samples_per_second(row), samples_per_second(base)
    return mine / theirs if mine and theirs else None


def _fewest(row: Row, line: Line, context: Context) -> Row | None:
    """The line on the fewest devices of the same kind; hyperparameter sets go with device counts."""
    like = _others(line, context, "gpus", "nodes", "workload.hyperparameter_set")
    found = [one.row for one in like if one.row is not None and one.row.group.device == row.group.device]
    return min(found, key=lambda other: other.group.devices or 0, default=None)


def _per_device(row: Row, line: Line, context: Context) -> float | None:
    base = _fewest(row, line, context)
    faster = ratio(row, base)
    if faster is None or base is None or not row.group.devices or not base.group.devices:
        return None
    return faster * base.group.devices / row.group.devices


def doubling(row: Row, line: Line, context: Context) -> float | None:
    """t(2b) / 2t(b): above 1 where a sample takes longer in this batch than in half of it."""
    batch, mine = device_batch(row), step_seconds(row)
    for other in _others(line, context, "batch"):
        half = device_batch(other.row) if other.row is not None else None
        theirs = step_seconds(other.row) if other.row is not None else None
        if batch and mine and theirs and half == batch / 2:
            return mine / (2 * theirs)
    return None


def _article_minutes(row: Row, line: Line, context: Context) -> float | None:
    name, group = workload_name(row.group.workload), row.group
    found = (item for item in load_published_results() if item.round == ARTICLE and item.benchmark == name)
    seconds = next(
        (item.measurement.score.seconds for item in found if item.measurement.devices == group.devices), None
    )
    return None if seconds is None or group.profile != "reference" else seconds / 60


def price_of(row: Row, prices: Prices | None) -> float | None:
    """Price of one device for an hour: as given now, else as the log has it."""
    if prices is not None:
        return next((prices.price(item) for item in measurements([row])), None)
    return next((number(record.settings.price_per_device_hour) for record in records(row)), None)


def cost_of_job(row: Row, prices: Prices | None) -> float | None:
    """Devices x hours of the run x price; None without a price."""
    price, seconds = price_of(row, prices), _seconds(row)
    if price is None or seconds is None or not row.group.devices:
        return None
    return cost_of(price, row.group.devices, seconds)


def cost_of_million(row: Row, prices: Prices | None) -> float | None:
    """What a million samples of training cost."""
    price, rate = price_of(row, prices), samples_per_second(row)
    return None if price is None or not rate or not row.group.devices else price * row.group.devices / 3600 * 1e6 / rate


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _per_sample(row: Row) -> float | None:
    seconds, batch, samples = step_seconds(row), device_batch(row), samples_per_batch_unit(row)
    return seconds * 1e3 / (batch * samples) if seconds and batch and samples else None


def _megapixels(row: Row) -> float | None:
    side, rate = _logged(row, "input_image_size"), samples_per_second(row)
    return side * side * rate / 1e6 if side and rate else None


COLUMNS: Mapping[str, Column] = {
    "samples/s": lambda row, line, context: samples_per_second(row),
    "megapixels/s": lambda row, line, context: _megapixels(row),
    "ms/step": lambda row, line, context: _times(step_seconds(row), 1e3),
    "ms/sample": lambda row, line, context: _per_sample(row),
    "ms mean": lambda row, line, context: _step_times(row, "mean_ms"),
    "sd": lambda row, line, context: _step_times(row, "sd_ms"),
    "median": lambda row, line, context: _step_times(row, "median_ms"),
    "p90": lambda row, line, context: _step_times(row, "p90_ms"),
    "p99": lambda row, line, context: _step_times(row, "p99_ms"),
    "steps": lambda row, line, context: _step_times(row, "count"),
    "staleness": lambda row, line, context: _staleness(row, "mean"),
    "updates": lambda row, line, context: _staleness(row, "updates"),
    "t(2b)/2t(b)": doubling,
    "GPU %": lambda row, line, context: _sensor(row, "gpu_percent"),
    "memory GB": lambda row, line, context: _times(_memory_bytes(row), 1e-9),
    "host GB": lambda row, line, context: _times(_sensor(row, "run_memory_bytes", max), 1e-9),
    "W": lambda row, line, context: _sensor(row, "gpu_power_watts"),
    "J/sample": lambda row, line, context: _joules_per_sample(row),
    "MB/s data": lambda row, line, context: _times(_data_rate(row), 1e-6),
    "data wait": lambda row, line, context: row_time_fractions(row).data_wait,
    "TFLOP/s": lambda row, line, context: _tflops(row),
    "gradient MB": lambda row, line, context: _times(_logged(row, "model_parameters"), _BYTES_OF_A_GRADIENT / 1e6),
    "latency µs": lambda row, line, context: _times(_latency(row), 1e6),
    "α µs": lambda row, line, context: _link(row, lambda fit: fit.alpha_seconds, 1e6),
    "± α": lambda row, line, context: _link(row, lambda fit: fit.alpha_error, 1e6),
    "B GB/s": lambda row, line, context: _link(row, lambda fit: fit.bytes_per_second, 1e-9),
    "± B": lambda row, line, context: _link(row, lambda fit: fit.bandwidth_error, 1e-9),
    "bus GB/s": lambda row, line, context: _times(_bus_bandwidth(row), 1e-9),
    "fit off by %": lambda row, line, context: _link(row, lambda fit: fit.largest_deviation, 100.0),
    "learning rate": lambda row, line, context: _logged(row, "opt_base_learning_rate"),
    "quality": lambda row, line, context: _quality(row),
    "eval loss": lambda row, line, context: _eval_loss(row),
    "seconds": lambda row, line, context: _seconds(row),
    "minutes": lambda row, line, context: _times(_seconds(row), 1 / 60),
    "epochs": lambda row, line, context: row.score.epochs,
    "minutes/epoch": lambda row, line, context: _times(row.score.seconds_per_epoch, 1 / 60),
    "speedup": lambda row, line, context: ratio(row, _fewest(row, line, context)),
    "per device": _per_device,
    "over first": lambda row, line, context: ratio(row, context.lines[0].row if context.lines else None),
    "article minutes": _article_minutes,
    "cost": lambda row, line, context: cost_of_job(row, context.prices),
    "cost/million": lambda row, line, context: cost_of_million(row, context.prices),
}
"""Name of a column to its value; None where it was not measured."""


def row_value(row: Row, name: str, prices: Prices | None = None) -> float | None:
    """What a column holds for a row outside of studies; not for columns that look at other lines."""
    line = Line({}, row)
    return COLUMNS[name](row, line, Context([line], prices)) if row.score.runs_successful else None


def column_names(listed: object) -> list[str]:
    """The columns that a study lists and that there are, and the cost of what has a price; default: samples/s and ms/step."""
    names = [name for name in listed if name in COLUMNS] if isinstance(listed, list) else []
    return list(dict.fromkeys([*(names or ["samples/s", "ms/step"]), "cost", "cost/million"]))
