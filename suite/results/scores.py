"""Results: runs of one experiment scored by the rules, and the ratios between results. Every mean, spread, interval and speedup
that anything prints is computed here."""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from suite.common.registry import not_allowed
from suite.results.columns import COLUMNS, TYPES, first, known, mean, rows
from suite.results.identity import (
    FIELDS,
    HYPERPARAMETERS,
    OF_SIZE_LOGGED,
    Row,
    differences,
    differences_text,
    key,
    told_apart,
)
from suite.results.logs.record import RunSettings
from suite.results.names import workload_name
from suite.results.published import published_folders, published_rows
from suite.results.table import table
from suite.results.targets import RUNS_REQUIRED
from suite.results.text import clean, devices_text, placed_text
from workloads.api import field_names

_Floats = npt.NDArray[np.float64]
FIRST_CONVERGED = 50
"""NCF: of 100 runs the first 50 that reached the target, by start time, are scored (v0.5 rules)."""
RESAMPLES = 10_000
"""Bootstrap resamples of the runs of each of two results."""
CONFIDENCE_LEVEL = 0.95
MINIMUM_RUNS = 3
"""Runs that each result needs for an interval; two give only three different resamples."""
SEED = 20_181_212
"""Fixed, so that the same logs always give the same table."""
_DRAWS_AT_A_TIME = 1 << 20
"""Indices drawn at a time, which bounds the memory."""
SAME_EPOCHS = 0.005
"""Numbers of epochs whose ratio is nearer to 1 than this are called unchanged."""
SIGNIFICANCE = 0.05
"""A difference whose p value is below this is more than run-to-run variation."""
_ASSIGNMENTS = 100_000
"""Of the runs to two results: up to so many all are counted, else so many are drawn."""
BUSY, QUIET = "busy machine", "not busy"
SCORE_COLUMNS: Mapping[str, str] = {
    "runs_successful": "Runs that did what was asked",
    "runs_failed": "Runs that did not",
    "runs_required": "Runs that the rules ask for; missing where none do",
    "runs_retained": "Runs that the means are taken over",
    "score_method": "`olympic mean` (fastest and slowest dropped), `plain mean` (fewer than three runs), `single figure`",
    "score_notes": "Why it is not the official score, or how a failed run was counted",
    "seconds": "Mean time to target of the retained runs",
    "epochs": "Mean epochs to target of the same runs",
    "seconds_per_epoch": "One over the other, evaluation included",
    "seconds_minimum": "Fastest run",
    "seconds_maximum": "Slowest run",
    "seconds_standard_deviation": "Sample standard deviation over all successful runs",
    "samples_per_second": "All samples over all training seconds of all successful runs, evaluation aside",
    "run_seconds": "Mean length of the successful runs, to a target or not",
    "machine_condition": "`not busy`, or what made the machine a busy one",
}


# --- one result ---------------------------------------------------------------------------------------------------------


