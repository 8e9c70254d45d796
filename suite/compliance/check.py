"""Check logs against the rules: mlperf-logging's compliance checker, its complaints turned into what to do.

The checker runs the code that stands in rule files. Rule files come from mlperf-logging, from `suite/compliance/rules/` or from
the user; text of a log never becomes code, and can name no file outside these folders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from suite.compliance import rule_files as guard
from suite.compliance.complaints import MISSING, Complaint, explain
from suite.results.logs.events import Event, Problem
from suite.results.logs.lines import read_events
from suite.results.logs.reader import interpret
from suite.results.logs.record import RunRecord

RULESET = "0.7.0"
RULES = Path(__file__).resolve().parent / "rules"
"""Folder of the suite's own rule files."""


@dataclass(frozen=True)
class Verdict:
    """What `suite check` says about one log."""

    path: Path
    passed: bool
    text: str
    """One line."""
    rules: str
    """The rule file that was used."""
    complaints: tuple[Complaint, ...]
    remarks: tuple[str, ...] = ()
    """What was tolerated in reading the log, by the checker as well: no complaint."""


def check_file(path: Path, rules: str | None = None, werror: bool = False) -> Verdict:
    """Check one log. `rules` is a name in `suite/compliance/rules` or the path of a rule file; None chooses by the log.

    Raises ValueError if the log or the rule file cannot be opened, or the rule file is none. No log makes it fail.
    """
    given = find_rules(rules) if rules is not None else None
    events, problems = read_events(path)
    record = interpret(path, events, problems).record
    known = [event for event in events if event.format == "MLLOG"]
    chosen = given or _chosen(record)
    name = _rules_name(chosen)
    if not known:
        return Verdict(path, False, _why_unreadable(record, problems), name, ())
    remarks = tuple(str(problem) for problem in problems if problem.checker_reads)
    complaints = [_broken(problem) for problem in problems if not problem.checker_reads]
    last = list({event.line: event for event in known}.values())
    counts = Counter(event.line for event in known)
    complaints += [_glued(line) for line, count in counts.items() if count > 1][:20]
    complaints += _run_rules(last, chosen, werror)
    if record.status == "truncated":  # what else is missing follows from the cut
        complaints = [item for item in complaints if item.found != MISSING or item.key == "run_stop"]
    passed = not any(werror or not complaint.warning for complaint in complaints)
    return Verdict(path, passed, _text(passed, record, complaints), name, tuple(complaints), remarks)


def find_rules(name: str) -> Path:
    """The rule file called `name` in `suite/compliance/rules`, or at that path. Raises ValueError if there is none."""
    names = sorted(file.stem for file in RULES.glob("*.yaml"))
    path = RULES / f"{name}.yaml" if name in names else Path(name).expanduser().resolve()
    if not path.is_file():
        raise ValueError(
            f"--rules {name}: no such rules; choose one of {', '.join(names)} or give the path of a rule file"
        )
    _load(path)
    return path


def _load(path: Path) -> list[Mapping[str, Any]]:
    """The entries of a rule file, as text: code in it is run by the checker alone."""
    try:
        entries = guard.parse_rules(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{path} is no rule file: {first}; start from {RULES / 'ncf_reference.yaml'}") from error
    good = (
        isinstance(entries, list) and entries and all(isinstance(entry, dict) and len(entry) == 1 for entry in entries)
    )
    if not good or not all("NAME" in entry["KEY"] for entry in entries if "KEY" in entry):
        raise ValueError(
            f"{path} is no rule file: a list of BEGIN, KEY and END; start from {RULES / 'ncf_reference.yaml'}"
        )
    return list(entries)


def _chosen(record: RunRecord) -> Path | None:
    """The suite's own rules for what no ruleset knows; None: those of mlperf-logging."""
    if record.benchmark != "ncf":
        return None
    return RULES / ("ncf_reference.yaml" if record.settings.profile in ("", "reference") else "ncf_demo.yaml")


def _rules_name(rules: Path | None) -> str:
    if rules is None:
        return f"mlperf-logging training_{RULESET}"
    return f"suite/compliance/rules/{rules.name}" if rules.parent == RULES else str(rules)


def _why_unreadable(record: RunRecord, problems: Sequence[Problem]) -> str:
    if not record.format:
        return "; ".join(str(problem) for problem in problems[:3])
    return f"holds :::{record.format} lines; ruleset {RULESET} is for :::MLLOG lines only"


def _broken(problem: Problem) -> Complaint:
    return Complaint(
        key="",
        line=problem.line,
        found=problem.text,
        needed="every :::MLLOG line holds one JSON object with time_ms, key, value and metadata",
        do="if the run was cut off or the disk was full, run again; never edit a log",
    )


def _glued(line: int) -> Complaint:
    """The checker reads the last record of a line alone: whatever else stood there is missing for it."""
    return Complaint(
        key="",
        line=line,
        found="several records on one line, of which the checker reads the last alone",
        needed="one record a line",
        do="log from one process, and end each record with a new line",
        warning=True,
    )


def _text(passed: bool, record: RunRecord, complaints: Sequence[Complaint]) -> str:
    profile = record.settings.profile
    if passed and profile in ("", "reference"):
        return "passes (not verified by MLCommons Association)"
    if passed:
        what = "demo target has" if profile == "demo" else "these data have"
        return f"log format valid; {what} no relation to MLPerf"
    count = f"{len(complaints)} complaint{'s' if len(complaints) > 1 else ''}"
    if record.status == "truncated":
        return f"cut off: the log has no run_stop; {count}"
    return count


def _run_rules(events: Sequence[Event], rules: Path | None, werror: bool) -> list[Complaint]:
    """Run the checker in this process on the records that were read; its messages as complaints."""
    checker = guard.checker(RULESET, (RULES, *([rules.parent] if rules else [])), werror=werror)
    lines = [_log_line(event) for event in events]
    stopped: Complaint | None = None
    with guard.kept_messages():
        try:
            checker.check_loglines(lines, str(rules or f"training_{RULESET}/common.yaml"))
        except Exception as error:  # rule code met a value that it cannot compare
            stopped = Complaint(
                key="",
                line=0,
                found=f"the checker stopped with {type(error).__name__}: {error}",
                needed="values of the type that the rules ask for (eval_accuracy: a number); rules that run",
                do="log numbers as numbers; try rules of your own on a good log first",
            )
    hints = {entry["KEY"]["NAME"]: entry["KEY"] for entry in _load(rules) if "KEY" in entry} if rules else {}
    messages = [*checker.overwritable.values(), *checker.not_overwritable]
    # Where there are no rules for a value (a benchmark, an optimizer), the value itself has been complained about.
    messages = [text for text in messages if not text.startswith(guard.NO_RULES)] or messages
    complaints = [explain(message, events, hints) for message in messages]
    complaints += [replace(explain(message, events, hints), warning=True) for message in checker.warnings.values()]
    return [*complaints, *([stopped] if stopped else [])]


def _log_line(event: Event) -> Any:
    from mlperf_logging.compliance_checker.mlp_parser.ruleset_070 import LogLine

    value = {"value": event.value, "metadata": dict(event.metadata)}
    return LogLine(full_string="", timestamp=event.time_ms, key=event.key, value=value, lineno=event.line)
