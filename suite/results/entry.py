"""Entries of submissions: the origin of a folder of logs.

The origin follows from the names of folders and the files near it.

A submission has the folders `ROUND/SUBMITTER/results/SYSTEM/BENCHMARK`, in some rounds with
`closed` or `open` above SUBMITTER. Its logs often contain placeholders, or the names of the machine
of an example, so that the names of folders take precedence.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path

from suite.results.names import absolute_place, parse_round_name, round_of_folder
from suite.results.system_description import (
    DESCRIPTION_FILES,
    SystemDescription,
    find_description,
    read_description,
    read_json_object,
)
from suite.results.text import clean

SCALING_FILE = "scaling.json"
"""File with the factor by which result_summarizer of mlperf-logging multiplies the score of a
folder.
"""
_FACTOR_RANGE = (0.1, 10.0)
_DIVISION_FOLDERS = ("closed", "open")
_SCALING_KINDS = ("strong", "weak")
"""Folders between SYSTEM and BENCHMARK in submissions of MLPerf HPC."""
_RUN_FOLDER = re.compile(r"run_\d+")
_LOG_OF_SUBMISSION = re.compile(r"result_[^/]*\.txt(\.(gz|bz2|xz))?")
"""Name of a log of a submission. Submissions have no compressed logs, but users compress them."""


@dataclass(frozen=True)
class Entry:
    """A folder of logs, with the facts from the names of folders and from files.

    Empty strings are unknown values.
    """

    folder: Path
    round: str = ""
    """Name of the nearest folder above the logs that has the name of a round, such as `v4.0`."""
    submitter: str = ""
    system: str = ""
    """Name of the system's folder; empty if the folders do not have the layout of a submission."""
    benchmark: str = ""
    division: str = ""
    description: SystemDescription = SystemDescription()
    scaling_factor: float | None = None
    """Factor in `scaling.json`; None without a usable file."""
    problems: tuple[str, ...] = ()
    """A line for each file of the entry that cannot be used."""

    @property
    def is_submission(self) -> bool:
        """Whether the folders have the layout of a submission."""
        return bool(self.system)

    @property
    def name(self) -> str:
        """Name of the entry in notes: `v4.0/Dell/XE9640/resnet`, or the path of the folder."""
        parts = (self.round, self.submitter, self.system, self.benchmark)
        return "/".join(filter(None, parts)) if self.is_submission else str(self.folder)

    @property
    def key(self) -> Hashable:
        """Identifier of the entry. Copies of an entry in several folders have the same key."""
        if self.is_submission and self.round:
            return self.round, self.submitter, self.system, self.benchmark
        return self.folder


def log_folder(log: Path) -> Path:
    """Return the folder of a result's logs.

    It is the folder of the log, or the folder above it if the name is `run_N`.
    """
    folder = absolute_place(log.parent)
    return folder.parent if _RUN_FOLDER.fullmatch(folder.name) else folder


def is_submission_log(name: str) -> bool:
    """Check whether a file has the name of a log of a submission.

    The name is `result_0.txt`, with any number, compressed or not.
    """
    return _LOG_OF_SUBMISSION.fullmatch(name) is not None


def is_entry_file(path: Path) -> bool:
    """Check whether a file has the name of a file that describes the results of a submission."""
    is_description = path.parent.name == "systems" and path.suffix == ".json"
    return is_description or path.name in (SCALING_FILE, *DESCRIPTION_FILES)


def read_entry(folder: Path) -> Entry:
    """Return the entry of a folder of logs, with its system description and its scaling factor.

    No content of a file raises an exception. Files that cannot be used are listed in `problems`.

    A symbolic link to a folder of a submission gives the entry of that folder, unless the folders
    above the link have the layout of a submission themselves.
    """
    path = absolute_place(folder)
    entry = _read_entry_at(path)
    target = path.resolve()
    if entry.is_submission or target == path:
        return entry
    entry_of_target = _read_entry_at(target)
    return entry_of_target if entry_of_target.is_submission else entry


def _read_entry_at(folder: Path) -> Entry:
    """Return the entry of a folder.

    It follows from the names in the absolute path and the files of the entry.
    """
    system_folder = folder.parent.parent if folder.parent.name in _SCALING_KINDS else folder.parent
    submitter_folder = _find_submitter_folder(system_folder)
    problems: list[str] = []
    description = SystemDescription()
    path = find_description(submitter_folder, system_folder)
    if path is not None:
        try:
            description = read_description(path)
        except ValueError as error:
            problems.append(f"the system description is not used: {error}")
    scaling_factor = None
    if os.path.isfile(folder / SCALING_FILE):
        try:
            scaling_factor = _read_scaling_factor(folder / SCALING_FILE)
        except ValueError as error:
            problems.append(f"the score is not scaled: {error}")
    entry = Entry(
        folder,
        round=round_of_folder(folder / "log"),
        submitter=description.submitter,
        division=description.division,
        description=description,
        scaling_factor=scaling_factor,
        problems=tuple(clean(problem, 300) for problem in problems),
    )
    if submitter_folder is None:
        return entry
    above = submitter_folder.parent.name.lower()
    return replace(
        entry,
        submitter=clean(submitter_folder.name),
        system=clean(system_folder.name),
        benchmark=clean(folder.name),
        division=entry.division or (above if above in _DIVISION_FOLDERS else ""),
    )


def _find_submitter_folder(system_folder: Path) -> Path | None:
    """Return the folder SUBMITTER of `SUBMITTER/results/SYSTEM`.

    Returns None for folders with a different layout.

    The name `results` is common. So SUBMITTER must also contain `systems`, or be in a folder of a
    division or a round.
    """
    submitter_folder = system_folder.parent.parent
    if system_folder.parent.name.lower() != "results" or not submitter_folder.name:
        return None
    above = submitter_folder.parent
    is_submission = (
        os.path.isdir(submitter_folder / "systems")
        or above.name.lower() in _DIVISION_FOLDERS
        or bool(parse_round_name(above.name))
    )
    return submitter_folder if is_submission else None


def _read_scaling_factor(path: Path) -> float:
    """Return the factor in a `scaling.json`.

    Raises ValueError with a single line if the file has no valid factor.
    """
    value = read_json_object(path).get("scaling_factor")
    low, high = _FACTOR_RANGE
    if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high:
        return float(value)
    found = clean(json.dumps(value)[:60], 40)
    raise ValueError(
        f"{path}: expected a number from {low:g} to {high:g} as scaling_factor, got {found}"
    )
