"""Check that the folders of jobs differ and do not contain earlier results."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from suite.common.paths import folds_names
from suite.plan.job import Job
from suite.plan.resume import check_unmatched, finished_status
from suite.plan.sweep_commands import is_recorded


def refuse_equal(jobs: Sequence[Job], output: Path) -> None:
    """Raise ValueError if two jobs would write to the same folder.

    The error message lists the settings in which the two jobs differ.

    Two different names can refer to the same folder: some file systems ignore case, and some file
    systems ignore the encoding of accented letters.
    """
    seen: dict[str, Job] = {}
    folds = folds_names(output)
    for job in jobs:
        key = unicodedata.normalize("NFC", job.name).casefold() if folds else job.name
        first = seen.setdefault(key, job)
        if first is job:
            continue
        if first.name != job.name:
            raise ValueError(
                f"{first.name} and {job.name}: the file system of {output} does not distinguish"
                " these folder names. Set names that differ in more than case, or set a different"
                " output=FOLDER"
            )
        overrides = sorted(set(first.template.overrides) ^ set(job.template.overrides))
        keys = list(dict.fromkeys(override.partition("=")[0] for override in overrides))
        if not keys:
            raise ValueError(
                f"{job.name}: two jobs of this sweep have the same settings. Remove a duplicate"
            )
        raise ValueError(
            f"{', '.join(overrides)}: two jobs of this sweep differ only in {' and '.join(keys)},"
            f" which is not part of a job's folder name ({job.name}). Set a single value, or run"
            " separate commands with a different output=FOLDER each"
        )


def check_folders(
    jobs: Sequence[Job], resume: bool, output: Path, arguments: Sequence[str]
) -> None:
    """Raise ValueError if the folder of a job already contains results.

    With `resume`, the error is only raised for results of runs with different settings. The caller
    must hold the lock of `output`. If a resumed command is not recorded in `output`, the command
    must match the unfinished runs in `output`. Otherwise, the command would start additional runs
    from step 0.

    Args:
        jobs: The jobs of the command.
        resume: True if the command resumes the runs in `output`.
        output: Folder of the runs.
        arguments: The command line.
    """
    for job in jobs:
        if resume:
            for index in range(job.run_count):
                finished_status(job.folder / f"run_{index}", job.run(index, cache_cleared=False))
        elif job.folder.exists():
            raise ValueError(
                f"{job.folder} already holds results and is never overwritten. Set a different"
                " output=FOLDER, or set resume=true to run the missing runs of this folder"
            )
    if resume and not is_recorded(output, arguments):
        templates = {job.name: job.template for job in jobs}
        check_unmatched(output, templates, {job.name: job.run_count for job in jobs})
