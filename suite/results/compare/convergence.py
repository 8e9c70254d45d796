"""Convergence: are the epochs to target those of published runs of the same workload, target and batch?

In the manner of the reference convergence points (RCP) of the rules, as mlperf-logging 4.1.68 computes them
(rcp_checker/rcp_checker.py): olympic means, a one-sided t-test at p = 0.05 with the spread of the reference runs for both
sets of runs, linear interpolation between neighbouring batch sizes. Unlike there, the reference points are the published runs
themselves, and none of them is pruned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from suite.results.compare.differences import in_tokens, same_target
from suite.results.names import WORKLOAD_TITLES
from suite.results.published.csv_files import PublishedResult
from suite.results.score.measurement import Measurement
from suite.results.score.scores import TimedRun
from suite.results.targets import RUNS_REQUIRED

SIGNIFICANCE = 0.05
"""One-sided; alpha of rcp_checker."""
INSIDE, SLOWER, FAST, NOT_JUDGED = "inside", "slower", "suspiciously fast", "not judged"
_RUNS_REQUIRED_BY_WORKLOAD: dict[str, int] = {"resnet50": RUNS_REQUIRED["resnet"], **RUNS_REQUIRED}
"""The suite's name of a workload to the runs of a result; an interpolated point counts as twice as many."""


@dataclass(frozen=True)
class ReferencePoint:
    """Epochs to target of published runs at one batch size."""

    batch: int
    mean: float
    """Olympic mean: fewest and most dropped, from three runs on."""
    standard_deviation: float
    """Standard deviation (population) over all runs."""
    retained: int
    """Runs that the mean is taken over."""
    runs: int
    fewest: float
    most: float
    sources: tuple[str, ...]
    """`ROUND/SUBMITTER/SYSTEM (N runs)`."""
    neighbours: tuple[int, ...] = ()
    """The two batch sizes between which it was interpolated."""


@dataclass(frozen=True)
class Convergence:
    """The verdict on one measurement."""

    measurement: Measurement
    verdict: str
    """`inside`, `slower`, `suspiciously fast`, `not judged`."""
    reason: str
    """Why it was not judged; otherwise the verdict in words."""
    epochs: float | None = None
    """Olympic mean of our runs."""
    reference: ReferencePoint | None = None
    fewest_acceptable: float | None = None
    """A mean below this is suspiciously fast."""
    most_expected: float | None = None
    """A mean above this is slower than the reference."""
    notes: tuple[str, ...] = ()

    @property
    def max_speedup(self) -> float | None:
        """RCP's speedup limit: reference mean over the fewest acceptable epochs."""
        return self.reference.mean / self.fewest_acceptable if self.reference and self.fewest_acceptable else None

    @property
    def normalisation(self) -> float | None:
        """Factor by which RCP would multiply the time of a run with fewer epochs than the reference; else 1."""
        return max(1.0, self.reference.mean / self.epochs) if self.reference and self.epochs else None


def convergence(items: Sequence[Measurement], published: Sequence[PublishedResult]) -> list[Convergence]:
    """The verdict on every measurement that ran to a target."""
    return [_judge_measurement(item, published) for item in items if item.to_target]


def _judge_measurement(item: Measurement, published: Sequence[PublishedResult]) -> Convergence:
    reason = _why_not_judged(item)
    if reason:
        return Convergence(item, NOT_JUDGED, reason)
    epochs = [run.epochs for run in item.runs if run.epochs is not None]
    assert item.batch_size_global is not None
    reference = _reference_for(item, published)
    if isinstance(reference, str):
        return Convergence(item, NOT_JUDGED, reference, olympic_mean(epochs))
    return judge(item, epochs, reference)


def _why_not_judged(item: Measurement) -> str:
    if item.profile in ("demo", "synthetic"):
        return f"{item.profile} target has no relation to MLPerf"
    if item.workload not in WORKLOAD_TITLES:
        return f"no published runs of {item.workload}"
    if not item.runs or not all(run.epochs and 0 < run.epochs < math.inf for run in item.runs):
        return "the epochs of single runs are not known"
    if not item.batch_size_global or item.batch_size_global < 0:
        return "the global batch is not known"
    return "" if item.targets else "the target is not known"


