"""Find results whose run times differ more between than within output folders."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.columns import OURS, Result, Run, epochs_trained
from suite.results.combine import grouped

NOTABLE_RATIO = 1.1
"""Minimum ratio between the mean times of two output folders that counts as a disagreement. This
suite defines the threshold.
"""


@dataclass(frozen=True)
class Disagreement:
    """A result whose run times disagree between output folders."""

    result: Result
    seconds_by_folder: Mapping[Path, tuple[float, ...]]
    """Times to target of the runs in each output folder."""
    ratio: float
    """Mean time per epoch in the slowest folder divided by the mean time per epoch in the fastest
    folder. The times include the setup time.
    """

    @property
    def has_spread(self) -> bool:
        """Return whether any folder contains several runs, so that their range is known."""
        return any(len(seconds) > 1 for seconds in self.seconds_by_folder.values())


def find_disagreements(results: Iterable[Result]) -> list[Disagreement]:
    """Return the results of this suite whose times differ between output folders.

    A result is returned under two conditions. First, the mean times per epoch of the slowest and
    the fastest folder have at least the ratio `NOTABLE_RATIO`. Second, their difference is larger
    than the range of the times within any folder. The comparison uses the time per epoch, because
    the number of epochs to the target varies with the seed.
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

    A log has the path OUTPUT/JOB/run_N/result_N.txt, and the function returns OUTPUT. For a log in
    a shallower path, the function returns the root folder.
    """
    folders = Path(run.path).absolute().parents
    return folders[min(2, len(folders) - 1)]


def _seconds_per_epoch(run: Run) -> float:
    """Return the time per epoch of a run, including setup time."""
    return (run.seconds or 0.0) / (epochs_trained(run) or 1.0)


def _disagree(folders: Sequence[Sequence[float]]) -> bool:
    """Check whether the times per epoch disagree between folders.

    Args:
        folders: The time per epoch of each run, by folder.
    """
    means = [statistics.fmean(values) for values in folders]
    if min(means) <= 0 or max(means) < NOTABLE_RATIO * min(means):
        return False
    spread = max(max(values) - min(values) for values in folders)
    return max(means) - min(means) > spread
