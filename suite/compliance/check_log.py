"""Check logs against the MLPerf rules with mlperf-logging's compliance checker.

Each rule violation is reported as a `Complaint`, which contains a suggested remedy. The checker
executes code from rule files. A rule file comes from mlperf-logging or from the user, or is
generated from the rounds' rules. Text from a log is never executed. Text from a log also cannot
select a file outside the folders of the rule files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.catalog.rounds import find_round
from suite.common.run_end import EndStatus
from suite.compliance import rule_files, rulesets, suite_log
from suite.compliance.complaints import (
    END_REMEDY,
    MISSING,
    OF_TRAINING,
    Complaint,
    ComplaintKind,
    asked_otherwise,
    changed_target,
    explain,
)
from suite.compliance.equivalences import equivalences
from suite.compliance.find_rules import RULESET, find_rules, hints, open_rules
from suite.compliance.rulesets import Ruleset
from suite.results.logs.collect import NOT_ENDED, end_next_to
from suite.results.logs.events import Event, Problem, without_repeats
from suite.results.logs.foreign import attempts
from suite.results.logs.lines import read_file
from suite.results.logs.reader import interpret
from suite.results.logs.record import RunRecord
from suite.results.text import clean


@dataclass(frozen=True)
class Verdict:
    """Result of `suite check` for a log, or for a file or folder of a submission tree."""

    path: Path
    passed: bool
    text: str
    """Summary of the verdict in a single line."""
    rules_name: str
    """Name of the rule file or checker that was applied."""
    complaints: tuple[Complaint, ...]
    remarks: tuple[str, ...] = ()
    """Findings that do not make the check fail.

    Examples are format errors that the log reader and the checker tolerate. For a demo with a
    different target, the remarks include MLPerf's target.
    """
    judged: bool = True
    """False if the run has not ended, or if no ruleset applies to the log.

    If `judged` is False, `passed` has no meaning.
    """
    why_rules: str = ""
    """Reason why these rules were chosen. The string is empty if the log determines the rules."""
    missed_target: bool = False
    """True if the log fails only because the run missed its target and did not claim success."""

    @classmethod
    def of(
        cls, path: Path, rules: str, good: str, complaints: Sequence[Complaint], werror: bool
    ) -> Verdict:
        """Build a verdict from complaints.

        If the list of complaints is empty, `good` is the text of the verdict.
        """
        passed = not any(werror or not complaint.warning for complaint in complaints)
        return cls(
            path, passed, counted(complaints) if complaints else good, rules, tuple(complaints)
        )


def counted(complaints: Sequence[Complaint]) -> str:
    """Format the number of complaints as text: `1 complaint`, `2 complaints`."""
    return f"{len(complaints)} complaint{'s' if len(complaints) != 1 else ''}"


def check_file(path: Path, rules: str | None = None, werror: bool = False) -> Verdict:
    """Check a log. Invalid content of the log never raises an error.

    Args:
        path: The log.
        rules: A ruleset of mlperf-logging (`6.1.0`), the name of generated rules (`ncf_demo`), or
            the path of a rule file. None selects the rules of the log's round.
        werror: Treat warnings as errors.

    Raises:
        ValueError: The log or the rule file cannot be opened, or the file is not a rule file.
    """
    requested = find_rules(rules) if rules is not None else None
    file = read_file(path)
    events, problems = file.events, file.problems
    record = interpret(path, events, problems)
    if not record.format:
        unread = "; ".join(str(problem) for problem in problems[:3])
        return Verdict(path, False, unread, (requested or Ruleset(RULESET)).name, ())
    if record.end.status is EndStatus.TRUNCATED and end_next_to(path) == NOT_ENDED:
        return not_ended(path)
    chosen = requested or rulesets.rules_of(record)
    has_none = bool(record.settings.profile) and rulesets.ruleset_of(record) == ""
    if requested is not None and not requested.replaces_ruleset and has_none:
        raise ValueError(
            f"--rules {rules}: {path} is of rules={record.settings.rules}, which no ruleset of"
            " mlperf-logging has. Leave --rules out, because the suite has rules for this round"
        )
    read_by = "MLL" if chosen is not None and chosen.ruleset == "0.6.0" else "MLLOG"
    mllog_events = [event for event in events if event.format == read_by]
    if chosen is None or not mllog_events:
        return _not_judged(path, record, chosen)
    complaints = _complaints(mllog_events, problems, record, chosen, werror)
    remarks = tuple(str(problem) for problem in problems if problem.checker_reads)
    profile = record.settings.profile
    run_problems = [problem for problem in record.problems if problem not in problems]
    is_early = _counts_from_1(mllog_events, record) is not None
    is_readable = all(problem.checker_reads for problem in problems)
    findings = suite_log.find_complaints(record, mllog_events, run_problems, is_early, is_readable)
    if asked := asked_otherwise(record):
        kept = [item for item in complaints if item.key not in OF_TRAINING]
        complaints = kept + [asked] * (profile == "reference" and len(kept) < len(complaints))
    # This branch excludes demos that are checked with MLPerf's rules, because a demo's target does
    # not come from these rules.
    elif chosen.replaces_ruleset or profile == "reference":
        changed = changed_target(record)
        complaints = [
            replace(item, do=changed) if changed and _of_target(item) else item
            for item in complaints
        ]
    if (
        record.status == "success"
        and profile not in ("", "reference")
        and not chosen.replaces_ruleset
    ):
        missed = [item for item in complaints if _of_target(item)]
        complaints = [item for item in complaints if item not in missed]
        needed = (item.needed.removeprefix("one evaluation with ") for item in missed)
        remarks += tuple(
            f"a {clean(profile, 20)} run need not reach MLPerf's target: {text}" for text in needed
        )
    complaints += _new_complaints(findings.complaints, complaints)
    if unsuccessful := _unsuccessful_run(record, complaints):
        complaints.append(unsuccessful)
    remarks += tuple(f"not verified: {reason}" for reason in findings.unverified)
    passed = not any(werror or not complaint.warning for complaint in complaints)
    if profile == "reference" and record.division == "closed":
        remarks += tuple(equivalences(record))
    text = (
        f"log format valid; {asked.do}"
        if passed and asked
        else _verdict_text(passed, record, complaints)
    )
    failing = [item for item in complaints if werror or not item.warning]
    missed_target = bool(failing) and all(
        item.kind is ComplaintKind.TARGET_MISSED for item in failing
    )
    claims_success = any(
        event.key == "run_stop" and event.metadata.get("status") == "success" for event in events
    )
    missed_target = missed_target and record.status != "success" and not claims_success
    return Verdict(
        path,
        passed,
        text,
        chosen.name,
        tuple(complaints),
        remarks,
        why_rules=chosen.remark,
        missed_target=missed_target,
    )


def _complaints(
    events: Sequence[Event],
    problems: Sequence[Problem],
    record: RunRecord,
    rules: Ruleset,
    werror: bool,
) -> list[Complaint]:
    """Return the complaints about unreadable lines and about violated rules."""
    complaints = [_unreadable_line(problem) for problem in problems if not problem.checker_reads]
    last_of_each_line = list({event.line: event for event in events}.values())
    counts = Counter(event.line for event in events)
    complaints += [_joined_records(line) for line, count in counts.items() if count > 1][:20]
    complaints += () if record.settings.profile else _several_attempts(events)
    if early := _counts_from_1(last_of_each_line, record):
        complaints.append(early)
        last_of_each_line = [_counted_from_0(event) for event in last_of_each_line]
    complaints += run_checker(last_of_each_line, rules, werror)
    # Keep only the complaint about the missing `run_stop`, because a truncated log naturally lacks
    # later records too.
    if record.status == "truncated":
        complaints = [
            item for item in complaints if item.found != MISSING or item.key == "run_stop"
        ]
    return complaints


def _new_complaints(found: Sequence[Complaint], complaints: Sequence[Complaint]) -> list[Complaint]:
    """Return the complaints in `found` whose keys violate no rule in `complaints`.

    If the target was missed for a key, other complaints about the same key are kept, because they
    may decide whether the log is accepted in a result set.
    """
    by_rules = (item for item in complaints if item.kind is ComplaintKind.RULE)
    keys = {item.key for item in by_rules if not item.warning and item.key}
    return [item for item in found if item.key not in keys]


def _unsuccessful_run(record: RunRecord, complaints: Sequence[Complaint]) -> Complaint | None:
    """Return the complaint about a run that did not end successfully.

    Returns None if `complaints` already contains a complaint about the run's end. The function is
    needed because the rules do not compare the order of records. For example, a run that stopped
    before its deciding evaluation still has all required records.
    """
    keys = {item.key for item in complaints if not item.warning}
    if record.finished or keys.intersection(("run_stop", "eval_accuracy")):
        return None
    found = clean(f"{record.status}: {record.reason}" if record.reason else record.status, 160)
    needed = "a run that reached its target between run_start and run_stop"
    is_missed = record.status == "aborted" and bool(record.evaluations)
    kind = ComplaintKind.TARGET_MISSED if is_missed else ComplaintKind.RULE
    return Complaint("run_stop", 0, found, needed, END_REMEDY, kind=kind)


def _of_target(complaint: Complaint) -> bool:
    """Return True if the complaint is that no evaluation reached the target in the rules."""
    return complaint.key == "eval_accuracy" and complaint.kind is ComplaintKind.TARGET_MISSED


def not_ended(path: Path) -> Verdict:
    """Return the verdict for a run that is in progress or whose controller was killed.

    An unfinished run is not checked against the rules.
    """
    return Verdict(
        path,
        False,
        f"{NOT_ENDED.detail}. Check it again when it has ended",
        "none",
        (),
        judged=False,
    )


def _not_judged(path: Path, record: RunRecord, rules: Ruleset | None) -> Verdict:
    """Return the verdict for a log that the requested ruleset, or any other, cannot read."""
    name, why = "none", "of round v0.5, for which mlperf-logging has no rules"
    if record.settings.profile and rulesets.ruleset_of(record) is None:
        named = clean(record.settings.ruleset, 20)
        reason = (
            f"mlperf-logging has no ruleset {named} with {clean(record.benchmark, 20)}"
            if named
            else ""
        )
        why = f"of rules={clean(record.settings.rules, 40)}, a round that is not installed: "
        why += reason or "its ruleset is unknown"
    elif rules is not None:
        suitable = "0.6.0" if record.format == "MLL" else RULESET
        name, why = rules.name, f"which ruleset {rules.ruleset} cannot read. Set --rules {suitable}"
    text = f"contains :::{record.format} lines{', ' if rules else ' '}{why}"
    return Verdict(path, False, text, name, (), judged=False)


def _unreadable_line(problem: Problem) -> Complaint:
    needed = "every :::MLLOG line contains a JSON object with time_ms, key, value and metadata"
    do = "if the run was cut off or the disk was full, run again. Never edit a log"
    return Complaint("", problem.line, problem.text, needed, do)


def _joined_records(line: int) -> Complaint:
    problem = "several records in a line (the checker only reads the last record)"
    do = "log from one process, and end each record with a new line"
    return Complaint("", line, problem, "one record per line", do, warning=True)


def _several_attempts(events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield a complaint if a log contains the records of several attempts.

    A program that is relaunched after a failure may append its records to the existing log.
    """
    found = attempts.find_attempts(without_repeats(events))
    if len(found) > 1:
        parts = (f"{first} to {last}" for first, last in (attempt.lines for attempt in found[:10]))
        do = f"split the file into one file per attempt: lines {', '.join(parts)}"
        text = attempts.attempts_text(found, attempts.choose_attempt(found))
        yield Complaint("run_start", found[1].lines[0], text, "one run per file", do, warning=True)


