"""What the compliance checker says, in words that a user can act on: key, found, needed, what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.results.logs.events import Event, number
from suite.results.text import clean


@dataclass(frozen=True)
class Complaint:
    """One thing that is wrong with a log."""

    key: str
    """The log key; empty: the line or the file as a whole."""
    line: int
    """Line in the file, from 1; 0: no single line."""
    found: str
    needed: str
    do: str
    warning: bool = False
    """True: fails only under --werror."""


MISSING = "not in the log"
"""`found` of a key that is required and absent."""
_CHECK = re.compile(r"CHECK for '(.*?)' failed in line (\d+):\n.*?\nfailed test: (.*?)\ncurrent context", re.DOTALL)
_CRASH = re.compile(r"Failed executing CHECK code:\n(.*?)\ntriggered by line:", re.DOTALL)
_COUNT = re.compile(r"Required (\S+) occurrence of (.*?)(?: but found (\d+).*)?$", re.DOTALL)
_NEVER = re.compile(r"Failed checks for (\S+) : (.*)$", re.DOTALL)

_ADVICE: Mapping[str, str] = {
    "eval_accuracy": "train longer or choose other hyperparameters until the target is reached",
    "run_stop": "the run was cut off or ended without success: see status.json beside the log, and run again",
    "run_start": "log run_start once, after init_stop",
    "init_start": "log init_start before init_stop and run_start (rules=v0.7)",
    "init_stop": "end the init window before run_start, within 20 minutes of init_start",
    "cache_clear": "have the caches cleared before the run (system.cache_clear_command)",
    "seed": "log the seed of the run",
    "submission_benchmark": "use a benchmark of the ruleset, or give rules of your own with --rules FILE",
    "submission_org": "set profile.submission_org=NAME",
    "submission_platform": "set system.submission_platform=NAME",
    "submission_status": "set profile.submission_status=onprem",
    "submission_division": "log closed or open; the suite derives it from the settings",
    "global_batch_size": "log the samples per optimizer step over all devices",
}
_ENDINGS = ("run_stop", "eval_accuracy", "cache_clear")
"""Keys that are absent because something did not happen, not because it was not logged."""
_ORDER: Mapping[str, str] = {
    "s['init_started']": "after init_start",
    "s['run_started']": "after run_start",
    "not s['init_stopped']": "before init_stop",
    "not s['run_started']": "before run_start",
    "( s['init_stopped'] == True )": "after init_stop",
    "ll.timestamp - s['first_init_start'] < (20*60*1e3)": "less than 20 minutes after init_start",
    "v['value'] != ''": "a value that is not empty",
    "'value' in v": "a value",
}
_COMPARE = re.compile(r"v\['value'\](?:\['(\w+)'\])? (==|>=|>|<) ?([\d.e+-]+)")
_OPERATORS = {"==": "", ">=": "at least ", ">": "above ", "<": "below "}
_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"v\['value'\] in [\[(](.*)[\])]"), r"one of \1"),
    (re.compile(r"'(\w+)' in v\['metadata'\]"), r"\1 in the metadata"),
    (re.compile(r"'(\w+)' in v\['value'\]"), r"\1 in the value"),
    (re.compile(r"is_integer\(v\['value'\] / ([\d.]+)\)"), r"a multiple of \1"),
    (re.compile(r"is_integer\(math\.log2\(v\['value'\] / ([\d.]+)\)\)"), r"\1 times a power of two"),
    (re.compile(r"len\(v\['value'\]\) == (\d+)"), r"\1 values"),
)


def explain(message: str, events: Sequence[Event], hints: Mapping[str, Mapping[str, Any]]) -> Complaint:
    """A message of the checker as a complaint. `hints`: key to its rule, which may say NEEDS and DO."""
    if match := _CHECK.match(message):
        return _check_failed(match[1], int(match[2]), match[3], events, hints)
    if match := _NEVER.match(message):
        needed = hints.get(match[1], {}).get("NEEDS") or f"one evaluation with {in_words(match[2])}"
        return Complaint(match[1], 0, _best(match[1], events), needed, _advice(match[1], hints))
    if match := _COUNT.match(message):
        return _count(match, events, hints)
    if match := _CRASH.match(message):
        test = in_words(match[1])
        return Complaint(
            "", 0, "a value or metadata of another type than the rule expects", test, "repair the program that logs"
        )
    return Complaint("", 0, clean(message, 300), "the rule to hold", "see the rule file")


def _check_failed(
    key: str, line: int, test: str, events: Sequence[Event], hints: Mapping[str, Mapping[str, Any]]
) -> Complaint:
    event = next(event for event in events if event.line == line and event.key == key)
    needed = hints.get(key, {}).get("NEEDS") or in_words(test)
    return Complaint(key, line, shown(event), needed, _advice(key, hints))


def _count(match: re.Match[str], events: Sequence[Event], hints: Mapping[str, Mapping[str, Any]]) -> Complaint:
    """`Required EXACTLY_ONE occurrence of 'x' but found n`, or AT_LEAST_ONE of several keys."""
    keys = re.findall(r"'([^']*)'", match[2])
    key = " or ".join(keys)
    lines = [event for event in events if event.key in keys]
    needed = "exactly once" if match[1] == "EXACTLY_ONE" else "at least once"
    if not lines:
        do = _ADVICE[key] if key in _ENDINGS else f"log {key} with mllog"
        return Complaint(key, 0, MISSING, needed, do)
    values = sorted({clean(json.dumps(event.value), 40) for event in lines[:1000]})
    found = f"{len(lines)} times" + (f", with the values {', '.join(values[:5])}" if len(values) > 1 else "")
    return Complaint(key, lines[1].line if len(lines) > 1 else 0, found, needed, "log it once, from one process")


def _advice(key: str, hints: Mapping[str, Mapping[str, Any]]) -> str:
    given = hints.get(key, {}).get("DO")
    if given:
        return str(given)
    if key.startswith("opt_"):
        return "take a published hyperparameter set; other values are for division open"
    return _ADVICE.get(key, "log a value that the rules allow, or change the setting behind it")


def shown(event: Event) -> str:
    """Value and metadata of an event on one line, without the place in the code that logged it."""
    texts = [] if event.value is None else [_short(event.value)]
    texts += [f"{name} {_short(value)}" for name, value in event.metadata.items() if name not in ("file", "lineno")]
    return clean(", ".join(texts), 160) or "no value"


def _short(value: Any) -> str:
    try:
        return clean(json.dumps(value, ensure_ascii=False), 80)
    except RecursionError:
        return "a deeply nested value"


def _best(key: str, events: Sequence[Event]) -> str:
    """`best 0.612 (epoch 7) of 20`."""
    found = [event for event in events if event.key == key]
    numbers = [(value, event) for event in found if (value := number(event.value)) is not None]
    if not numbers:
        return f"{len(found)} values, the last {shown(found[-1])}" if found else MISSING
    best, event = max(numbers, key=lambda pair: pair[0])
    epoch = number(event.metadata.get("epoch_num"))
    return f"best {best:.6g}{'' if epoch is None else f' (epoch {epoch:g})'} of {len(numbers)}"


def in_words(test: str) -> str:
    """A test of a rule file in words; what is not known is quoted."""
    return " and ".join(_part_in_words(part.strip()) for part in test.strip().split(" and "))


def _part_in_words(part: str) -> str:
    if part in _ORDER:
        return _ORDER[part]
    if match := _COMPARE.fullmatch(part):
        name = f"{match[1]} " if match[1] else ""
        return f"{name}{_OPERATORS[match[2]]}{match[3]}"
    for pattern, words in _PATTERNS:
        if match := pattern.fullmatch(part):
            return match.expand(words)
    return f"the rule {part}"
