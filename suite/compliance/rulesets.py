"""Choose the rules against which a log is checked.

If the installed mlperf-logging has rules for the log's round, these rules are chosen.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.catalog.rounds import find_round
from suite.compliance.generated_rules import LLAMA_OPEN, NCF_DEMO, NCF_REFERENCE, OF_V05
from suite.results.logs.record import RunRecord
from suite.results.names import round_of_folder

DEFAULT = "0.7.0"
"""Ruleset for logs of this suite, and for logs whose round is unknown."""


OPEN_RULES: Mapping[str, str] = {"llama31_8b": LLAMA_OPEN}
"""Maps a benchmark to the generated rules for its open runs.

The open rules of mlperf-logging for these benchmarks cannot be met: open_llama31_8b.yaml of
rulesets 5.1.0 to 6.1.0 requires an `eval_accuracy` below 1.0, but the target log perplexity is 3.3.
"""


@dataclass(frozen=True)
class Ruleset:
    """The rules against which a log is checked."""

    ruleset: str
    """Version of the checker that reads the log, such as `0.7.0`."""
    file: Path | None = None
    """Rule file of the user, or None."""
    remark: str = ""
    """Reason for choosing these rules. The string is empty if the log determines the rules."""
    generated: str = ""
    """Name of the suite's generated rules (`generated_rules.NAMES`).

    If the string is empty and `file` is None, the rules are those of the ruleset.
    """

    @property
    def replaces_ruleset(self) -> bool:
        """Return whether a user's rules or generated rules replace the rules of the ruleset."""
        return bool(self.file or self.generated)

    @property
    def name(self) -> str:
        """Return the name of the rules for verdicts."""
        if self.generated:
            return f"suite rules {self.generated}"
        return str(self.file) if self.file else f"mlperf-logging training_{self.ruleset}"


@functools.cache
def installed() -> tuple[str, ...]:
    """Return the rulesets of the installed checker in order: 0.6.0, 0.7.0, and so on."""
    folders = (path.name.removeprefix("training_") for path in _checker_folder().glob("training_*"))
    return tuple(sorted(name for name in folders if re.fullmatch(r"\d+\.\d+\.\d+", name)))


def rules_of(record: RunRecord) -> Ruleset | None:
    """Return the rules of the log's round.

    Returns None for a log format that no ruleset can read (v0.5), and for a log of this suite with
    an unknown round. Logs of v0.6 are recognized by their format, and logs of this suite by their
    profile. For logs of other programs, the folder name determines the round (`v1.1`).
    """
    if record.format == "MLL":
        return Ruleset("0.6.0")
    ruleset = ruleset_of(record) if record.settings.profile else None
    if record.format != "MLLOG" or (record.settings.profile and ruleset is None):
        return None
    if record.benchmark == "ncf":  # mlperf-logging has no rules for NCF
        reference = record.settings.profile in ("", "reference")
        return Ruleset(DEFAULT, generated=NCF_REFERENCE if reference else NCF_DEMO)
    if record.division == "open" and record.benchmark in OPEN_RULES:
        name = OPEN_RULES[record.benchmark]
        remark = (
            f"no log of {record.benchmark} can pass the open rules of mlperf-logging, which require"
            " an eval_accuracy below 1.0"
        )
        return Ruleset(ruleset or first_ruleset(record.benchmark), None, remark, name)
    if record.settings.profile:
        return Ruleset(ruleset) if ruleset else Ruleset(DEFAULT, generated=OF_V05)
    named = round_of_folder(record.path)
    if DEFAULT <= f"{named[1:]}.0" in installed():
        return Ruleset(f"{named[1:]}.0", None, f"round {named} by the name of its folder")
    return Ruleset(
        first_ruleset(record.benchmark),
        None,
        f"the log does not name its round. To choose a round, set --rules {installed()[-1]}",
    )


def first_ruleset(benchmark: str) -> str:
    """Return the first ruleset from `DEFAULT` on with the benchmark, or `DEFAULT` without any."""
    having = [name for name in installed() if name >= DEFAULT and has_rules(name, benchmark)]
    return having[0] if having else DEFAULT


def package_rulesets(records: Sequence[RunRecord]) -> list[str]:
    """Return the rulesets whose package checkers have rules for the benchmarks of the runs.

    Benchmarks of round v0.7 are checked with its ruleset. All other benchmarks are checked with the
    ruleset of their round.
    """
    rulesets = set()
    for record in records:
        rules = rules_of(record)
        if rules is None or record.benchmark == "ncf" or has_rules(DEFAULT, record.benchmark):
            rulesets.add(DEFAULT)
        else:
            rulesets.add(rules.ruleset)
    return sorted(rulesets) or [DEFAULT]


def ruleset_of(record: RunRecord) -> str | None:
    """Return the ruleset for a log of this suite.

    The string is empty if mlperf-logging has no ruleset for the log's round. If the round comes
    from a user's file, the ruleset is read from the log. The function returns None if the ruleset
    is not installed or does not include the benchmark.
    """
    found = find_round(record.settings.rules)
    if found is not None:
        return found.ruleset
    named = record.settings.ruleset
    return named if named in installed() and has_rules(named, record.benchmark) else None


def has_rules(ruleset: str, benchmark: str) -> bool:
    """Return True if a ruleset of mlperf-logging has closed rules for a benchmark."""
    folder = _checker_folder() / f"training_{ruleset}"
    return (
        re.fullmatch(r"\w+", benchmark) is not None
        and (folder / f"closed_{benchmark}.yaml").is_file()
    )


def _checker_folder() -> Path:
    from mlperf_logging.compliance_checker import mlp_compliance

    return Path(mlp_compliance.__file__).resolve().parent
