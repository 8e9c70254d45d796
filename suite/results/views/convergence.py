"""Convergence: epochs to target compared with published runs.

The published runs have the same workload, target, and batch size as the compared runs.

The computation follows the reference convergence points (RCP) of the rules, as implemented in
rcp_checker/rcp_checker.py of mlperf-logging 4.1.68. It uses olympic means, a one-sided t-test at p
= 0.05, and linear interpolation between neighboring batch sizes. The t-test assumes that both sets
of runs have the standard deviation of the reference runs. There are two differences from
rcp_checker: the reference points are computed from published runs, and no reference point is
removed (pruned).
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from suite.results.columns import Result, Run
from suite.results.combine import non_null
from suite.results.names import round_like
from suite.results.scoring_rules import RUNS_REQUIRED, find_scoring_rule
from suite.results.targets import same_targets

SIGNIFICANCE = 0.05
"""Significance level of the one-sided t-test (alpha in rcp_checker)."""


class ConvergenceVerdict(enum.Enum):
    """Verdict on the epochs to target of a result.

    The string value of each member is the text in tables and files.
    """

    INSIDE = "inside"
    SLOWER = "slower"
    SUSPICIOUSLY_FAST = "suspiciously fast"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Point:
    """Reference point: mean epochs to target of published runs with the same batch size."""

    batch: int
    mean: float
    """Olympic mean of the epochs to target, which excludes the smallest and the largest value."""
    standard_deviation: float
    """Population standard deviation of the epochs to target over all runs."""
    retained: int
    """Number of runs in the olympic mean. An interpolated point has an equivalent number of
    runs.
    """
    runs: int
    sources: tuple[str, ...]
    """Entries that contain the published runs: `ROUND/SUBMITTER/SYSTEM (N runs)`."""
    neighbors: tuple[int, ...] = ()
    """The two batch sizes between which the point is interpolated. Empty if published runs have
    exactly this batch size.
    """


@dataclass(frozen=True)
class Convergence:
    """Verdict on the epochs to target of a result."""

    result: Result
    verdict: ConvergenceVerdict
    why_not_judged: str = ""
    epochs: float | None = None
    """Olympic mean of the epochs to target over the runs of the result."""
    reference: Point | None = None
    """Reference point with which the result is compared. None if there are no comparable published
    runs.
    """
    fewest_acceptable: float | None = None
    """Number of epochs below which the result is suspiciously fast."""
    most_expected: float | None = None
    """Number of epochs above which the result is slower than the reference."""
    notes: tuple[str, ...] = ()


class NoReferenceError(ValueError):
    """Error for a result whose epochs cannot be compared with published runs."""


def judge_convergence(results: Iterable[Result], published: Sequence[Result]) -> list[Convergence]:
    """Return a verdict on each result whose runs trained to a target.

    Args:
        results: The results.
        published: All published results.
    """
    found = []
    for result in results:
        if not result.to_target:
            continue
        try:
            reference = _reference_for(result, published)
        except NoReferenceError as error:
            found.append(
                Convergence(result, ConvergenceVerdict.NOT_JUDGED, str(error), result.epochs)
            )
        else:
            found.append(judge(result, reference))
    return found


def judge(result: Result, reference: Point) -> Convergence:
    """Compare the epochs of a result with a reference point.

    The result must have at least one run.
    """
    epochs = non_null(result.runs, "epochs")
    if result.runs_failed == 1 and len(result.runs) > 1:
        # As in rcp_checker, a single failed run is treated as the slowest run.
        epochs.append(math.inf)
    mean, retained = _olympic_mean(epochs)
    low = fewest_acceptable(
        reference.mean, reference.standard_deviation, reference.retained, retained
    )
    if low is None:
        reason = (
            f"too few runs for a spread: {reference.runs} published, and {len(result.runs)} of the"
            " result"
        )
        return Convergence(result, ConvergenceVerdict.NOT_JUDGED, reason, mean, reference)
    high = 2 * reference.mean - low
    if mean < low:
        verdict = ConvergenceVerdict.SUSPICIOUSLY_FAST
    elif mean > high:
        verdict = ConvergenceVerdict.SLOWER
    else:
        verdict = ConvergenceVerdict.INSIDE
    notes = tuple(_notes(result, reference))
    return Convergence(result, verdict, "", mean, reference, low, high, notes)


def _olympic_mean(values: Sequence[float]) -> tuple[float, int]:
    """Return the mean without the smallest and the largest value.

    The second return value is the number of values in the mean. With fewer than three values, the
    function returns the plain mean.
    """
    retained = sorted(values)[1:-1] if len(values) >= 3 else values
    return math.fsum(retained) / len(retained), len(retained)


def fewest_acceptable(
    mean: float, standard_deviation: float, reference_runs: int, runs: int
) -> float | None:
    """Return the smallest mean that does not differ significantly from the reference.

    As in rcp_checker, both sets of runs are assumed to have the standard deviation of the
    reference. This function is the closed form of the binary search in rcp_checker.

    Args:
        mean: Mean epochs of the reference.
        standard_deviation: Standard deviation of the reference.
        reference_runs: Number of reference runs in the mean.
        runs: Number of runs in the mean of the result.

    Returns:
        Number of epochs, or None if there are too few runs.
    """
    degrees_of_freedom = reference_runs + runs - 2
    if degrees_of_freedom < 1:
        return None
    from scipy.stats import t  # importing SciPy takes 0.5 s

    error = standard_deviation * math.sqrt(1 / reference_runs + 1 / runs)
    return max(0.0, mean - float(t.ppf(1 - SIGNIFICANCE, degrees_of_freedom)) * error)


def _reference_for(result: Result, published: Sequence[Result]) -> Point:
    """Return the reference point with which a result is compared.

    Published runs of the same round are preferred over runs of all rounds with the same rules.

    Raises:
        NoReferenceError: The result or the published runs do not allow a comparison.
    """
    if result.profile in ("demo", "synthetic"):
        raise NoReferenceError(f"the target of profile {result.profile} has no relation to MLPerf")
    if result.single_figure or not result.runs or not all(_has_epochs(run) for run in result.runs):
        raise NoReferenceError("the epochs of single runs are unknown")
    batch = result.global_batch_size
    if not batch or batch < 0:
        raise NoReferenceError("the global batch size is unknown")
    pool = [candidate for candidate in published if _is_reference_of(candidate, result)]
    if not pool:
        raise NoReferenceError(
            f"no published run of {result.workload} has this target and the same rules"
        )
    same_round = [candidate for candidate in pool if candidate.round == result.rules]
    points: list[Point] = []
    for candidates in (same_round, pool):
        points = reference_points(candidates, result.runs)
        point = reference_point_at(batch, points, 2 * RUNS_REQUIRED[result.workload])
        if point is not None:
            return point
    nearest = sorted(points, key=lambda point: abs(math.log(point.batch / batch)))[:2]
    listed = ", ".join(
        f"{point.batch:,} ({point.mean:.4g} epochs, {point.runs} runs)" for point in nearest
    )
    text = (
        f"global batch {batch:,} is outside of the batches of published runs of {result.workload}"
    )
    raise NoReferenceError(
        f"{text}. Nearest: {listed}" if listed else f"{text}, except the runs of this result"
    )


def _has_epochs(run: Run) -> bool:
    return run.epochs is not None and 0 < run.epochs < math.inf


def _is_reference_of(candidate: Result, result: Result) -> bool:
    """Check whether a published result can be a reference for the epochs of a result."""
    return (
        candidate.workload == result.workload
        and result.workload in RUNS_REQUIRED
        and candidate.division != "open"
        and bool(candidate.global_batch_size)
        and not candidate.single_figure
        and ("token" in candidate.batch_unit)
        == ("token" in result.batch_unit)  # both batch units are tokens, or both are samples
        and round_like(candidate.rules) is round_like(result.rules)
        and bool(same_targets(result.targets, candidate.targets, result.workload))
    )


def reference_points(pool: Iterable[Result], excluded: Iterable[Run] = ()) -> list[Point]:
    """Return a reference point for each batch size, sorted by batch size.

    Args:
        pool: Published results. A run that was published twice is counted once.
        excluded: Runs to exclude, because they will be compared with the reference points.
    """
    seen = run_keys(excluded)
    epochs_by_batch: dict[int, list[float]] = {}
    sources_by_batch: dict[int, list[str]] = {}
    for result in pool:
        epochs = [
            run.epochs
            for run in result.runs
            if run.epochs is not None and not run_keys([run]) & seen
        ]
        seen |= run_keys(result.runs)
        if epochs and result.global_batch_size:
            epochs_by_batch.setdefault(result.global_batch_size, []).extend(epochs)
            sources_by_batch.setdefault(result.global_batch_size, []).append(
                f"{result.run} ({len(epochs)} runs)"
            )
    return [
        reference_point(batch, epochs_by_batch[batch], sources_by_batch[batch])
        for batch in sorted(epochs_by_batch)
    ]


def run_keys(runs: Iterable[Run]) -> set[tuple[int, int]]:
    """Return a key that identifies each run.

    The key contains the start time in seconds and the duration in hundredths of a second.
    """
    return {
        (round(run.start_ms / 1e3), round(run.seconds * 100))
        for run in runs
        if run.start_ms and run.seconds
    }


def reference_point(batch: int, epochs: Sequence[float], sources: Sequence[str] = ()) -> Point:
    """Compute the reference point from the epochs of runs with the same batch size."""
    mean, retained = _olympic_mean(epochs)
    return Point(batch, mean, statistics.pstdev(epochs), retained, len(epochs), tuple(sources))


def reference_point_at(batch: int, points: Sequence[Point], interpolated_runs: int) -> Point | None:
    """Return the reference point at a batch size.

    If no run has this batch size, the point is interpolated between the neighboring batch sizes.

    Args:
        batch: The batch size.
        points: Reference points at other batch sizes.
        interpolated_runs: Number of runs that is assigned to an interpolated point.

    Returns:
        The reference point, or None if `batch` is outside of the range of `points`.
    """
    below = max(
        (point for point in points if point.batch <= batch),
        key=lambda point: point.batch,
        default=None,
    )
    above = min(
        (point for point in points if point.batch >= batch),
        key=lambda point: point.batch,
        default=None,
    )
    if below is None or above is None:
        return None
    if below.batch == batch:
        return below
    share = (batch - below.batch) / (above.batch - below.batch)
    mean = below.mean + share * (above.mean - below.mean)
    deviation = below.standard_deviation + share * (
        above.standard_deviation - below.standard_deviation
    )
    sources = tuple(dict.fromkeys((*below.sources, *above.sources)))
    runs = below.runs + above.runs
    return Point(
        batch, mean, deviation, interpolated_runs, runs, sources, (below.batch, above.batch)
    )


def _notes(result: Result, reference: Point) -> Iterator[str]:
    """Yield the caveats of a verdict."""
    required, attempts = RUNS_REQUIRED[result.workload], len(result.runs) + result.runs_failed
    if reference.neighbors:
        low, high = reference.neighbors
        yield f"interpolated between published runs with batch sizes {low:,} and {high:,}"
    if round_like(result.rules).first_epoch == 0:
        yield "epochs are the epochs begun when the target was reached"
    elif result.workload == "ssd":
        yield (
            "SSD evaluates inside an epoch: epoch labels of submitters differ by up to four for the"
            " same training"
        )
    if attempts < required:
        yield f"{attempts} of the {required} runs that the rules require"
    if reference.runs < 2 * required:
        yield f"only {reference.runs} published runs, and RCP requires {2 * required}"
    if result.runs_failed == 1:
        yield "the failed run counts as the slowest"
    elif result.runs_failed:
        rule = find_scoring_rule(result.workload, result.rules)
        allowed = 1 if rule is None else rule.allowed_failures
        if result.runs_failed <= allowed:
            yield f"{result.runs_failed} runs failed, and the rules allow {allowed}"
        else:
            yield (
                f"{result.runs_failed} runs failed, which the rules do not allow, so they are not"
                " counted"
            )
    if result.profile and result.labels:
        yield f"labels: {', '.join(result.labels)}"
