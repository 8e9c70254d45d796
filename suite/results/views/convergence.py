"""Convergence: are the epochs to target those of published runs of the same workload, target and batch?

In the manner of the reference convergence points (RCP) of the rules, as mlperf-logging 4.1.68 computes them
(rcp_checker/rcp_checker.py): olympic means, a one-sided t-test at p = 0.05 with the spread of the reference runs for both
sets of runs, linear interpolation between neighbouring batch sizes. Unlike there, the reference points are the published runs
themselves, and none of them is pruned.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from suite.results.columns import Result, RunRow
from suite.results.combine import known
from suite.results.names import round_like
from suite.results.scoring_rules import RUNS_REQUIRED, find_scoring_rule
from suite.results.targets import same_targets

SIGNIFICANCE = 0.05
"""One-sided; alpha of rcp_checker."""
INSIDE, SLOWER, FAST, NOT_JUDGED = "inside", "slower", "suspiciously fast", "not judged"


@dataclass(frozen=True)
class Point:
    """Epochs to target of `runs` published runs at one batch size: olympic mean over the `retained` ones, population standard
    deviation over all; `sources`: `ROUND/SUBMITTER/SYSTEM (N runs)`; `neighbours`: the batches that it lies between."""

    batch: int
    mean: float
    standard_deviation: float
    retained: int
    runs: int
    sources: tuple[str, ...]
    neighbours: tuple[int, ...] = ()


@dataclass(frozen=True)
class Convergence:
    """The verdict on one result, and `why` it was not judged. `epochs`: olympic mean of the judged runs; below
    `fewest_acceptable` it is suspiciously fast, above `most_expected` slower."""

    row: Result
    verdict: str
    why: tuple[str, ...] = ()
    epochs: float | None = None
    reference: Point | None = None
    fewest_acceptable: float | None = None
    most_expected: float | None = None
    notes: tuple[str, ...] = ()


def convergence(results: Iterable[Result], published: Sequence[Result]) -> list[Convergence]:
    """The verdict on every result that was to reach a target."""
    return [judge(row, _reference_for(row, published)) for row in results if row.to_target]


def judge(row: Result, reference: Point | str) -> Convergence:
    """The verdict on the epochs of a result's runs (at least one) against a reference point, or why there is none."""
    if isinstance(reference, str):
        return Convergence(row, NOT_JUDGED, (reference,), row.epochs)
    one_failed = row.runs_failed == 1 and len(row.runs) > 1  # RCP: one failure is the slowest
    mean, retained = _olympic([*known(row.runs, "epochs"), *([math.inf] if one_failed else [])])
    low = fewest_acceptable(reference.mean, reference.standard_deviation, reference.retained, retained)
    if low is None:
        why = f"{reference.runs} published run(s) against {len(row.runs)} of ours say nothing about the spread"
        return Convergence(row, NOT_JUDGED, (why,), mean, reference)
    high = 2 * reference.mean - low
    verdict = FAST if mean < low else SLOWER if mean > high else INSIDE
    return Convergence(row, verdict, (), mean, reference, low, high, tuple(_notes(row, reference)))


def _olympic(values: Sequence[float]) -> tuple[float, int]:
    """Mean without the smallest and the largest (of fewer than three values the plain mean), and over how many."""
    kept = sorted(values)[1:-1] if len(values) >= 3 else values
    return math.fsum(kept) / len(kept), len(kept)


def fewest_acceptable(mean: float, standard_deviation: float, runs_reference: int, runs_ours: int) -> float | None:
    """The smallest mean over `runs_ours` runs that the t-test does not distinguish from the reference; None for too few runs.

    Both sets get the deviation of the reference, as in rcp_checker, whose binary search then has this closed form.
    """
    degrees_of_freedom = runs_reference + runs_ours - 2
    if degrees_of_freedom < 1:
        return None
    from scipy.stats import t  # half a second to import

    error = standard_deviation * math.sqrt(1 / runs_reference + 1 / runs_ours)
    return max(0.0, mean - float(t.ppf(1 - SIGNIFICANCE, degrees_of_freedom)) * error)