def results(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each experiment among `runs`: its fields, its score, and what its runs have in common or on average.

    Runs that go on or were interrupted, whose settings are not known, or that are copies are left out: somebody's Ctrl-C is no
    failure of what is measured. A run that failed before it had logged everything counts for the only result that it fits.
    """
    found = [vars(row) for row in result_rows(runs)]
    columns = found[0] if found else dict.fromkeys([*FIELDS, *SCORE_COLUMNS, "runs", "attempts"])
    kinds = {name: column.kind for name, column in COLUMNS.items() if column.kind in ("number", "count")}
    texts = ("score_method", "score_notes", "machine_condition")
    kinds |= {name: "count" if name.startswith("runs_") else "number" for name in SCORE_COLUMNS if name not in texts}
    return pd.DataFrame(
        {name: pd.Series([row[name] for row in found], dtype=TYPES[kinds.get(name, "object")]) for name in columns}
    )


def result_rows(runs: pd.DataFrame) -> list[Row]:
    """The results of `runs` as rows, which views go through."""
    return results_of(rows(runs))


def results_of(runs: Iterable[Row]) -> list[Row]:
    """The same of rows that are no table, as the runs of one cell of a study."""
    usable = (row for row in runs if row.workload and not (row.running or row.copy_of or row.status == "interrupted"))
    gathered: dict[Any, list[Row]] = {}
    for row in sorted(usable, key=lambda row: not row.succeeded):
        experiment = key(row)
        if experiment not in gathered and not row.succeeded and not (row.hyperparameters and row.targets):
            successes = [(one, members[0]) for one, members in gathered.items() if members[0].succeeded]
            fitting = [one for one, success in successes if not differences(row, success, known=True)]
            experiment = fitting[0] if len(fitting) == 1 else experiment
        gathered.setdefault(experiment, []).append(row)
    return [SimpleNamespace(**_result(members)) for members in gathered.values()]


def _result(members: Sequence[Row]) -> dict[str, Any]:
    runs = sorted((row for row in members if row.succeeded), key=lambda row: row.start_ms or 0.0)
    shown = (runs or members)[0]
    combined = {name: column.combine(runs, name) for name, column in COLUMNS.items() if column.combine is not None}
    samples, seconds = combined["samples"], combined["train_seconds"]
    scored = score(runs, len(members) - len(runs), _required(shown, len(members)), _first_converged(shown))
    return {
        **{name: getattr(shown, name) for name in (*FIELDS, *_NOT_COMBINED)},
        **combined,
        **scored,
        **({} if shown.to_target else dict.fromkeys(("seconds", "epochs", "seconds_per_epoch"))),
        "samples_per_second": samples / seconds if samples and seconds else first(runs, "published_rate"),
        "run_seconds": mean(runs, "seconds"),
        "machine_condition": _condition(runs),
        "all_reduces": tuple(known(runs, "all_reduce")),
        "runs": tuple(runs),
        "attempts": tuple(members),
    }


_NOT_COMBINED = (
    *("run", "path", "benchmark", "published", "single_figure", "to_target", HYPERPARAMETERS),
    *field_names(RunSettings, row=False),
)


def _required(row: Row, attempts: int) -> int | None:
    """Runs that a result needs; no rule asks for a number of demo or synthetic runs, or of runs of fixed length."""
    if not row.to_target or row.profile in ("demo", "synthetic") or row.single_figure:
        return None
    return attempts if row.published else row.runs_required or RUNS_REQUIRED.get(row.benchmark)


def _first_converged(row: Row) -> int | None:
    return FIRST_CONVERGED if row.workload == "ncf" and row.profile not in ("demo", "synthetic") else None


def score(
    runs: Sequence[Row], failed: int = 0, required: int | None = None, first_converged: int | None = None
) -> dict[str, Any]:
    """Score `runs` (the successful ones, in order of start), beside which `failed` more failed: SCORE_COLUMNS."""
    counted, fast, slow, notes = counted_runs(runs, failed, required, first_converged)
    retained = sorted(counted, key=lambda run: run.seconds or 0.0)[fast : len(counted) - slow]
    seconds, epochs = known(runs, "seconds"), known(retained, "epochs")
    mean_seconds = mean(retained, "seconds")
    mean_epochs = mean(retained, "epochs") if len(epochs) == len(retained) else None
    method = "olympic mean" if fast else "plain mean"
    return {
        "runs_successful": len(runs),
        "runs_failed": failed,
        "runs_required": required,
        "runs_retained": len(retained),
        "score_method": "single figure" if runs and runs[0].single_figure else method,
        "score_notes": notes,
        "seconds": mean_seconds,
        "epochs": mean_epochs,
        "seconds_per_epoch": mean_seconds / mean_epochs if mean_seconds is not None and mean_epochs else None,
        "seconds_minimum": min(seconds, default=None),
        "seconds_maximum": max(seconds, default=None),
        "seconds_standard_deviation": statistics.stdev(seconds) if len(seconds) > 1 else None,
    }


def counted_runs(
    runs: Sequence[Row], failed: int, required: int | None, first_converged: int | None = None
) -> tuple[Sequence[Row], int, int, tuple[str, ...]]:
    """(runs of the score, how many of the fastest and of the slowest it drops, notes).

    Fastest and slowest are dropped from three runs on. In a complete set one failed run is the slowest (v0.6 rules on).
    With `first_converged` (NCF) only so many of the successful runs count, in order of start, once the set is complete.
    """
    attempts, notes = len(runs) + failed, []
    complete = required is not None and attempts >= required
    if required is not None and attempts < required:
        notes.append(f"fewer runs than the rules ask ({attempts} of {required})")
    if required is not None and attempts > required:
        notes.append(
            f"more runs than the rules ask ({attempts} for {required}): which of them count was not fixed before"
        )
    if complete and first_converged is not None and len(runs) >= first_converged:
        runs, failed = runs[:first_converged], 0
        notes.append(f"first {first_converged} successful runs")
    if len(runs) < 3:
        return runs, 0, 0, tuple(notes)
    if complete and failed:
        notes.append(
            "the failed run counts as the slowest" if failed == 1 else f"no official score: {failed} runs failed"
        )
    return runs, 1, 0 if complete and failed == 1 else 1, tuple(notes)


def _condition(runs: Sequence[Row]) -> str:
    """`busy machine: others took 48 % of its cores`, or of how many runs (the worst one's reasons); empty: not all tell."""
    told = [row.condition for row in runs]
    busy = [one for one in told if one is not None and one.busy]
    if not busy:
        return QUIET if told and None not in told else ""

    def others(one: Any) -> float:
        shares = (value for name, value in one.figures.items() if name.endswith("_share") and name != "cpu_share")
        return max(shares, default=0.0)

    count = "" if len(told) == 1 else f" ({len(busy)} of {len(told)} runs)"
    return clean(f"{BUSY}{count}: {' and '.join(max(busy, key=others).busy)}", 120)


def labels(row: Row) -> tuple[str, ...]:
    """What must stand beside a result's numbers: its settings' labels, and that the machine was busy."""
    return (*row.labels, *((row.machine_condition,) if row.machine_condition.startswith(BUSY) else ()))


def merged_labels(results: Iterable[Row]) -> tuple[str, ...]:
    """The labels of several results, each once; those of busy machines, where they differ, as one `busy machine`."""
    found = dict.fromkeys(label for row in results for label in labels(row))
    busy = [label for label in found if label.startswith(BUSY)]
    return tuple(dict.fromkeys(BUSY if len(busy) > 1 and label in busy else label for label in found))


def shared_labels(results: Iterable[Row]) -> list[str]:
    """The labels that all of several results have."""
    every = [set(labels(row)) for row in results]
    return sorted(set.intersection(*every)) if every else []


def titles(groups: Sequence[Sequence[Row]], *aside: str) -> list[str]:
    """`ncf in pytorch on local (demo, cpu)` for each group of results, with what tells it from others that would be called so.

    `aside`: what may differ within a group."""
    plain = [title(group) for group in groups]
    words = told_apart((group[0] for group in groups), plain, aside=aside)
    return [", ".join(filter(None, both)) for both in zip(plain, words, strict=True)]


def title(group: Sequence[Row]) -> str:
    """What a group of results is called, with its labels: `ncf in pytorch on local (demo, cpu)`."""
    first = group[0]
    systems = {row.system or row.device_name for row in group}
    where = next(iter(systems)) if len(systems) == 1 else f"several systems with {first.device_name}"
    whose = f" by {first.submitter} ({first.round})" if first.submitter else ""
    tags = [tag for tag in dict.fromkeys((first.profile, *merged_labels(group))) if tag not in ("", "reference")]
    name = (
        f"{first.workload}{whose}{f' in {first.framework}' if first.framework else ''}{f' on {where}' if where else ''}"
    )
    return clean(name, 120) + (f" ({clean(', '.join(tags), 120)})" if tags else "")


def figure(row: Row) -> float | None:
    """What a result is judged by: seconds to target, or samples per second of a run of fixed length; None without."""
    found: float | None = row.seconds if row.to_target else row.samples_per_second
    return found or None


# --- ratios between two results -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """Percentile bootstrap interval of a ratio."""

    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """How much better one result is than another: above 1, `after` is better."""

    before: Row
    after: Row
    total: float | None
    """Ratio of times to target, exactly `throughput * efficiency` where both are known; None for runs of fixed length."""
    throughput: float | None
    """Ratio of times per epoch; of fixed-length runs of samples per second."""
    efficiency: float | None
    """Statistical efficiency: ratio of epochs to target."""
    intervals: tuple[Interval | None, Interval | None, Interval | None] = (None, None, None)
    """Of total, throughput and efficiency."""
    no_interval: str = ""
    """Why there is none; empty if there is one."""

    @property
    def value(self) -> float | None:
        """The one that counts: of times to target, or of rates where there are none."""
        return self.total if self.total is not None else self.throughput

    @property
    def interval(self) -> Interval | None:
        """Of `value`."""
        return self.intervals[0 if self.total is not None else 1]

    @property
    def interval_words(self) -> str:
        """`95 % interval 1.18 to 1.31`; empty without one."""
        one = self.interval
        level = f"{100 * CONFIDENCE_LEVEL:g} % interval"
        return "" if one is None else f"{level} {ratio_text(one.low)} to {ratio_text(one.high)}"

    @property
    def rate(self) -> float | None:
        """Ratio of samples per second, to a target or not."""
        return _over(self.after.samples_per_second, self.before.samples_per_second)

    @property
    def scaling_efficiency(self) -> float | None:
        """Throughput over the ratio of devices: 1 is linear scaling."""
        if self.throughput is None or not self.before.devices or not self.after.devices:
            return None
        return self.throughput * float(self.before.devices / self.after.devices)

    @property
    def scaling(self) -> str:
        """`strong` (same global batch), `weak` (same batch per device), `mixed` (neither), `unknown`."""
        one, other = self.before.batch_size_global, self.after.batch_size_global
        if not one or not other or self.before.batch_unit != self.after.batch_unit:
            return "unknown"
        if one == other:
            return "strong"
        return "weak" if one * self.after.devices == other * self.before.devices else "mixed"

    @property
    def places(self) -> str:
        """From where to where: `1 → 8`; over several nodes `1 × 1 → 2 × 4`, nodes × devices per node."""
        several = max(self.before.nodes or 1, self.after.nodes or 1) > 1
        return " → ".join(placed_text(row.devices or 0, row.nodes, several) for row in (self.before, self.after))

    @property
    def flags(self) -> tuple[str, ...]:
        """What else differs, and what so few runs cannot show."""
        own = differences_text(self.before, self.after, of=HYPERPARAMETERS, known=True)
        found = [f"differs too: {own}"] if own else []
        if (self.before.nodes or 1) != (self.after.nodes or 1):
            found.append("across nodes: the network between them counts")
        return (*found, *([self.chance] if self.chance else []))

    @property
    def chance(self) -> str:
        """That epochs differ between too few runs, where the same batch should need the same epochs; empty if they do not."""
        if self.scaling != "strong" or self.efficiency is None or abs(self.efficiency - 1) < SAME_EPOCHS:
            return ""
        seeds = [{run.seed for run in row.runs} for row in (self.before, self.after)]
        few, many = sorted((len(self.before.runs), len(self.after.runs)))
        if not 0 < few < MINIMUM_RUNS or None in seeds[0] | seeds[1] or seeds[0] == seeds[1]:
            return ""
        counts = f"{few} and {many}" if few != many else f"{'one' if few == 1 else few} each"
        return f"epochs to target vary from seed to seed; so few runs ({counts}) do not show that devices change them"

    @property
    def words(self) -> str:
        """`15.8 times faster: epochs 7.9 times faster, 2.0 times fewer of them`; `1.06 times faster: …, count unchanged`."""
        if self.value is None:
            return "not measured"
        whole = times_text(self.value)
        if self.total is None:
            return f"{whole} in samples/s; runs of fixed length say nothing about epochs"
        if self.throughput is None or self.efficiency is None:
            return f"{whole}; epochs are not known, so it cannot be decomposed"
        epochs = times_text(self.throughput)
        if abs(self.efficiency - 1) < SAME_EPOCHS:
            return f"{whole}: epochs {epochs}, count unchanged"
        count = f"{_amount(self.efficiency)} times {'fewer' if self.efficiency > 1 else 'as many'} of them"
        return f"{whole}: epochs {epochs}, {count}"


def times_text(ratio: float) -> str:
    """A ratio in words: `1.06 times faster`, `1.28 times slower`, `as fast`."""
    amount = _amount(ratio)
    return "as fast" if amount == "1.00" else f"{amount} times {'faster' if ratio > 1 else 'slower'}"


def ratio_text(value: float) -> str:
    """A ratio as a number: `15.8`, `1.76`, `0.63`."""
    return f"{value:.2g}" if value < 0.1 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _amount(ratio: float) -> str:
    return ratio_text(max(ratio, 1 / ratio))


def ratio(before: Row, after: Row, intervals: bool = True) -> Ratio:
    """How much better `after` is than `before`, two rows of `results`; the caller knows that they may be compared."""
    total = throughput = efficiency = None
    if before.to_target and after.to_target:
        efficiency = _over(before.epochs, after.epochs)
        throughput = _over(before.seconds_per_epoch, after.seconds_per_epoch)
        total = _over(before.seconds, after.seconds)
        if throughput is not None and efficiency is not None:
            total = throughput * efficiency
        else:
            throughput = efficiency = None
    else:
        throughput = _over(after.samples_per_second, before.samples_per_second)
    if not intervals:
        return Ratio(before, after, total, throughput, efficiency, no_interval="not asked for")
    why = _why_no_interval(before) or _why_no_interval(after)
    found = (None, None, None) if why else _intervals(before, after)
    if not why and found == (None, None, None):
        why = "the runs hold numbers out of range"
    return Ratio(before, after, total, throughput, efficiency, found, why)


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


# --- which results are compared over devices ----------------------------------------------------------------------------


def place(row: Row) -> tuple[int, int]:
    """(devices, nodes); a log that does not name nodes had one."""
    return row.devices or 0, row.nodes or 1


def families(results: Iterable[Row], *aside: str) -> list[list[Row]]:
    """The measured results that differ in the number of devices alone (and what is left `aside`), in order of devices."""
    found: dict[Any, list[Row]] = {}
    for row in results:
        if figure(row) is not None and not row.all_reduces:
            found.setdefault(key(row, "gpus", *aside), []).append(row)
    return [sorted(members, key=lambda row: (*place(row), figure(row) or 0.0)) for members in found.values()]


def chains(family: Sequence[Row]) -> list[list[Row]]:
    """A family as series with one result on each number of devices; all of one global batch agree in their hyperparameters.

    Where a number was measured with several batches or hyperparameters, each is a series of its own.
    """
    found: list[list[Row]] = []
    logged = {id(row): _chosen(row) for row in family}

    def may_follow(other: Row, row: Row) -> bool:
        if place(other) == place(row) or other.batch_size_global != row.batch_size_global:
            return place(other) != place(row)
        two = logged[id(row)]
        return all(two.get(name, value) == value for name, value in logged[id(other)].items())

    for row in family:
        alike_first = sorted(found, key=lambda chain: logged[id(chain[0])] != logged[id(row)])
        fitting = (chain for chain in alike_first if all(may_follow(other, row) for other in chain))
        chain = next(fitting, None) if row.devices else None
        if chain is None:
            found.append(chain := [])
        chain.append(row)
    return found


def _chosen(row: Row) -> dict[str, Any]:
    """The logged hyperparameters that somebody chose, as they are compared."""
    return {
        name: value
        for name, value in key(row)
        if name.startswith(f"{HYPERPARAMETERS}.")
        and value not in (None, "", ())
        and name.partition(".")[2] not in OF_SIZE_LOGGED
    }


def speedups(results: Iterable[Row], intervals: bool = False) -> dict[int, Ratio]:
    """`id` of each result to its ratio over the fewest devices of its series; results without another are left out."""
    return {
        id(row): ratio(chain[0], row, intervals)
        for family in families(results)
        for chain in chains(family)
        for row in chain[1:]
    }


def pairs(results: Iterable[Row], intervals: bool = True) -> list[Ratio]:
    """The ratio of every pair of device counts within a series, fewest devices first."""
    return [
        ratio(before, after, intervals)
        for family in families(results)
        for chain in chains(family)
        for before, after in itertools.combinations(chain, 2)
    ]


# --- bootstrap ----------------------------------------------------------------------------------------------------------


def _why_no_interval(row: Row) -> str:
    """Why the runs of a result are not enough for an interval; empty if they are."""
    where = f"on {devices_text(row.devices or 0, row.nodes)}"
    if row.single_figure:
        return f"no single runs are known {where}"
    if len(row.runs) < MINIMUM_RUNS:
        return f"too few runs {where}: {len(row.runs)}, and {MINIMUM_RUNS} are needed"
    if not row.to_target and not any(run.samples and run.train_seconds for run in row.runs):
        return f"no run {where} has its samples counted"
    return ""


def _resampled(row: Row, side: int) -> _Floats:
    """(RESAMPLES, 2): seconds and epochs of as many runs drawn with replacement, averaged as the score is, NaN where they are
    not known; of runs of fixed length the sums of seconds and samples."""
    cached: dict[int, _Floats] = row.__dict__.setdefault("_resampled", {})
    if side in cached:
        return cached[side]
    if row.to_target:
        runs, fast, slow, _ = counted_runs(row.runs, row.runs_failed, row.runs_required, _first_converged(row))
        values = np.array(sorted((run.seconds, run.epochs or 0.0) for run in runs))
        values[values == 0.0] = np.nan
    else:
        runs, fast, slow = [run for run in row.runs if run.samples and run.train_seconds], 0, 0
        values = np.array(sorted((run.samples, run.train_seconds) for run in runs))[:, ::-1]
    draws = _draws(len(runs), np.random.default_rng([SEED, side]))
    # runs are in order of seconds, so sorted draws are too: fastest and slowest stand at the ends
    cached[side] = np.concatenate([values[np.sort(drawn)[:, fast : len(runs) - slow]].mean(axis=1) for drawn in draws])
    return cached[side]


def _draws(runs: int, random: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Indices of drawn runs, (resamples, runs), in blocks of bounded size with RESAMPLES rows in all."""
    left = RESAMPLES
    while left:
        count = min(left, max(1, _DRAWS_AT_A_TIME // runs))
        yield random.integers(runs, size=(count, runs))
        left -= count


def _intervals(before: Row, after: Row) -> tuple[Interval | None, Interval | None, Interval | None]:
    """Of total, throughput and efficiency."""

    def interval(ratios: _Floats) -> Interval | None:
        if not np.isfinite(ratios).all():
            return None
        low, high = np.quantile(ratios, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
        return Interval(float(low), float(high))

    if before.to_target != after.to_target:
        return None, None, None
    with np.errstate(all="ignore"):  # a log may hold numbers whose sums overflow
        seconds, counts = (_resampled(before, 0) / _resampled(after, 1)).T
        if not before.to_target:
            return None, interval(seconds / counts), None
        return interval(seconds), interval(seconds / counts), interval(counts)


def permutation_test(one: Sequence[float | None], other: Sequence[float | None]) -> tuple[float, float] | None:
    """(p, the smallest p that so many runs can give) of the difference of two means; None where a value is not known, or
    of a single run.

    Two-sided: p is twice the smaller tail. If both came from one distribution, every assignment of the runs to the two would
    be as likely as the observed one (Ernst, Permutation Methods, Statistical Science 19 (2004), 676-685).
    """
    if None in (*one, *other) or min(len(one), len(other)) < 2:
        return None
    values = [[float(f"{value:.9g}") for value in side] for side in (one, other)]  # tables are rounded
    if not all(map(math.isfinite, itertools.chain(*values))):
        return None
    from scipy import stats  # half a second

    def first_sum(first: Any, _: Any, axis: int) -> Any:
        return first.sum(axis=axis)  # grows with the difference of the means, and its rounding is small beside it

    random = np.random.default_rng(SEED)
    options = {"vectorized": True, "n_resamples": _ASSIGNMENTS, "batch": 10_000, "random_state": random}
    possible = min(math.comb(len(one) + len(other), len(one)), _ASSIGNMENTS + 1)
    return float(stats.permutation_test(values, first_sum, **options).pvalue), min(1.0, 2 / possible)


# --- published results --------------------------------------------------------------------------------------------------


def published_results(places: tuple[Path, ...] | None = None) -> list[Row]:
    """All published results, scored from their runs by the rules of their round; then the article's."""
    return list(_published(places if places is not None else published_folders()))


@functools.cache
def _published(places: tuple[Path, ...]) -> list[Row]:
    return results_of(SimpleNamespace(**row) for row in published_rows(places))


def find_published(name: str, option: str = "--to") -> list[Row]:
    """The results named by `ROUND/SUBMITTER/SYSTEM`, ignoring case; ROUND or ROUND/SUBMITTER alone name all their systems.

    A system may be given by the beginning of its name (`v0.5/NVIDIA/dgx1` is every `dgx1_…` of one node, not `dgx1_n24_…` or
    `dgx1_multi_…`). Raises ValueError with the nearest names for one that does not exist.
    """
    listed = published_results()
    parts = [part for part in name.strip().strip("/").lower().split("/") if part]
    chosen = [row for row in listed if _matches_name(row.run, parts)]
    if chosen and parts:
        return chosen
    rounds = {row.round for row in listed}
    names = {one.lower(): one for one in sorted({row.run for row in listed} | rounds)}
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.4)
    offered = [one for lower, one in names.items() if lower in near] or sorted(rounds)
    raise ValueError(
        f"{option} {name}: no such published result; nearest: {', '.join(offered[:3])} (all of them: suite published list)"
    )


def _matches_name(known: str, parts: Sequence[str]) -> bool:
    names = known.lower().split("/", 2)
    if len(parts) < 3:
        return list(parts) == names[: len(parts)]
    clusters = r"[_\- ](?:multi|n\d+)(?:_.*)?"  # of the named system: `_n24_ngc19.05`, `_multi_ngc18.11`
    form = rf"{re.escape(parts[2])}(?!{clusters}$)(?:[_\- ].*)?"
    return list(parts[:2]) == names[:2] and len(parts) == 3 and re.fullmatch(form, names[2]) is not None


def measured(
    paths: Sequence[str | Path], published: Sequence[str] = (), workload: str | None = None, command: str = "report"
) -> list[Row]:
    """The results below `paths` and the published ones of these names, of one workload or of all, for `suite COMMAND`.

    Raises ValueError (one line) where nothing is given, no run below `paths` succeeded, or none is of the workload.
    """
    if not paths and not published:
        raise ValueError(f"give a folder with runs (suite {command} logs/) or --published dgx1-article")
    found = _succeeded(paths) if paths else []
    for name in published:
        found += find_published(name, "--published")
    chosen = [row for row in found if workload is None or row.workload == workload_name(workload)]
    if not chosen:
        raise not_allowed("--workload", (workload or "")[:40], {row.workload for row in found})
    return chosen


def _succeeded(paths: Sequence[str | Path]) -> list[Row]:
    runs = table(paths)
    found, folders = [row for row in result_rows(runs) if row.runs], " ".join(map(str, paths))
    if any(not row.all_reduces for row in found):
        return found
    if found:
        raise ValueError(f"{folders}: all-reduces alone, and nothing that trains; give the folder of such runs too")
    going = int(runs["running"].sum())
    counts = [f"{len(runs) - going} of {len(runs)} did not"] if len(runs) > going else []
    counts += [f"{going} of {len(runs)} {'has' if going == 1 else 'have'} not ended"] if going else []
    raise ValueError(f"{folders}: no run succeeded ({', '.join(counts)}); the reasons: suite report {paths[0]}")
