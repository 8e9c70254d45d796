"""Runs the seed checker and the package checker of mlperf-logging, and turns their messages into complaints.

As commands both exit with 0 if they find errors, and with a traceback on unexpected input. Here they are called as functions,
their messages are collected, and a crash is one more complaint.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.compliance.check import RULESET, Verdict
from suite.compliance.complaints import Complaint
from suite.compliance.rule_files import captured_messages, restricted_package_checker
from suite.results.logs.record import RunRecord
from suite.results.text import clean

SEED_RULESET = "1.0.0"
"""The first ruleset with rules for seeds; 0.7.0 has none."""
_SAME_SEED = re.compile(r"Result file (\S+) logs seed (-?\d+) on (.*)\. However, result file (\S+) already")
_NO_SEED = re.compile(r"Result file (\S+) logs no seed")


def check_seeds(place: Path, logs: Sequence[Path], records: Sequence[RunRecord], werror: bool = False) -> Verdict:
    """Check that each run logs a seed, and no two the same one. In division open a violation is a warning."""
    from mlperf_logging.package_checker.seed_checker import SeedChecker

    opened = any(record.division == "open" for record in records)
    with captured_messages() as messages, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            SeedChecker(SEED_RULESET).check_seeds([str(path) for path in logs])
            texts = [line for record in messages for line in _argument(record).splitlines()]
        except Exception as error:  # the tool met a line that it did not expect
            texts = [f"the checker stopped with {type(error).__name__}"]
    complaints = [_seed_complaint(text, place, opened) for text in texts if text.strip()][:20]
    return Verdict.of(place, f"seed_checker {SEED_RULESET}", "every run has a seed of its own", complaints, werror)


def _argument(record: logging.LogRecord) -> str:
    """The first argument of a log message, or the message itself."""
    return str(record.args[0]) if isinstance(record.args, tuple) and record.args else record.getMessage()


def _seed_complaint(text: str, place: Path, opened: bool) -> Complaint:
    text = text.replace(f"{place}/", "")
    if match := _SAME_SEED.match(text):
        seeds = f"seed {match[2]} in {match[4]} and {match[1]}, logged at {clean(match[3], 80)}"
        do = "run again without seed=N: each run then draws its own"
        return Complaint("seed", 0, seeds, "another seed in every run", do, warning=opened)
    if match := _NO_SEED.match(text):
        return Complaint("seed", 0, f"none in {match[1]}", "a seed in every run", "log it with mllog", warning=opened)
    do = "log seeds as whole numbers, with mllog"
    return Complaint("seed", 0, clean(text), "a whole number in every run", do, warning=opened)


def check_package(folder: Path, werror: bool = False) -> Verdict:
    """Run the package checker of ruleset 0.7.0 on a whole tree whose system descriptions can be read."""
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
    complaints = [item for record in messages if (item := _explained(record, folder)) is not None]
    if crashed is not None:
        complaints.append(crashed)
    elif not good and all(complaint.warning for complaint in complaints):
        complaints.append(Complaint("", 0, "errors", "none", "see the complaints above"))
    verdict = Verdict.of(folder, f"package_checker {RULESET}", "", complaints, werror)
    return replace(verdict, passed=good and verdict.passed, text="no errors" if good else "errors")


def _explained(record: logging.LogRecord, folder: Path) -> Complaint | None:
    """A message of the package checker as a complaint; None for what the verdicts on single logs already say."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    template, below = str(record.msg), [clean(str(item).replace(f"{folder}/", "")) for item in arguments]
    if template.startswith("Incorrect number of files"):
        do = "keep exactly that many result_N.txt"
        return Complaint(below[0], 0, f"{below[1]} logs", f"exactly {below[2]}", do)
    if "do not comply, directory cannot be accepted" in template:
        do = "see the verdict on each log; run the set again"
        return Complaint("", 0, f"{below[0]} logs of a set that do not comply", "at most one", do)
    # A benchmark is skipped that the tool has no rules for: a package's notes and docs/packaging.md say so.
    known = (" Skipping benchmark", "Detected %d total files", "Unknown files", " 1 file does not comply")
    if template.startswith((*known, " %s", " Found parsing errors", "  %s", "   ^^  %s")):
        return None
    return Complaint("", 0, clean(record.getMessage()), "no such message", "see docs/packaging.md", warning=True)
