"""Chooses the rules against which a log is checked.

These are the rules of its round, as far as the installed mlperf-logging has them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from suite.catalog.rounds import find_round
from suite.compliance.generated_rules import NCF_DEMO, NCF_REFERENCE, OF_V05
from suite.results.logs.record import RunRecord
from suite.results.names import round_of_folder

DEFAULT = "0.7.0"
"""The ruleset for logs of this suite, and for logs whose round is unknown."""


@dataclass(frozen=True)
class Ruleset:
    """The rules for a log."""

    ruleset: str
    """Version of the checker that reads the log: `0.7.0`."""
    file: Path | None = None
    """Rule file of the user."""
    remark: str = ""
    """Reason for the choice, if the log does not determine the rules."""
    generated: str = ""
    """Name of the suite's generated rules (`generated_rules.NAMES`).

    Empty, and no file: the rules of the ruleset.
    """

    @property
    def replaces_ruleset(self) -> bool:
        """Whether the user's or the suite's rules replace those of the ruleset."""
        return bool(self.file or self.generated)

    @property
    def name(self) -> str:
        """Name of the rules in verdicts."""
        if self.generated:
            return f"suite rules {self.generated}"
        return str(self.file) if self.file else f"mlperf-logging training_{self.ruleset}"


@functools.cache
def installed() -> tuple[str, ...]:
    """Return the rulesets of the installed checker, in order: 0.6.0, 0.7.0, and so on."""
    folders = (path.name.removeprefix("training_") for path in _checker_folder().glob("training_*"))
    return tuple(sorted(name for name in folders if re.fullmatch(r"\d+\.\d+\.\d+", name)))


def rules_of(record: RunRecord) -> Ruleset | None:
    """Return the rules of the log's round.

    Returns None for a format that no ruleset reads (v0.5), and for a log of this suite with an
    unknown round. A log of v0.6 has a different format, and a log of this suite contains its
    profile. For foreign logs, the name of the folder decides (`v1.1`).
    """
    if record.format == "MLL":
        return Ruleset("0.6.0")
    ruleset = ruleset_of(record) if record.settings.profile else None
    if record.format != "MLLOG" or (record.settings.profile and ruleset is None):
        return None
    if record.benchmark == "ncf":  # no ruleset of mlperf-logging has NCF
        reference = record.settings.profile in ("", "reference")
        return Ruleset(DEFAULT, generated=NCF_REFERENCE if reference else NCF_DEMO)
    if record.settings.profile:
        return Ruleset(ruleset) if ruleset else Ruleset(DEFAULT, generated=OF_V05)
    named = round_of_folder(record.path)
    if DEFAULT <= f"{named[1:]}.0" in installed():
        return Ruleset(f"{named[1:]}.0", None, f"round {named} by the name of its folder")
    having = [name for name in installed() if name >= DEFAULT and _has(name, record.benchmark)]
    ruleset = DEFAULT if DEFAULT in having or not having else having[0]
    return Ruleset(
        ruleset,
        None,
        f"the log does not name its round. To choose a round, set --rules {installed()[-1]}",
    )


def ruleset_of(record: RunRecord) -> str | None:
    """Return the ruleset of a log of this suite.

    Empty if mlperf-logging has no ruleset for its round. If the round is a user's file, the log
    contains the ruleset. Returns None if this ruleset is not installed, or does not have the
    benchmark.
    """
    found = find_round(record.settings.rules)
    if found is not None:
        return found.ruleset
    named = record.settings.ruleset
    return named if named in installed() and _has(named, record.benchmark) else None


def _has(ruleset: str, benchmark: str) -> bool:
    folder = _checker_folder() / f"training_{ruleset}"
    return (
        re.fullmatch(r"\w+", benchmark) is not None
        and (folder / f"closed_{benchmark}.yaml").is_file()
    )


def _checker_folder() -> Path:
    from mlperf_logging.compliance_checker import mlp_compliance

    return Path(mlp_compliance.__file__).resolve().parent
