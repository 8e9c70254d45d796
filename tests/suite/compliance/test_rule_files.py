"""Every rule file of the installed mlperf-logging gives the verdict of the stock checker.

Files outside the package of mlperf-logging are not opened.
"""

import contextlib
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from suite.compliance import rule_files
from suite.compliance.check_log import check_file
from suite.results.logs.reader import read
from testing.fake_logs import write
from testing.rule_logs import rule_log, rule_sets
from tests.helpers import logging_as_at_a_start

BY_RULESET = {
    ruleset: list(group) for ruleset, group in groupby(rule_sets(), key=lambda item: item[0])
}
UNLISTED = {
    *(
        (ruleset, division, "minigo")
        for ruleset in ("3.0.0", "3.1.0")
        for division in ("closed", "open")
    ),
    *((ruleset, "closed", "dlrm") for ruleset in ("3.0.0", "3.1.0")),
    *((ruleset, "open", "llama2_70b_lora") for ruleset in ("4.0.0", "4.1.0")),
    *(("5.1.0", division, "bert") for division in ("closed", "open")),
}
"""Rule files of benchmarks that are missing in the ruleset's list of benchmarks: no log passes."""
UNSOLVED = {
    *((ruleset, "closed", "ssd") for ruleset in ("0.7.0", "1.0.0", "1.1.0")),
    *((ruleset, "closed", "resnet") for ruleset in ("1.1.0", "2.0.0", "2.1.0")),
    *((ruleset, "closed", "llama31_405b") for ruleset in ("5.0.0", "5.1.0", "6.0.0")),
    *(
        ("6.1.0", "closed", name)
        for name in ("deepseekv3_671b", "dlrmv4", "flux1", "qwen35_397b_grpo")
    ),
    ("6.1.0", "open", "dlrmv4"),
}
"""Rules whose checks `rule_log` cannot solve; both checkers must agree on its log nevertheless."""


def stock_passes(path, ruleset):
    """Return the verdict of the stock checker in this process; a crash is not a pass."""
    from mlperf_logging.compliance_checker import mlp_compliance

    mlp_compliance.enqueued_configs.clear()
    with logging_as_at_a_start(), contextlib.suppress(Exception):
        checker = mlp_compliance.make_checker("training", ruleset, False, False)
        return mlp_compliance.main(str(path), f"training_{ruleset}/common.yaml", checker)[0]
    return False


def expected_to_pass(path, ruleset):
    """Return the verdict of the stock checker, for a run that `suite report` calls successful.

    `suite check` also refuses unsuccessful runs.
    """
    return stock_passes(path, ruleset) and read(path).status == "success"


@pytest.mark.parametrize("ruleset", BY_RULESET)
def test_verdicts_equal_those_of_the_stock_checker(tmp_path, ruleset):
    for _, division, benchmark in BY_RULESET[ruleset]:
        name = (ruleset, division, benchmark)
        log = write(tmp_path / "result_0.txt", rule_log(*name))
        verdict = check_file(log, rules=ruleset)
        assert verdict.passed == expected_to_pass(log, ruleset), (name, verdict.complaints)
        assert stock_passes(log, ruleset) == (name not in UNLISTED | UNSOLVED), (
            name,
            verdict.complaints,
        )
        for key, value in (
            ("run_stop", None),
            ("eval_accuracy", 1e9),
            ("train_samples", ""),
            ("opt_name", ""),
        ):
            log = write(tmp_path / "result_0.txt", rule_log(*name, **{key: value}))
            verdict = check_file(log, rules=ruleset)
            assert verdict.passed == expected_to_pass(log, ruleset), (name, key, verdict.complaints)
            assert not (verdict.passed and key == "run_stop")


@pytest.mark.parametrize("optimizer", ["sgd", "lars"])
def test_rules_of_resnet_v40_continue_in_the_folder_of_v31(tmp_path, optimizer):
    """Compare `suite check` without --rules to the stock checker's command in a new process."""
    lines = rule_log("4.0.0", "closed", "resnet")
    if optimizer == "lars":
        lines = [text.replace('"sgd"', '"lars"').replace("sgd_opt_", "lars_opt_") for text in lines]
    log = write(tmp_path / "v4.0" / "resnet" / "result_0.txt", lines)
    command = [
        sys.executable,
        "-m",
        "mlperf_logging.compliance_checker",
        "--usage",
        "training",
        "--ruleset",
        "4.0.0",
    ]
    stock = subprocess.run([*command, str(log)], cwd=tmp_path, capture_output=True, check=False)
    verdict = check_file(log)
    assert verdict.rules_name == "mlperf-logging training_4.0.0"
    assert verdict.passed == (stock.returncode == 0)
    assert verdict.passed == (optimizer == "sgd")  # The rules of LARS require more keys.
    assert not [item for item in verdict.complaints if rule_files.NO_RULES_MESSAGE in item.found]


@pytest.mark.parametrize("suffix", ["yaml", "txt"])
def test_a_log_cannot_select_a_rule_file_outside_the_package(tmp_path, suffix):
    outside = tmp_path / f"outside_common.{suffix}"
    outside.write_text(f"- BEGIN:\n    CODE: open({str(tmp_path / 'executed')!r}, 'w')\n")
    for division in (f"../../../../../../../../../..{tmp_path}/outside", f"{tmp_path}/outside"):
        log = write(
            tmp_path / "result_0.txt",
            rule_log("4.0.0", "closed", "resnet", submission_division=division),
        )
        assert not check_file(log, rules="4.0.0").passed
    assert not Path(tmp_path / "executed").exists()
