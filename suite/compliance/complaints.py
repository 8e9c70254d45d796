"""Convert messages of the compliance checker to complaints.

A complaint contains a log key, the value that was found, the required value, and a remedy.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.catalog.deviations import shown
from suite.results.directions import improves_as_it_falls
from suite.results.logs.events import Event, number
from suite.results.logs.record import RunRecord
from suite.results.text import clean


class ComplaintKind(enum.Enum):
    """Category of a complaint, for code that treats missed targets differently."""

    RULE = "rule"
    """The log violates a rule or contradicts itself."""
    TARGET_MISSED = "target missed"
    """The run did not reach the target, and its log does not claim success.

    A result set may contain runs that missed the target (docs/how-to/check_and_package.md).
    """


@dataclass(frozen=True)
class Complaint:
    """A problem in a log, such as a rule violation, that the check found."""

    key: str
    """Log key of the problem. The string is empty if the complaint is about a whole line or
    about the file.
    """
    line: int
    """Line number in the log, starting at 1. The number is 0 if the complaint is not about a single
    line.
    """
    found: str
    needed: str
    do: str
    warning: bool = False
    """True if the complaint makes the check fail only with --werror."""
    kind: ComplaintKind = ComplaintKind.RULE


MISSING = "not in the log"
"""Value of `Complaint.found` if a required key is missing."""
_JOINED = "aggregated_"
"""Prefix of keys that rule files for Stable Diffusion compute from several lines with another
key.
"""
_CHECK = re.compile(
    r"CHECK for '(.*?)' failed in line (\d+):\n.*?\nfailed test: (.*?)\ncurrent context", re.DOTALL
)
_CRASH = re.compile(r"Failed executing CHECK code:\n(.*?)\ntriggered by line:", re.DOTALL)
_COUNT = re.compile(r"Required (\S+) occurrence of (.*?)(?: but found (\d+).*)?$", re.DOTALL)
_NEVER = re.compile(r"Failed checks for (\S+) : (.*)$", re.DOTALL)

END_REMEDY = (
    "the run was cut off or ended without success: see status.json next to the log, and run again"
)
_WHAT_TO_DO: Mapping[str, str] = {
    "eval_accuracy": "train longer or choose other hyperparameters until the target is reached",
    "run_stop": END_REMEDY,
    "run_start": "log run_start once, after init_stop",
    "init_start": "log init_start before init_stop and run_start (rules=v0.7)",
    "init_stop": "end the init window before run_start, within 20 minutes of init_start",
    "cache_clear": "have the caches cleared before the run (system.cache_clear_command)",
    "seed": "log the seed of the run",
    "submission_benchmark": (
        "use a benchmark of the ruleset, or set user-defined rules with --rules FILE"
    ),
    "submission_org": "set profile.submission_org=NAME",
    "submission_platform": "set system.submission_platform=NAME",
    "submission_status": "set profile.submission_status=onprem",
    "submission_division": "log closed or open. The suite derives it from the settings",
    "global_batch_size": "log the samples per optimizer step over all devices",
}
OF_TRAINING = ("run_stop", "eval_accuracy", "eval_start", "eval_stop", "epoch_start", "epoch_stop")
"""Log keys that show whether and how the run reached the target."""
_KEYS_OF_EVENTS = ("run_stop", "eval_accuracy", "cache_clear")
"""Log keys of events. A missing key means that the event did not happen."""
_TESTS_IN_WORDS: Mapping[str, str] = {
    "s['init_started']": "after init_start",
    "s['run_started']": "after run_start",
    "not s['init_stopped']": "before init_stop",
    "not s['run_started']": "before run_start",
    "( s['init_stopped'] == True )": "after init_stop",
    "ll.timestamp - s['first_init_start'] < (20*60*1e3)": "less than 20 minutes after init_start",
    "v['value'] != ''": "a value that is not empty",
    "'value' in v": "a value",
}
_COMPARE = re.compile(r"v\['value'\](?:\['(\w+)'\])? (==|>=|<=|>|<) ?([\d.e+-]+)")
_OPERATORS = {"==": "", ">=": "at least ", "<=": "at most ", ">": "above ", "<": "below "}
_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"v\['value'\] in [\[(](.*)[\])]"), r"one of \1"),
    (re.compile(r"'(\w+)' in v\['metadata'\]"), r"\1 in the metadata"),
    (re.compile(r"'(\w+)' in v\['value'\]"), r"\1 in the value"),
    (re.compile(r"is_integer\(v\['value'\] / ([\d.]+)\)"), r"a multiple of \1"),
    (
        re.compile(r"is_integer\(math\.log2\(v\['value'\] / ([\d.]+)\)\)"),
        r"\1 times a power of two",
    ),
    (re.compile(r"len\(v\['value'\]\) == (\d+)"), r"\1 values"),
)


def explain(
    message: str, events: Sequence[Event], hints: Mapping[str, Mapping[str, Any]]
) -> Complaint:
    """Convert a message of the checker to a complaint.

    `hints` maps a log key to the key's rule, which may contain NEEDS and DO.
    """
    if match := _CHECK.match(message):
        key, line = match[1].removeprefix(_JOINED), max(int(match[2]), 0)
        event = next((event for event in events if event.line == line and event.key == key), None)
        needed = hints.get(key, {}).get("NEEDS") or condition_text(match[3])
        found = _event_text(event) if event else _metrics_text(key, events)
        kind = (
            ComplaintKind.TARGET_MISSED
            if event and _is_unsuccessful_stop(event)
            else ComplaintKind.RULE
        )
        return Complaint(key, line, found, needed, _what_to_do(key, hints), kind=kind)
    if match := _NEVER.match(message):
        key = match[1].removeprefix(_JOINED)
        needed = (
            hints.get(key, {}).get("NEEDS") or f"one evaluation with {condition_text(match[2])}"
        )
        found = _best_value_text(key, events) if key == match[1] else _metrics_text(key, events)
        evaluated = key == "eval_accuracy" and any(event.key == key for event in events)
        kind = ComplaintKind.TARGET_MISSED if evaluated else ComplaintKind.RULE
        return Complaint(key, 0, found, needed, _what_to_do(key, hints), kind=kind)
    if match := _COUNT.match(message):
        return _count_complaint(match, events)
    if match := _CRASH.match(message):
        problem = "a value or metadata with a different type than the rule expects"
        return Complaint("", 0, problem, condition_text(match[1]), "fix the program that logs")
    return Complaint("", 0, clean(message, 300), "the rule to hold", "see the rule file")


def _is_unsuccessful_stop(event: Event) -> bool:
    """Return True for a `run_stop` whose status is a string and not `success`."""
    status = event.metadata.get("status")
    return event.key == "run_stop" and isinstance(status, str) and status != "success"


def asked_otherwise(record: RunRecord) -> Complaint | None:
    """Return the complaint about a completed run that was not configured to train to a target.

    Returns None for all other runs.
    """
    settings = record.settings
    if not settings.profile or settings.to_target or not record.finished:
        return None
    asked = (
        f"stop={clean(settings.stop, 40)}"
        if settings.stop != "target"
        else f"mode={clean(settings.mode, 40)}"
    )
    kind, _, count = settings.stop.partition(":")
    length = clean(f"{count} {kind}", 40) if count else "a different mode"
    length = f"one {kind[:-1]}" if count == "1" else length
    remedy = "stop=target" if count else "mode=train"
    do = (
        f"{asked} requested {length} instead of the target: a valid throughput run, but not a"
        f" result by the rules. For a result, set {remedy}"
    )
    return Complaint("suite_run", 0, asked, "a run to the target", do)


def changed_target(record: RunRecord) -> str:
    """Return the remedy for a run whose targets differ from the targets in the rules.

    The string is empty if the targets are equal.
    """
    about_targets = [
        deviation
        for deviation in record.settings.parsed_deviations
        if deviation.setting == "targets"
    ]
    if not about_targets:
        return ""
    targets, required = about_targets[0].value, about_targets[0].allowed_values
    if not isinstance(targets, Mapping) or not isinstance(required, Mapping):
        return ""
    if len(targets) == len(required) == 1:
        target, rule = (shown(next(iter(values.values()))) for values in (targets, required))
    else:
        target, rule = (
            shown(targets),
            " and ".join(f"{metric} {shown(least)}" for metric, least in required.items()),
        )
    return (
        f"the target was set to {clean(target, 60)}, but the rules require {clean(rule, 60)}. Leave"
        " workload.target out"
    )


def _count_complaint(match: re.Match[str], events: Sequence[Event]) -> Complaint:
    """Convert a message such as `Required EXACTLY_ONE occurrence of 'x' but found n`.

    The message may contain AT_LEAST_ONE instead of EXACTLY_ONE, and may contain several keys.
    """
    keys = [key.removeprefix(_JOINED) for key in re.findall(r"'([^']*)'", match[2])]
    key = " or ".join(keys)
    lines = [event for event in events if event.key in keys]
    several = re.fullmatch(r"AT_LEAST\((\d+)\)", match[1])
    needed = (
        "exactly once"
        if match[1] == "EXACTLY_ONE"
        else f"at least {several[1]} times"
        if several
        else "at least once"
    )
    if not lines:
        do = _WHAT_TO_DO[key] if key in _KEYS_OF_EVENTS else f"log {key} with mllog"
        return Complaint(key, 0, MISSING, needed, do)
    values = sorted({clean(json.dumps(event.value), 40) for event in lines[:1000]})
    times = f"{len(lines)} times" + (
        f", with the values {', '.join(values[:5])}" if len(values) > 1 else ""
    )
    return Complaint(
        key, lines[1].line if len(lines) > 1 else 0, times, needed, "log it once, from one process"
    )


def _what_to_do(key: str, hints: Mapping[str, Mapping[str, Any]]) -> str:
    if advice := hints.get(key, {}).get("DO"):
        return str(advice)
    if key.startswith("opt_"):
        return (
            "use a published hyperparameter set. Any other value is only allowed in the open"
            " division"
        )
    return _WHAT_TO_DO.get(
        key, "log a value that the rules allow, or change the setting that it comes from"
    )


def _event_text(event: Event) -> str:
    """Format the value and metadata of an event in one line, without the source location."""
    texts = [] if event.value is None else [_json_text(event.value)]
    texts += [
        f"{name} {_json_text(value)}"
        for name, value in event.metadata.items()
        if name not in ("file", "lineno")
    ]
    return clean(", ".join(texts), 160) or "no value"


def _json_text(value: Any) -> str:
    try:
        return clean(json.dumps(value, ensure_ascii=False), 80)
    except RecursionError:
        return "a deeply nested value"


def _best_value_text(key: str, events: Sequence[Event]) -> str:
    """Format the best logged value of a key, such as `best 0.612 (epoch 7) of 20`."""
    same_key = [event for event in events if event.key == key]
    numbers = [(value, event) for event in same_key if (value := number(event.value)) is not None]
    if not numbers:
        return (
            f"{len(same_key)} values, the last {_event_text(same_key[-1])}" if same_key else MISSING
        )
    benchmark = next((event.value for event in events if event.key == "submission_benchmark"), "")
    declared = any(
        isinstance(event.value, dict) and event.value.get("falling_metrics")
        for event in events
        if event.key == "suite_run"
    )
    falls = declared or (isinstance(benchmark, str) and improves_as_it_falls(key, benchmark))
    best, event = (min if falls else max)(numbers, key=lambda pair: pair[0])
    epoch = number(event.metadata.get("epoch_num"))
    return f"best {best:.6g}{'' if epoch is None else f' (epoch {epoch:g})'} of {len(numbers)}"


def _metrics_text(key: str, events: Sequence[Event]) -> str:
    """Format the last value of each metric of a key, such as `FID 95.2, CLIP 0.14`.

    Logs contain a separate line for each metric.
    """
    last = {
        str(event.metadata.get("metric", "")): event.value for event in events if event.key == key
    }
    return (
        clean(
            ", ".join(f"{metric} {_json_text(value)}".strip() for metric, value in last.items()),
            160,
        )
        or MISSING
    )


def condition_text(test: str) -> str:
    """Describe a condition in a rule file in words. A condition without a description is quoted."""
    return " and ".join(
        _single_condition_text(part.strip()) for part in test.strip().split(" and ")
    )


def _single_condition_text(part: str) -> str:
    if part in _TESTS_IN_WORDS:
        return _TESTS_IN_WORDS[part]
    if (
        part.startswith("(")
        and part.endswith(")")
        and "(" not in part[1:-1]
        and ")" not in part[1:-1]
    ):
        return _single_condition_text(part[1:-1].strip())
    if match := _COMPARE.fullmatch(part):
        name = f"{match[1]} " if match[1] else ""
        return f"{name}{_OPERATORS[match[2]]}{match[3]}"
    for pattern, replacement in _PATTERNS:
        if match := pattern.fullmatch(part):
            return match.expand(replacement)
    return f"the rule {part}"