def judge(item: Measurement, epochs: Sequence[float], reference: ReferencePoint) -> Convergence:
    """The verdict on `epochs` (of at least one successful run) against a reference point."""
    failed = item.score.runs_failed
    counted = (
        [*epochs, math.inf] if failed == 1 and len(epochs) > 1 else list(epochs)
    )  # RCP: one failure is the slowest
    mean, retained = olympic_mean(counted), _runs_retained(len(counted))
    low = fewest_acceptable(reference.mean, reference.standard_deviation, reference.retained, retained)
    if low is None:
        reason = f"{reference.runs} published run(s) against {len(epochs)} of ours say nothing about the spread"
        return Convergence(item, NOT_JUDGED, reason, mean, reference)
    high = 2 * reference.mean - low
    verdict = FAST if mean < low else SLOWER if mean > high else INSIDE
    return Convergence(
        item,
        verdict,
        _verdict_text(verdict, mean, low, high, reference),
        mean,
        reference,
        low,
        high,
        _notes(item, reference),
    )


def olympic_mean(values: Sequence[float]) -> float:
    """Mean without the smallest and the largest; of fewer than three values the plain mean."""
    kept = sorted(values)[1:-1] if len(values) >= 3 else values
    return math.fsum(kept) / len(kept)


def _runs_retained(runs: int) -> int:
    return runs - 2 if runs >= 3 else runs


def fewest_acceptable(mean: float, standard_deviation: float, runs_reference: int, runs_ours: int) -> float | None:
    """The smallest mean over `runs_ours` runs that a one-sided t-test at SIGNIFICANCE does not distinguish from the reference.

    Both sets get the standard deviation of the reference, as in rcp_checker, whose binary search then has this closed form.
    None if there are too few runs for a test.
    """
    degrees_of_freedom = runs_reference + runs_ours - 2
    if degrees_of_freedom < 1:
        return None
    from scipy.stats import t  # half a second to import

    error = standard_deviation * math.sqrt(1 / runs_reference + 1 / runs_ours)
    return max(0.0, mean - float(t.ppf(1 - SIGNIFICANCE, degrees_of_freedom)) * error)


# --- the reference points -----------------------------------------------------------------------------------------------


def _reference_for(item: Measurement, published: Sequence[PublishedResult]) -> ReferencePoint | str:
    """The reference point for a measurement, from its own round or else all rounds with its rules; or why there is none."""
    comparable = [other for other in published if _is_comparable(item, other)]
    if not comparable:
        return f"no published run of {item.workload} to this target under the same rules"
    same_round = [other for other in comparable if other.round == item.rules]
    for pool in (same_round, comparable):
        points = reference_points(pool, item.runs)
        point = reference_point_at(item.batch_size_global or 0, points, 2 * _RUNS_REQUIRED_BY_WORKLOAD[item.workload])
        if point is not None:
            return point
    batches = sorted(points, key=lambda point: abs(math.log(point.batch / (item.batch_size_global or 1))))
    where = f"no published run of {item.workload} at batch {item.batch_size_global:,}, nor on both sides of it"
    nearest = "; ".join(f"{point.batch:,}: {point.mean:.4g} epochs, {point.runs} runs" for point in batches[:2])
    return f"{where}; nearest: {nearest or 'none but these runs themselves'}"


def _is_comparable(item: Measurement, other: PublishedResult) -> bool:
    """True for the same workload, target, unit of batch and rules (v0.5; v0.6 and later), in division closed."""
    theirs = other.measurement
    return (
        other.benchmark == item.workload
        and other.row.get("division", "closed") != "open"
        and bool(theirs.batch_size_global and theirs.runs)
        and in_tokens(theirs) == in_tokens(item)
        and (theirs.rules == "v0.5") == (item.rules == "v0.5")
        and same_target(item, theirs) is True
    )


def reference_points(pool: Sequence[PublishedResult], without: Sequence[TimedRun] = ()) -> list[ReferencePoint]:
    """One reference point for each batch size. A log published twice counts once, the runs `without` not at all."""
    seen = set(run_keys(without))
    runs: dict[int, list[float]] = {}
    sources: dict[int, list[str]] = {}
    for result in pool:
        fresh = [run for run in result.measurement.runs if run.epochs is not None and not run_keys([run]) & seen]
        seen |= run_keys(fresh)
        if fresh and result.measurement.batch_size_global:
            batch = result.measurement.batch_size_global
            runs.setdefault(batch, []).extend(run.epochs for run in fresh if run.epochs is not None)
            sources.setdefault(batch, []).append(f"{result.name} ({len(fresh)} runs)")
    return [reference_point(batch, runs[batch], sources[batch]) for batch in sorted(runs)]


