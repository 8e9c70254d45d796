"""Runs the seed checker and the package checker of mlperf-logging, and gives verdicts for what they
find.

As commands both exit with 0 if they find errors, and with a traceback on unexpected input. Here
they are called as functions, and a crash is one more complaint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from suite.compliance.check_log import Verdict
from suite.compliance.complaints import Complaint
from suite.compliance.find_rules import RULESET
from suite.compliance.rule_files import captured_messages, restricted_package_checker
from suite.results.logs.record import RunRecord
from suite.results.text import clean

SEED_RULESET = "1.0.0"
"""The first ruleset with rules for seeds; 0.7.0 has none."""


def check_seeds(
    place: Path, logs: Sequence[Path], records: Sequence[RunRecord], werror: bool = False
) -> Verdict:
    """Check that each run logs a seed, and no two the same one.

    In division open a violation is a warning.
    """
    from mlperf_logging.package_checker.seed_checker import SeedChecker

    opened = any(record.division == "open" for record in records)
    first: dict[tuple[str, int], Path] = {}
    """Where, and which seed, to the log that had it first."""
    complaints: list[Complaint] = []

    def complain(found: str, needed: str, do: str) -> None:
        complaints.append(Complaint("seed", 0, found, needed, do, warning=opened))

    for log in logs:
        try:
            seeds = SeedChecker(SEED_RULESET)._get_seed_records(
                str(log)
            )  # the public method puts them into sentences
        except Exception as error:  # a line that it did not expect
            found = f"unreadable in {log.name} ({type(error).__name__})"
            complain(found, "a whole number in every run", "log seeds as whole numbers, with mllog")
            continue
        if not seeds:
            complain(f"none in {log.name}", "a seed in every run", "log it with mllog")
        for file, line, seed in seeds:
            place_and_seed = clean(f"{file}:{line}", 80), seed
            if other := first.get(place_and_seed):
                found = f"seed {seed} in {other.name} and {log.name}, logged at {place_and_seed[0]}"
                do = "run again without seed=N: each run then draws its own"
                complain(found, "another seed in every run", do)
            first.setdefault(place_and_seed, log)
    if not complaints:
        _complain_of_equal_seeds(records, complain)
    good = "every run has a seed of its own"
    return Verdict.of(place, f"seed_checker {SEED_RULESET}", good, complaints[:20], werror)


def _complain_of_equal_seeds(
    records: Sequence[RunRecord], complain: Callable[[str, str, str], None]
) -> None:
    """Complain about two runs of this suite with one seed.

    The seed checker compares seeds that were logged by the same line of code, which is an entry of
    the log that can be edited.
    """
    first: dict[int, RunRecord] = {}
    for record in records:
        if not record.settings.profile or record.seed is None:
            continue
        if (other := first.setdefault(record.seed, record)) is not record:
            found = f"seed {record.seed} in {other.path.name} and {record.path.name}"
            complain(
                found,
                "another seed in every run",
                "run again without seed=N: each run then draws its own",
            )


def check_package(folder: Path, werror: bool = False) -> Verdict:
    """Run the package checker of ruleset 0.7.0 on a whole tree whose system descriptions can be
    read.
    """
    crashed: Complaint | None = None
    good = False
    with captured_messages() as messages, restricted_package_checker() as module:
        try:
            good = module.check_training_result_files(
                str(folder), "training", RULESET, False, werror, rcp_bypass=True, rcp_bert_train_samples=False,
                seed_checker_bypass=False,
            )  # fmt: skip
        except Exception as error:
            crashed = Complaint(
                "", 0, f"the checker stopped with {type(error).__name__}: {clean(str(error))}",
                "logs and descriptions that it can read", "repair what is complained of above, then check again",
            )  # fmt: skip
    complaints = [item for record in messages if (item := _unknown(record)) is not None]
    if crashed is not None:
        complaints.append(crashed)
    elif not good and all(complaint.warning for complaint in complaints):
        complaints.append(Complaint("", 0, "errors", "none", "see the complaints above"))
    verdict = Verdict.of(folder, f"package_checker {RULESET}", "", complaints, werror)
    return replace(verdict, passed=good and verdict.passed, text="no errors" if good else "errors")


def _unknown(record: logging.LogRecord) -> Complaint | None:
    """A message of the package checker that is new to us; None for what the verdicts on logs and
    sets already say.
    """
    # A benchmark is skipped that the tool has no rules for: a package's notes and docs/how-to/check_and_package.md
    # say so.
    known = (
        " Skipping benchmark", "Detected %d total files", "Unknown files", "Incorrect number of files",
        " 1 file does not comply", " %s", " Found parsing errors", "  %s", "   ^^  %s",
    )  # fmt: skip
    if str(record.msg).startswith(known) or "do not comply, directory cannot be accepted" in str(
        record.msg
    ):
        return None
    return Complaint(
        "", 0, clean(record.getMessage()), "no such message", "see docs/how-to/check_and_package.md", warning=True
    )
