"""Refuses jobs whose folders would collide with each other or with earlier results."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from suite.common.paths import folds_names
from suite.plan.job import Job
from suite.plan.resume import check_unmatched, finished_status
from suite.plan.sweep_commands import is_recorded


def refuse_equal(jobs: Sequence[Job], output: Path) -> None:
    """Raise ValueError if two jobs would write into one folder. The message names the settings that differ.

    Some file systems do not distinguish upper and lower case, or two encodings of a letter with an accent.
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
                f"{first.name} and {job.name}: the file system of {output} takes these folders for the same; "
                f"set names that differ in more than case, or another output=FOLDER"
            )
        words = sorted(set(first.template.typed) ^ set(job.template.typed))
        keys = list(dict.fromkeys(word.partition("=")[0] for word in words))
        if not keys:
            raise ValueError(f"{job.name}: two jobs of this sweep have the same settings; leave one out")
        raise ValueError(
            f"{', '.join(words)}: two jobs of this sweep differ in {' and '.join(keys)} alone, which is not part of a job's "
            f"folder name ({job.name}); set one value, or run them as separate commands with another output=FOLDER each"
        )


def check_folders(jobs: Sequence[Job], resume: bool, output: Path, arguments: Sequence[str]) -> None:
    """Raise ValueError if the folder of a job holds results, or, with `resume`, results of different settings.

    The caller holds the lock of `output`. A resumed command that `output` does not record must match the unfinished runs there.
    Otherwise it would train from scratch next to them.
    """
    for job in jobs:
        if resume:
            for index in range(job.run_count):
                finished_status(job.folder / f"run_{index}", job.run(index, cache_cleared=False))
        elif job.folder.exists():
            raise ValueError(
                f"{job.folder} holds results already and is never overwritten; type another output=FOLDER, "
                f"or resume=true to run what is missing there"
            )
    if resume and not is_recorded(output, arguments):
        templates = {job.name: job.template for job in jobs}
        check_unmatched(output, templates, {job.name: job.run_count for job in jobs})