def run_keys(runs: Iterable[TimedRun]) -> set[tuple[int, int]]:
    """Keys that identify runs: the second of the start, and the length in hundredths of a second."""
    return {(round(run.start_ms / 1e3), round(run.seconds * 100)) for run in runs if run.start_ms}


def reference_point(batch: int, epochs: Sequence[float], sources: Sequence[str] = ()) -> ReferencePoint:
    """The reference point computed from the `epochs` of runs at one batch size."""
    plain_mean = math.fsum(epochs) / len(epochs)
    return ReferencePoint(
        batch=batch,
        mean=olympic_mean(epochs),
        standard_deviation=math.sqrt(math.fsum((value - plain_mean) ** 2 for value in epochs) / len(epochs)),
        retained=_runs_retained(len(epochs)),
        runs=len(epochs),
        fewest=min(epochs),
        most=max(epochs),
        sources=tuple(sources),
    )


def reference_point_at(batch: int, points: Sequence[ReferencePoint], interpolated_runs: int) -> ReferencePoint | None:
    """The point at `batch`, or one interpolated between its neighbours, which counts as `interpolated_runs`; else None."""
    below = max((point for point in points if point.batch <= batch), key=lambda point: point.batch, default=None)
    above = min((point for point in points if point.batch >= batch), key=lambda point: point.batch, default=None)
    if below is None or above is None:
        return None
    if below.batch == batch:
        return below
    fraction = (batch - below.batch) / (above.batch - below.batch)
    return ReferencePoint(
        batch=batch,
        mean=below.mean + fraction * (above.mean - below.mean),
        standard_deviation=below.standard_deviation + fraction * (above.standard_deviation - below.standard_deviation),
        retained=interpolated_runs,
        runs=below.runs + above.runs,
        fewest=min(below.fewest, above.fewest),
        most=max(below.most, above.most),
        sources=tuple(dict.fromkeys((*below.sources, *above.sources))),
        neighbours=(below.batch, above.batch),
    )


# --- text --------------------------------------------------------------------------------------------------------------


def _verdict_text(verdict: str, mean: float, low: float, high: float, point: ReferencePoint) -> str:
    around = f"{point.mean:.4g} epochs in {point.runs} published runs at batch {point.batch:,}"
    if point.neighbours:
        one, other = point.neighbours
        around = f"{point.mean:.4g} epochs between {point.runs} published runs at batch {one:,} and {other:,}"
    if verdict == FAST:
        return f"suspiciously fast: {mean:.4g} epochs, fewer than {low:.4g}, the fewest that {around} make likely"
    if verdict == SLOWER:
        return f"slower: {mean:.4g} epochs, more than {high:.4g}, the most that {around} make likely"
    return f"inside: {mean:.4g} epochs, between {low:.4g} and {high:.4g}, which {around} make likely"


def _notes(item: Measurement, point: ReferencePoint) -> tuple[str, ...]:
    return tuple(_all_notes(item, point))


def _all_notes(item: Measurement, point: ReferencePoint) -> Iterator[str]:
    if item.rules == "v0.5":
        yield "epochs are those begun when the target was reached"
    if item.workload == "ssd" and item.rules != "v0.5":
        yield "SSD evaluates inside an epoch: labels of submitters differ by up to four epochs for the same training"
    required, failed = _RUNS_REQUIRED_BY_WORKLOAD[item.workload], item.score.runs_failed
    if len(item.runs) + failed < required:
        yield f"{len(item.runs) + failed} of the {required} runs that the rules ask"
    if point.runs < 2 * required:
        yield f"only {point.runs} published runs, where RCP asks for {2 * required}"
    if failed == 1:
        yield "the failed run counts as the slowest"
    if failed > 1:
        yield f"{failed} runs failed, which the rules do not allow; they are not counted"
    if not item.submitter and item.labels:
        yield "labels: " + ", ".join(item.labels)