def _counts_from_1(events: Sequence[Event], record: RunRecord) -> Complaint | None:
    """Return a warning about an old log whose first epoch is 1 instead of 0.

    The warning only applies to rounds whose first epoch is 0.
    """
    first = next((event for event in events if event.key == "epoch_start"), None)
    of_round = find_round(record.settings.rules) if record.settings.profile else None
    if (
        of_round is None
        or of_round.first_epoch != 0
        or first is None
        or first.metadata.get("epoch_num") != 1
    ):
        return None
    if any(
        isinstance(event.value, dict) and "first_epoch" in event.value
        for event in events
        if event.key == "suite_run"
    ):
        # A version of the suite that logs `first_epoch` wrote the log. Its first epoch started
        # during the warm-up steps.
        return None
    do = (
        "an older version of the suite wrote the log. Only the numbers of the epochs differ, and"
        " they were reduced by one"
    )
    return Complaint(
        "epoch_start",
        first.line,
        "epochs from 1",
        f"epochs from 0 (rules={of_round.name})",
        do,
        warning=True,
    )


def _counted_from_0(event: Event) -> Event:
    less = {
        name: event.metadata[name]
        for name in ("epoch_num", "first_epoch_num")
        if name in event.metadata
    }
    numbers = {name: value - 1 for name, value in less.items() if type(value) is int}
    return event._replace(metadata={**event.metadata, **numbers}) if numbers else event


