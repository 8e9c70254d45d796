"""Finds experiments whose run times differ between output folders beyond their range."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.columns import OURS, Result, Run, epochs_trained
from suite.results.combine import grouped

NOTABLE_RATIO = 1.1
"""Minimum ratio of mean times at which two output folders disagree. The threshold was chosen for
this suite.
"""


@dataclass(frozen=True)
class Disagreement:
    """A result whose run times differ between output folders."""

    result: Result
    seconds_by_folder: Mapping[Path, tuple[float, ...]]
    """Times to target of the runs in each output folder."""
    ratio: float
    """Mean time per epoch of the slowest folder divided by that of the fastest folder. Setup
    time is included.
    """

    @property
    def has_spread(self) -> bool:
        """Return whether a folder has several runs, so that their range can be computed."""
        return any(len(seconds) > 1 for seconds in self.seconds_by_folder.values())


def find_disagreements(results: Iterable[Result]) -> list[Disagreement]:
    """Return the results of this suite whose times differ between output folders.

    Two conditions must hold: the mean times per epoch of the folders differ by more than
    `NOTABLE_RATIO`, and by more than the largest difference between runs of the same folder. The
    comparison uses the time per epoch, because the number of epochs to target varies with the seed.
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

    The output folder is OUTPUT in OUTPUT/JOB/run_N/result_N.txt. For a log in a shallower path, the
    function returns the root folder.
    """
    folders = Path(run.path).absolute().parents
    return folders[min(2, len(folders) - 1)]


def _seconds_per_epoch(run: Run) -> float:
    """Return the time per epoch of a run, including setup time."""
    return (run.seconds or 0.0) / (epochs_trained(run) or 1.0)


def _disagree(folders: Sequence[Sequence[float]]) -> bool:
    """Check whether the times per epoch of runs in several folders disagree."""
    means = [statistics.fmean(values) for values in folders]
    if min(means) <= 0 or max(means) < NOTABLE_RATIO * min(means):
        return False
    spread = max(max(values) - min(values) for values in folders)
    return max(means) - min(means) > spread
