"""Find copies of logs.

An incomplete log is a copy if it was copied while the original was being written.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.results.logs.record import RunRecord
from suite.results.names import workload_name
from suite.results.scoring_rules import find_scoring_rule


@dataclass
class Copies:
    """Logs that are ignored as copies, and repeated logs that are counted as runs."""

    copy_of: dict[Path, Path] = field(default_factory=dict)
    """Maps the path of each ignored log to the path of the log that is counted instead."""
    repeat_of: dict[Path, Path] = field(default_factory=dict)
    """Maps the path of a counted log to another counted log of the same run in the same folder."""
    also_in: dict[Path, str] = field(default_factory=dict)
    """Maps the path of a counted log to the name of a second entry that contains the same log."""


def _entry_key(log: RunRecord) -> Hashable:
    """Return the key of the entry that a log belongs to.

    Returns None for logs of this suite, because their settings identify the experiment.
    """
    return None if log.settings.profile or log.entry is None else log.entry.key


def _is_named_entry(log: RunRecord) -> bool:
    """Check whether the folder names identify the submitter and the system of a log.

    If they do, a copy of the log in another folder belongs to another entry.
    """
    return (
        _entry_key(log) is not None and log.entry is not None and log.entry.key != log.entry.folder
    )


def find_copies(runs: Sequence[RunRecord]) -> Copies:
    """Return the copies among the logs of `runs`.

    - Within an entry, only the longest log of a run is counted. Repeated logs of a submission are
      counted only if the submission would otherwise have fewer logs than the rules require, because
      the official score counts every log.
    - If several entries contain the same logs, the logs are counted in every entry. For example, a
      system may be submitted in two rounds.
    - A folder is a copy if its path does not identify an entry, and all of its logs also exist in
      another folder.
    """
    copies = Copies()
    groups = _same_runs(runs)
    counted: list[list[RunRecord]] = []
    for group in groups:
        by_entry: dict[Hashable, RunRecord] = {}
        for log in group:
            whole = by_entry.setdefault(_entry_key(log), log)
            if whole is not log:
                copies.copy_of[log.path] = whole.path
        counted.append(list(by_entry.values()))
    _keep_repeats_of_submissions([log for group in groups for log in group], copies)
    _drop_copied_folders(counted, copies)
    for group in counted:
        logs = [log for log in group if log.path not in copies.copy_of]
        for log in logs:
            another = next((item for item in logs if item is not log), None)
            if another is not None and another.entry is not None:
                copies.also_in[log.path] = another.entry.name
    return copies


def _keep_repeats_of_submissions(logs: Sequence[RunRecord], copies: Copies) -> None:
    """Count the repeated logs of a submission if the submission needs them.

    The repeated logs are counted only if the folder then has exactly the number of logs that the
    rules require.
    """
    by_folder: dict[Path, list[RunRecord]] = {}
    for log in logs:
        if _is_named_entry(log):
            by_folder.setdefault(log.path.parent, []).append(log)
    for folder, members in by_folder.items():
        entry = members[0].entry
        assert entry is not None
        rule = find_scoring_rule(entry.benchmark, entry.round)
        repeats = [log.path for log in members if log.path in copies.copy_of]
        is_original = all(copies.copy_of[path].parent == folder for path in repeats)
        if rule is not None and is_original and len(members) == rule.runs_required:
            for path in repeats:
                copies.repeat_of[path] = copies.copy_of.pop(path)


def _same_runs(runs: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Return groups of logs of the same run, with the longest log first in each group."""
    logs = [run for run in runs if run.digest]
    logs.sort(key=lambda log: (*_length(log), log.running), reverse=True)
    groups: list[list[RunRecord]] = []
    groups_by_start: dict[Hashable, list[list[RunRecord]]] = {}
    for log in logs:
        settings = log.described_settings
        workload = workload_name(settings.workload) if settings is not None else ""
        alike = groups_by_start.setdefault((workload, log.start_ms, log.seed), [])
        group = next((group for group in alike if _is_same_run(group[0], log)), None)
        if group is None:
            group = []
            alike.append(group)
            groups.append(group)
        group.append(log)
    return groups


def _drop_copied_folders(groups: Sequence[Sequence[RunRecord]], copies: Copies) -> None:
    """If a folder contains only copies, mark all logs in the folder as copies.

    The folders are processed in reverse order, so that the earliest folder is kept.
    """
    members: dict[Hashable, list[tuple[RunRecord, Sequence[RunRecord]]]] = {}
    for group in groups:
        for log in group:
            if not _is_named_entry(log):
                members.setdefault(_entry_key(log), []).append((log, group))
    for key in reversed(members):
        originals = [_find_original(log, group, copies) for log, group in members[key]]
        for (log, _), original in zip(members[key], originals, strict=True):
            if original is not None and None not in originals:
                copies.copy_of[log.path] = original.path


def _find_original(log: RunRecord, group: Sequence[RunRecord], copies: Copies) -> RunRecord | None:
    """Return the first counted log of the same run if it is at least as long as `log`.

    Returns None if no such log exists.
    """
    for candidate in group:
        if candidate is not log and candidate.path not in copies.copy_of:
            is_longer = group.index(candidate) < group.index(log)
            return candidate if is_longer or candidate.digest == log.digest else None
    return None


def _length(log: RunRecord) -> tuple[int, ...]:
    has_end = log.seconds is not None
    return has_end, len(log.evaluations), len(log.throughput), len(log.logged)


def _is_same_run(whole: RunRecord, part: RunRecord) -> bool:
    """Check whether two logs with equal start time and seed are logs of the same run.

    The logs belong to the same run if the longer log contains the logged values and the settings of
    the shorter log. Two different runs may also have equal start times if they start simultaneously
    and their logs have no seed and times in whole seconds.

    Args:
        whole: The longer log.
        part: The shorter log.
    """
    if whole.digest == part.digest:
        return True
    if not part.start_ms or (part.seed is None and part.start_ms % 1000 == 0):
        return False
    logged = all(whole.logged.get(name) == value for name, value in part.logged.items())
    return logged and (whole.settings, whole.platform) == (part.settings, part.platform)
