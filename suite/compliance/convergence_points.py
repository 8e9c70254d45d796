"""Compare the convergence of a result with the reference convergence points (RCPs) of its ruleset.

The RCP checker of mlperf-logging reads the logs of a result, computes the mean of the samples or
epochs to the target, and compares the mean with the reference's runs at the same batch size.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.compliance.check_log import Verdict
from suite.compliance.complaints import Complaint
from suite.compliance.rule_files import captured_messages
from suite.compliance.rulesets import rules_of
from suite.results.logs.record import RunRecord
from suite.results.scoring_rules import find_scoring_rule
from suite.results.text import clean

_PRUNED = "pruned_rcps"
"""Reference points that the package checker of mlperf-logging uses."""


def check_convergence(folder: Path, records: Sequence[RunRecord], werror: bool) -> Verdict | None:
    """Return the verdict of the RCP checker on the logs of a result.

    The verdict is not judged if runs are missing. The result is None if the logs are not closed, or
    if mlperf-logging has no RCPs for their benchmark and round.

    Args:
        folder: The folder of the result, for the verdict.
        records: Records of the runs of one job or result set.
        werror: Treat warnings as errors.
    """
    closed = [record for record in records if record.division == "closed" and record.has_log]
    rulesets = {rules_of(record) for record in closed}
    benchmarks = {record.benchmark for record in closed}
    if len(closed) < len(records) or len(rulesets) != 1 or len(benchmarks) != 1:
        return None
    (rules,), (benchmark,) = rulesets, benchmarks
    if rules is None or rules.replaces_ruleset or not has_points(rules.ruleset, benchmark):
        return None
    name = f"rcp_checker {rules.ruleset}"
    rule = find_scoring_rule(benchmark)
    required = 0 if rule is None else rule.runs_required
    if len(records) < required:
        text = f"convergence is compared when all {required} runs exist, {len(records)} do"
        return Verdict(folder, False, text, name, (), judged=False)
    return _verdict(folder, [record.path for record in closed], rules.ruleset, name, werror)


def has_points(ruleset: str, benchmark: str) -> bool:
    """Return True if mlperf-logging has RCPs of a ruleset for a benchmark."""
    from mlperf_logging.rcp_checker import rcp_checker

    points = Path(rcp_checker.__file__).resolve().parent / f"training_{ruleset}"
    names = [path.name for path in points.glob("rcps_*.json")]
    return f"rcps_{benchmark}.json" in names


def _verdict(folder: Path, logs: Sequence[Path], ruleset: str, name: str, werror: bool) -> Verdict:
    """Run the RCP checker on logs, and return its verdict."""
    with captured_messages():
        try:
            passed, text, factor = compare(logs, ruleset)
        except Exception as error:  # the checker raises exceptions on unexpected lines
            found = f"the checker stopped with {type(error).__name__}: {clean(str(error), 200)}"
            complaint = Complaint(
                "eval_accuracy", 0, found, "logs that the checker can read", "fix the logs first"
            )
            return Verdict.of(folder, name, "", [complaint], werror)
    found = clean(text[:1].lower() + text[1:], 200)
    if not passed:
        needed = "a mean number of samples or epochs to the target that the reference also needs"
        do = (
            "use hyperparameters and a batch size of the reference convergence points"
            f" (mlperf-logging, rcps_*.json of training_{ruleset})"
        )
        complaint = Complaint("eval_accuracy", 0, f"{found}, test failed", needed, do)
        return Verdict.of(folder, name, "", [complaint], werror)
    score = f", the score is multiplied by {factor:.4f}" if factor > 1 else ""
    return Verdict.of(folder, name, f"convergence as the reference's: {found}{score}", [], werror)


def compare(logs: Sequence[Path], ruleset: str, **options: Any) -> tuple[bool, str, float]:
    """Return whether the RCP checker passes logs, its message, and the factor of the score.

    The checker reads a folder, and writes or removes `scaling.json` in the folder. It therefore
    gets a temporary folder with links to the logs.

    Args:
        logs: Logs of a result.
        ruleset: Ruleset of mlperf-logging.
        options: Further arguments of the checker's function `check_directory`.
    """
    from mlperf_logging.rcp_checker import rcp_checker

    with tempfile.TemporaryDirectory(prefix="suite_rcp_") as temporary:
        for index, log in enumerate(logs):
            Path(temporary, f"result_{index}.txt").symlink_to(log.absolute())
        arguments = {
            "verbose": False,
            "bert_train_samples": False,
            "rcp_pass": _PRUNED,
            **options,
            "set_scaling": True,
        }
        passed, message, factor = rcp_checker.check_directory(
            temporary, "training", ruleset, **arguments
        )
    return bool(passed), str(message), float(factor)


@contextlib.contextmanager
def unchanged_folders() -> Any:
    """Let mlperf-logging's package checker compare convergence without changing any folder."""
    from mlperf_logging.rcp_checker import rcp_checker

    original = rcp_checker.check_directory

    def check(folder: str, usage: str, ruleset: str, **options: Any) -> tuple[bool, str, float]:
        rcp_checker.check_directory = original
        try:
            return compare(sorted(Path(folder).glob("result_*.txt")), ruleset, **options)
        finally:
            rcp_checker.check_directory = check

    rcp_checker.check_directory = check
    try:
        yield
    finally:
        rcp_checker.check_directory = original
