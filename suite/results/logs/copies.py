"""Finds copies of logs: complete copies, and copies that were made while the run wrote its log."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.common.run_end import EndStatus
from suite.results.logs.collect import Run
from suite.results.logs.record import RunRecord
from suite.results.names import workload_name
from suite.results.scoring_rules import find_scoring_rule


@dataclass
class Copies:
    """Logs that do not count, and logs that occur several times and count nevertheless."""

    copy_of: dict[Path, Path] = field(default_factory=dict)
    """Log that does not count to the log that counts in its place."""
    repeat_of: dict[Path, Path] = field(default_factory=dict)
    """Log that counts to a log of the same run in its folder that counts too."""
    also_in: dict[Path, str] = field(default_factory=dict)
    """Log that counts to the name of a second entry that contains the same log."""


@dataclass(frozen=True)
class _Log:
    run: Run
    record: RunRecord

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def entry_key(self) -> Hashable:
        """Key of the log's entry. None for logs of this suite, whose settings define their experiment."""
        entry = self.run.entry
        return None if self.record.settings.profile or entry is None else entry.key

    @property
    def is_named_entry(self) -> bool:
        """True if the folders name the submitter and system. A copy elsewhere is then a log of a different entry."""
        entry = self.run.entry
        return self.entry_key is not None and entry is not None and entry.key != entry.folder


def find_copies(runs: Sequence[Run]) -> Copies:
    """Return the copies among the logs of `runs`.

    - Within an entry the longest log of a run counts. A submission is an exception if it has the required number of logs only
      with its repeated logs: the official score counts every log in it.
    - Entries that contain the same logs, such as a system that was submitted in two rounds, keep them all.
    - A folder is a copy if no layout names it as an entry and all of its logs also lie elsewhere.
    """
    copies = Copies()
    groups = _same_runs(runs)
    counted: list[list[_Log]] = []
    for group in groups:
        by_entry: dict[Hashable, _Log] = {}
        for log in group:
            whole = by_entry.setdefault(log.entry_key, log)
            if whole is not log:
                copies.copy_of[log.path] = whole.path
        counted.append(list(by_entry.values()))
    _keep_repeats_of_submissions([log for group in groups for log in group], copies)
    _drop_copied_folders(counted, copies)
    for group in counted:
        logs = [log for log in group if log.path not in copies.copy_of]
        for log in logs:
            another = next((item for item in logs if item is not log), None)
            if another is not None and another.run.entry is not None:
                copies.also_in[log.path] = another.run.entry.name
    return copies


def _keep_repeats_of_submissions(logs: Sequence[_Log], copies: Copies) -> None:
    """Let the repeated logs of a submission count if the folder has the required number of logs only with them."""
    by_folder: dict[Path, list[_Log]] = {}
    for log in logs:
        if log.is_named_entry:
            by_folder.setdefault(log.path.parent, []).append(log)
    for folder, members in by_folder.items():
        entry = members[0].run.entry
        assert entry is not None
        rule = find_scoring_rule(entry.benchmark, entry.round)
        repeats = [log.path for log in members if log.path in copies.copy_of]
        is_original = all(copies.copy_of[path].parent == folder for path in repeats)
        if rule is not None and is_original and len(members) == rule.runs_required:
            for path in repeats:
                copies.repeat_of[path] = copies.copy_of.pop(path)


def _same_runs(runs: Sequence[Run]) -> list[list[_Log]]:
    """Return the logs grouped by the run that they are of, the longest log of each group first."""
    logs = [_Log(run, run.record) for run in runs if run.record is not None and run.record.digest]
    logs.sort(key=lambda log: (*_length(log.record), log.run.running), reverse=True)
    groups: list[list[_Log]] = []
    groups_by_start: dict[Hashable, list[list[_Log]]] = {}
    for log in logs:
        workload = workload_name(log.run.settings.workload) if log.run.settings is not None else ""
        alike = groups_by_start.setdefault((workload, log.record.start_ms, log.record.seed), [])
        group = next((group for group in alike if _is_same_run(group[0].record, log.record)), None)
        if group is None:
            group = []
            alike.append(group)
            groups.append(group)
        group.append(log)
    return groups


def _drop_copied_folders(groups: Sequence[Sequence[_Log]], copies: Copies) -> None:
    """Mark the logs of folders that contain only copies. The last folder comes first."""
    members: dict[Hashable, list[tuple[_Log, Sequence[_Log]]]] = {}
    for group in groups:
        for log in group:
            if not log.is_named_entry:
                members.setdefault(log.entry_key, []).append((log, group))
    for key in reversed(members):
        originals = [_find_original(log, group, copies) for log, group in members[key]]
        for (log, _), original in zip(members[key], originals, strict=True):
            if original is not None and None not in originals:
                copies.copy_of[log.path] = original.path


def _find_original(log: _Log, group: Sequence[_Log], copies: Copies) -> _Log | None:
    """Return the first log of the same run that counts and is at least as long, if it exists."""
    for candidate in group:
        if candidate is not log and candidate.path not in copies.copy_of:
            is_longer = group.index(candidate) < group.index(log)
            return candidate if is_longer or candidate.record.digest == log.record.digest else None
    return None


def _length(log: RunRecord) -> tuple[int, ...]:
    return log.end.status is not EndStatus.TRUNCATED, len(log.evaluations), len(log.throughput), len(log.logged)


def _is_same_run(whole: RunRecord, part: RunRecord) -> bool:
    """Check whether two logs of equal start and seed hold the same run, as their records or the settings of the shorter show.

    Several runs that were started together may share a start in whole seconds without a seed.
    """
    if whole.digest == part.digest:
        return True
    if not part.start_ms or (part.seed is None and part.start_ms % 1000 == 0):
        return False
    logged = all(whole.logged.get(name) == value for name, value in part.logged.items())
    return logged and (whole.settings, whole.platform) == (part.settings, part.platform)