def _verdict_text(passed: bool, record: RunRecord, complaints: Sequence[Complaint]) -> str:
    profile = record.settings.profile
    if passed and profile in ("", "reference"):
        return "passes (not verified by MLCommons Association)"
    if passed:
        subject = "demo target has" if profile == "demo" else "these data have"
        return f"log format valid; {subject} no relation to MLPerf"
    count = counted(complaints)
    return f"cut off: the log has no run_stop ({count})" if record.status == "truncated" else count


def run_checker(events: Sequence[Event], rules: Ruleset, werror: bool) -> list[Complaint]:
    """Run the checker in this process on the parsed records, and return its complaints."""
    lines = [_log_line(event, rules.ruleset) for event in events]
    stopped: list[Complaint] = []
    with open_rules(rules) as rule_file, rule_files.captured_messages():
        folders = (rule_file.parent,) if rules.replaces_ruleset else ()
        checker = rule_files.restricted_checker(rules.ruleset, folders, werror=werror)
        try:
            checker.check_loglines(lines, str(rule_file))
        # code in a rule file can raise any error, for example if it compares values of different
        # types
        except Exception as error:
            problem = f"the checker stopped with {type(error).__name__}: {error}"
            needed = (
                "values of the type that the rules expect (eval_accuracy: a number), and rules"
                " without errors"
            )
            do = "log numbers as numbers. Try user-defined rules on a valid log first"
            stopped = [Complaint("", 0, problem, needed, do)]
    rule_hints = hints(rules)
    messages = [*checker.overwritable.values(), *checker.not_overwritable]
    # Drop the message that a value such as a benchmark or an optimizer has no rules, because a
    # complaint about the value already exists.
    messages = [text for text in messages if text not in checker.missing_rules_messages] or messages
    complaints = [explain(message, events, rule_hints) for message in messages]
    complaints += [
        replace(explain(message, events, rule_hints), warning=True)
        for message in checker.warnings.values()
    ]
    return complaints + stopped


def _log_line(event: Event, ruleset: str) -> Any:
    """Convert a record to the line type of the ruleset's parser.

    Times are in seconds in ruleset 0.6.0, and in milliseconds in later rulesets. Code in rule files
    copies and modifies some lines, so the lines must have the type that the code expects.
    """
    value = {"value": event.value, "metadata": dict(event.metadata)}
    time = event.time_ms / 1000 if ruleset == "0.6.0" else event.time_ms
    line = rule_files.line_type(ruleset)
    return line(full_string="", timestamp=time, key=event.key, value=value, lineno=event.line)
