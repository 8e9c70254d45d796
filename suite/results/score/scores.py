"""Score of several equal runs: the mean that the rules require, its spread, and the mean epochs of the same runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FIRST_CONVERGED = 50
"""NCF: of 100 runs the first 50 that reached the target, by start time, are scored (v0.5 rules)."""


@dataclass(frozen=True)
class TimedRun:
    """Time, epochs and samples of one successful run."""

    seconds: float
    epochs: float | None = None
    """Epochs to target; None if unknown."""
    start_ms: float = 0.0
    """`run_start`, milliseconds since 1970: orders the runs."""
    samples: float | None = None
    """Samples trained on."""
    train_seconds: float | None = None
    """Seconds spent in training steps, without evaluation."""
    steps: int | None = None
    """Optimizer steps in them."""
    energy_joules: float | None = None
    """Of all devices, from telemetry; None where power was not measured."""
    seed: int | None = None
    """As logged; None if unknown."""


@dataclass(frozen=True)
class Score:
    """Score of a group of equal runs. A field is None if it cannot be computed."""

    runs_successful: int
    runs_failed: int
    runs_required: int | None
    method: str
    """`olympic mean` (fastest and slowest dropped) or `plain mean` (fewer than three runs)."""
    runs_retained: int
    """Runs that the means are taken over."""
    notes: tuple[str, ...]
    """Why this is not the official score, or how a failed run was counted."""
    seconds: float | None
    """Mean time to train of the retained runs."""
    epochs: float | None
    """Mean epochs to target of the retained runs."""
    seconds_minimum: float | None
    seconds_maximum: float | None
    seconds_standard_deviation: float | None
    """Sample standard deviation over all successful runs; None below two."""
    samples_per_second: float | None
    """All samples over all training seconds of all successful runs (evaluation not counted)."""

    @property
    def seconds_per_epoch(self) -> float | None:
        """Mean seconds over mean epochs of the same runs, evaluation included."""
        if self.seconds is None or not self.epochs:
            return None
        return self.seconds / self.epochs


def retained_runs(
    runs: Sequence[TimedRun], failed: int, required: int | None, first_converged: int | None = None
) -> tuple[list[TimedRun], str, tuple[str, ...]]:
    """(runs that count, name of the mean, notes).

    Fastest and slowest are dropped from three runs on. In a complete set one failed run is the slowest (v0.6 rules on).
    With `first_converged` (NCF) only so many of the successful runs count, in order of start, once the set is complete.
    """
    attempts = len(runs) + failed
    complete = required is not None and attempts >= required
    notes = [] if complete or required is None else [f"fewer runs than the rules ask ({attempts} of {required})"]
    if required is not None and attempts > required:
        notes.append(
            f"more runs than the rules ask ({attempts} for {required}): which of them count was not fixed before"
        )
    if complete and first_converged is not None and len(runs) >= first_converged:
        runs = sorted(runs, key=lambda run: run.start_ms)[:first_converged]
        notes.append(f"first {first_converged} successful runs")
        failed = 0
    if len(runs) < 3:
        return list(runs), "plain mean", tuple(notes)
    ordered = sorted(runs, key=lambda run: run.seconds)
    if not complete or failed == 0:
        return ordered[1:-1], "olympic mean", tuple(notes)
    if failed == 1:
        return ordered[1:], "olympic mean", (*notes, "the failed run counts as the slowest")
    return ordered[1:-1], "olympic mean", (*notes, f"no official score: {failed} runs failed")


def score(
    runs: Sequence[TimedRun], failed: int = 0, required: int | None = None, first_converged: int | None = None
) -> Score:
    """Score `runs` (the successful ones) of a group in which `failed` more runs failed."""
    retained, method, notes = retained_runs(runs, failed, required, first_converged)
    seconds = [run.seconds for run in runs]
    epochs = [run.epochs for run in retained if run.epochs is not None]
    return Score(
        runs_successful=len(runs),
        runs_failed=failed,
        runs_required=required,
        method=method,
        runs_retained=len(retained),
        notes=notes,
        seconds=_mean([run.seconds for run in retained]),
        epochs=_mean(epochs) if len(epochs) == len(retained) else None,
        seconds_minimum=min(seconds, default=None),
        seconds_maximum=max(seconds, default=None),
        seconds_standard_deviation=_standard_deviation(seconds),
        samples_per_second=_samples_per_second(runs),
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _standard_deviation(values: Sequence[float]) -> float | None:
    mean = _mean(values)
    if mean is None or len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _samples_per_second(runs: Sequence[TimedRun]) -> float | None:
    measured = [(run.samples, run.train_seconds) for run in runs if run.samples and run.train_seconds]
    train_seconds = math.fsum(seconds for _, seconds in measured if seconds)
    return math.fsum(samples for samples, _ in measured if samples) / train_seconds if train_seconds > 0 else None