def _reference_for(row: Result, published: Sequence[Result]) -> Point | str:
    """The reference point for a result, from its own round or else all rounds with its rules; or why there is none."""
    if row.profile in ("demo", "synthetic"):
        return f"{row.profile} target has no relation to MLPerf"
    if row.single_figure or not row.runs or not all(run.epochs and 0 < run.epochs < math.inf for run in row.runs):
        return "the epochs of single runs are not known"
    if not row.batch_size_global or row.batch_size_global < 0:
        return "the global batch is not known"
    comparable = [
        other
        for other in published
        if other.workload == row.workload in RUNS_REQUIRED
        and other.division != "open"
        and other.batch_size_global
        and not other.single_figure
        and ("token" in other.batch_unit) == ("token" in row.batch_unit)  # else samples, sentence pairs
        and round_like(other.rules) is round_like(row.rules)
        and same_targets(row.targets, other.targets, row.workload)
    ]
    if not comparable:
        return f"no published run of {row.workload} to this target under the same rules"
    for pool in ([other for other in comparable if other.round == row.rules], comparable):
        points = reference_points(pool, row.runs)
        if point := reference_point_at(row.batch_size_global, points, 2 * RUNS_REQUIRED[row.workload]):
            return point
    batch = row.batch_size_global
    nearest = sorted(points, key=lambda point: abs(math.log(point.batch / batch)))[:2]
    listed = "; ".join(f"{point.batch:,}: {point.mean:.4g} epochs, {point.runs} runs" for point in nearest)
    where = f"no published run of {row.workload} at batch {row.batch_size_global:,}, nor on both sides of it"
    return f"{where}; nearest: {listed or 'none but these runs themselves'}"


def reference_points(pool: Iterable[Result], without: Iterable[RunRow] = ()) -> list[Point]:
    """One reference point for each batch size. A log published twice counts once, the runs `without` not at all."""
    seen = run_keys(without)
    by_batch: dict[int, tuple[list[float], list[str]]] = {}
    for row in pool:
        fresh = [run.epochs for run in row.runs if run.epochs is not None and not run_keys([run]) & seen]
        seen |= run_keys(row.runs)
        if fresh and row.batch_size_global:
            epochs, sources = by_batch.setdefault(row.batch_size_global, ([], []))
            epochs += fresh
            sources.append(f"{row.run} ({len(fresh)} runs)")
    return [reference_point(batch, *by_batch[batch]) for batch in sorted(by_batch)]


def run_keys(runs: Iterable[RunRow]) -> set[tuple[int, int]]:
    """Keys that identify runs: the second of the start, and the length in hundredths of a second."""
    return {(round(run.start_ms / 1e3), round(run.seconds * 100)) for run in runs if run.start_ms and run.seconds}


def reference_point(batch: int, epochs: Sequence[float], sources: Sequence[str] = ()) -> Point:
    """The reference point computed from the `epochs` of runs at one batch size."""
    mean, retained = _olympic(epochs)
    return Point(batch, mean, statistics.pstdev(epochs), retained, len(epochs), tuple(sources))


def reference_point_at(batch: int, points: Sequence[Point], interpolated_runs: int) -> Point | None:
    """The point at `batch`, or one interpolated between its neighbours, which counts as `interpolated_runs`; else None."""
    below = max((point for point in points if point.batch <= batch), key=lambda point: point.batch, default=None)
    above = min((point for point in points if point.batch >= batch), key=lambda point: point.batch, default=None)
    if below is None or above is None or below.batch == batch:
        return below if above is not None else None
    share = (batch - below.batch) / (above.batch - below.batch)
    mean = below.mean + share * (above.mean - below.mean)
    deviation = below.standard_deviation + share * (above.standard_deviation - below.standard_deviation)
    sources = tuple(dict.fromkeys((*below.sources, *above.sources)))
    runs = below.runs + above.runs
    return Point(batch, mean, deviation, interpolated_runs, runs, sources, (below.batch, above.batch))


def _notes(row: Result, point: Point) -> Iterator[str]:
    required, attempts = RUNS_REQUIRED[row.workload], len(row.runs) + row.runs_failed
    if point.neighbours:
        yield f"published between the batches {point.neighbours[0]:,} and {point.neighbours[1]:,}"
    if round_like(row.rules).first_epoch == 0:
        yield "epochs are those begun when the target was reached"
    elif row.workload == "ssd":
        yield "SSD evaluates inside an epoch: labels of submitters differ by up to four epochs for the same training"
    if attempts < required:
        yield f"{attempts} of the {required} runs that the rules ask"
    if point.runs < 2 * required:
        yield f"only {point.runs} published runs, where RCP asks for {2 * required}"
    if row.runs_failed == 1:
        yield "the failed run counts as the slowest"
    elif row.runs_failed:
        rule = find_scoring_rule(row.workload, row.rules)
        allowed = 1 if rule is None else rule.allowed_failures
        if row.runs_failed <= allowed:
            yield f"{row.runs_failed} runs failed; the rules allow {allowed}"
        else:
            yield f"{row.runs_failed} runs failed, which the rules do not allow; they are not counted"
    if row.profile and row.labels:
        yield "labels: " + ", ".join(row.labels)
