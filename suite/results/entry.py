"""Determine the submission (entry) that a folder of logs belongs to.

The round, submitter, and system are derived from the names of the folders and from files near the
logs.

The logs of a submission are stored in the folder `ROUND/SUBMITTER/results/SYSTEM/BENCHMARK`. Some
rounds have an additional folder `closed` or `open` above SUBMITTER. The logs often contain
placeholders or the machine name of an example, so folder names take precedence over the logs.
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
"""Name of the file with the scaling factor of a result. The result_summarizer of mlperf-logging
multiplies the score of the file's folder by this factor.
"""
_FACTOR_RANGE = (0.1, 10.0)
_DIVISION_FOLDERS = ("closed", "open")
_SCALING_KINDS = ("strong", "weak")
"""Names of the folders between SYSTEM and BENCHMARK in submissions of MLPerf HPC."""
_RUN_FOLDER = re.compile(r"run_\d+")
_LOG_OF_SUBMISSION = re.compile(r"result_[^/]*\.txt(\.(gz|bz2|xz))?")
"""File name of a submission's log. Submissions contain only uncompressed logs, but a user may have
compressed the logs.
"""


@dataclass(frozen=True)
class Entry:
    """Information about a folder of logs, derived from folder names and files.

    Unknown fields are empty strings.
    """

    folder: Path
    round: str = ""
    """Name of the closest parent folder that is named after a round, such as `v4.0`."""
    submitter: str = ""
    system: str = ""
    """Name of the SYSTEM folder. Empty if the folders do not have the layout of a submission."""
    benchmark: str = ""
    division: str = ""
    description: SystemDescription = SystemDescription()
    scaling_factor: float | None = None
    """Factor in `scaling.json`. None if the file is missing or invalid."""
    problems: tuple[str, ...] = ()
    """Messages about invalid files in the folder, one line per file."""

    @property
    def is_submission(self) -> bool:
        """Return whether the folders have the layout of a submission."""
        return bool(self.system)

    @property
    def name(self) -> str:
        """Return the name of the entry for notes.

        The name is `v4.0/Dell/XE9640/resnet`, for example, or the path of the folder.
        """
        parts = (self.round, self.submitter, self.system, self.benchmark)
        return "/".join(filter(None, parts)) if self.is_submission else str(self.folder)

    @property
    def key(self) -> Hashable:
        """Return an identifier of the entry, which copies of the entry share."""
        if self.is_submission and self.round:
            return self.round, self.submitter, self.system, self.benchmark
        return self.folder


def log_folder(log: Path) -> Path:
    """Return the folder that contains all logs of a result.

    Usually, this is the folder of the log. If the folder is named `run_N`, the function returns its
    parent folder.
    """
    folder = absolute_place(log.parent)
    return folder.parent if _RUN_FOLDER.fullmatch(folder.name) else folder


def is_submission_log(name: str) -> bool:
    """Check whether a file name is the name of a submission's log.

    The file name is `result_N.txt`, optionally followed by the suffix of a compressed file.
    """
    return _LOG_OF_SUBMISSION.fullmatch(name) is not None


def is_entry_file(path: Path) -> bool:
    """Check whether a file describes the results of a submission, according to its name."""
    is_description = path.parent.name == "systems" and path.suffix == ".json"
    return is_description or path.name in (SCALING_FILE, *DESCRIPTION_FILES)


def read_entry(folder: Path) -> Entry:
    """Return the entry of a folder of logs with its system description and scaling factor.

    The function never raises an exception for invalid files, and lists these files in `problems`.

    If the folder is a symbolic link into a submission, the function returns the entry of the link
    target. However, if the parent folders of the link have the layout of a submission, the function
    returns the entry of the link.
    """
    path = absolute_place(folder)
    entry = _read_entry_at(path)
    target = path.resolve()
    if entry.is_submission or target == path:
        return entry
    entry_of_target = _read_entry_at(target)
    return entry_of_target if entry_of_target.is_submission else entry


def _read_entry_at(folder: Path) -> Entry:
    """Return the entry of a folder, derived from its absolute path and its files."""
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

    The function returns None for folders with a different layout.

    Many unrelated folders are named `results`. SUBMITTER must therefore also contain a folder
    `systems`, or be located in a folder of a division or a round.
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

    Raises ValueError with a single-line message if the factor is invalid.
    """
    value = read_json_object(path).get("scaling_factor")
    low, high = _FACTOR_RANGE
    if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high:
        return float(value)
    found = clean(json.dumps(value)[:60], 40)
    raise ValueError(
        f"{path}: expected a number from {low:g} to {high:g} as scaling_factor, got {found}"
    )
