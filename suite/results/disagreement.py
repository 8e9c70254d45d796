"""Finds runs of an experiment whose output folders differ by more than their spread."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.columns import OURS, Result, Run, epochs_trained
from suite.results.combine import grouped

NOTABLE_RATIO = 1.1
"""Folders whose mean times differ by a smaller ratio do not disagree. Threshold of this suite."""


@dataclass(frozen=True)
class Disagreement:
    """A result whose runs in different output folders took different times."""

    result: Result
    seconds_by_folder: Mapping[Path, tuple[float, ...]]
    """Times to target of the runs in each output folder."""
    ratio: float
    """Slowest over fastest folder, by the mean time per epoch, setup included."""

    @property
    def has_spread(self) -> bool:
        """Whether a folder has several runs, so that the spread of its runs is known."""
        return any(len(seconds) > 1 for seconds in self.seconds_by_folder.values())


def find_disagreements(results: Iterable[Result]) -> list[Disagreement]:
    """Return the results of this suite whose runs in several output folders disagree.

    The folders disagree if their mean times per epoch differ by more than `NOTABLE_RATIO`, and by
    more than the largest difference between the runs of a folder. Time per epoch is compared since
    epochs to target vary between seeds.
    """
    found = []
    for result in results:
        if result.round != OURS or not result.to_target:
            continue
        runs_by_folder = grouped(
            (run for run in result.runs if run.path and run.seconds), _output_folder
        )
        times = [[_seconds_per_epoch(run) for run in runs] for runs in runs_by_folder.values()]
        if len(times) < 2 or not _disagree(times):
            continue
        means = [statistics.fmean(values) for values in times]
        seconds = {
            folder: tuple(run.seconds or 0.0 for run in runs)
            for folder, runs in runs_by_folder.items()
        }
        found.append(Disagreement(result, seconds, max(means) / min(means)))
    return found


def _output_folder(run: Run) -> Path:
    """Return the output folder of a run.

    It is OUTPUT in OUTPUT/JOB/run_N/result_N.txt, or the root if a log is less deep.
    """
    folders = Path(run.path).absolute().parents
    return folders[min(2, len(folders) - 1)]


def _seconds_per_epoch(run: Run) -> float:
    """Return the time per epoch of a run, setup included."""
    return (run.seconds or 0.0) / (epochs_trained(run) or 1.0)


def _disagree(folders: Sequence[Sequence[float]]) -> bool:
    """Check whether the times per epoch of the runs in several folders disagree."""
    means = [statistics.fmean(values) for values in folders]
    if min(means) <= 0 or max(means) < NOTABLE_RATIO * min(means):
        return False
    spread = max(max(values) - min(values) for values in folders)
    return max(means) - min(means) > spread
