"""Run mlperf-logging's seed checker and package checker, and return verdicts.

As command-line programs, both checkers exit with code 0 even if they find errors, and print a
traceback on unexpected input. This module therefore calls the checkers as functions, and reports a
crash of a checker as a complaint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from suite.compliance.check_log import Verdict
from suite.compliance.complaints import Complaint
from suite.compliance.convergence_points import unchanged_folders
from suite.compliance.find_rules import RULESET
from suite.compliance.rule_files import captured_messages, restricted_package_checker
from suite.results.logs.record import RunRecord
from suite.results.text import clean

SEED_RULESET = "1.0.0"
"""First ruleset that contains rules for seeds. Ruleset 0.7.0 has no such rules."""


def check_seeds(
    result_folder: Path, logs: Sequence[Path], records: Sequence[RunRecord], werror: bool = False
) -> Verdict:
    """Check that each run logs a seed, and that all runs have different seeds.

    In the open division, a missing or repeated seed is only a warning.
    """
    from mlperf_logging.package_checker.seed_checker import SeedChecker

    opened = any(record.division == "open" for record in records)
    first: dict[tuple[str, int], Path] = {}
    """Maps a seed and the line of code that logged the seed to the first log that contains both."""
    complaints: list[Complaint] = []

    def complain(found: str, needed: str, do: str) -> None:
        complaints.append(Complaint("seed", 0, found, needed, do, warning=opened))

    for log in logs:
        try:
            # The checker's public method returns messages instead of seeds.
            seeds = SeedChecker(SEED_RULESET)._get_seed_records(str(log))
        except Exception as error:  # the seed checker raises exceptions on unexpected log lines
            found = f"unreadable in {log.name} ({type(error).__name__})"
            complain(found, "an integer in every run", "log seeds as integers with mllog")
            continue
        if not seeds:
            complain(f"none in {log.name}", "a seed in every run", "log it with mllog")
        for file, line, seed in seeds:
            line_and_seed = clean(f"{file}:{line}", 80), seed
            if earlier := first.get(line_and_seed):
                found = (
                    f"seed {seed} in {earlier.name} and {log.name}, logged at {line_and_seed[0]}"
                )
                do = "run again without seed=N, so that each run draws a seed"
                complain(found, "a different seed in every run", do)
            first.setdefault(line_and_seed, log)
    if not complaints:
        _complain_of_equal_seeds(records, complain)
    good = "every run has a different seed"
    return Verdict.of(result_folder, f"seed_checker {SEED_RULESET}", good, complaints[:20], werror)


def _complain_of_equal_seeds(
    records: Sequence[RunRecord], complain: Callable[[str, str, str], None]
) -> None:
    """Report a complaint if two runs of this suite have the same seed.

    The seed checker of mlperf-logging only compares seeds that were logged by the same line of
    code. The line of code is recorded in the log, so a user could edit it to hide equal seeds.
    """
    first: dict[int, RunRecord] = {}
    for record in records:
        if not record.settings.profile or record.seed is None:
            continue
        if (earlier := first.setdefault(record.seed, record)) is not record:
            found = f"seed {record.seed} in {earlier.path.name} and {record.path.name}"
            complain(
                found,
                "a different seed in every run",
                "run again without seed=N, so that each run draws a seed",
            )


def check_package(folder: Path, werror: bool = False, ruleset: str = RULESET) -> Verdict:
    """Run mlperf-logging's package checker with a ruleset on a submission tree.

    The package checker skips benchmarks that the ruleset does not contain. From ruleset 1.0.0 on,
    the package checker also compares the convergence of closed-division results with the reference
    convergence points. Call this function only if the system descriptions in the tree are readable.
    """
    crashed: Complaint | None = None
    good = False
    with (
        captured_messages() as messages,
        restricted_package_checker() as module,
        unchanged_folders(),
    ):
        try:
            good = module.check_training_result_files(
                str(folder), "training", ruleset, False, werror, rcp_bypass=ruleset == RULESET,
                rcp_bert_train_samples=False, seed_checker_bypass=False,
            )  # fmt: skip
        except Exception as error:
            crashed = Complaint(
                "", 0, f"the checker stopped with {type(error).__name__}: {clean(str(error))}",
                "logs and descriptions that it can read",
                "fix the complaints above, then check again",
            )  # fmt: skip
    complaints = [item for record in messages if (item := _unknown(record)) is not None]
    if crashed is not None:
        complaints.append(crashed)
    elif not good and all(complaint.warning for complaint in complaints):
        complaints.append(Complaint("", 0, "errors", "none", "see the complaints above"))
    verdict = Verdict.of(folder, f"package_checker {ruleset}", "", complaints, werror)
    return replace(verdict, passed=good and verdict.passed, text="no errors" if good else "errors")


def _unknown(record: logging.LogRecord) -> Complaint | None:
    """Return a complaint for a message of the package checker.

    Returns None if the verdicts on logs and result sets already report the problem.
    """
    # The package checker skips benchmarks for which it has no rules. The skipped benchmarks are
    # listed in the notes of a package and in docs/how-to/check_and_package.md.
    covered = (
        " Skipping benchmark", "Detected %d total files", "Unknown files",
        "Incorrect number of files", " 1 file does not comply", " %s", " Found parsing errors",
        "  %s", "   ^^  %s",
    )  # fmt: skip
    if str(record.msg).startswith(covered) or "do not comply, directory cannot be accepted" in str(
        record.msg
    ):
        return None
    return Complaint(
        "",
        0,
        clean(record.getMessage()),
        "no such message",
        "see docs/how-to/check_and_package.md",
        warning=True,
    )
