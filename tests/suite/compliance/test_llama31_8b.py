"""Checks of logs of Llama 3.1 8B: closed and open rules of v5.1 and v6.0, and convergence."""

import json
from dataclasses import replace

import pytest

from suite.catalog.division import find_deviations
from suite.compliance.check_log import check_file
from suite.compliance.convergence_points import check_convergence
from suite.results.logs.reader import read
from suite.worker.runlog import SEARCHED_TEXTS
from tests.helpers import suite_here
from tests.workloads.closed_logs import write_log
from tests.workloads.llama31_8b_logs import ROUNDS, settings_of, workload_of, write_llama_log
from workloads.llama31_8b.workload import Llama

SETS = {
    "reference": (8, 16),
    "reference_8xh200": (8, 32),
    "nvidia_v5.1_8gpu": (8, 16),
    "amd_v5.1_8gpu": (8, 32),
    "nebius_v5.1_16gpu": (16, 32),
    "cisco_v5.1_64gpu": (64, 64),
    "nvidia_v5.1_512gpu": (64, 64),
}
"""Devices and global batch size of each published hyperparameter set."""
POINTS = {13: True, 14: True, 12: False}
"""Maps the number of evaluations to the target to the verdict at batch 16.

An evaluation follows every 12,288 samples. The least mean that mlperf-logging accepts at batch 16
is 157,919.5 samples, which is 12.85 evaluations.
"""


def set_of_runs(folder, evaluations, rules="v5.1", count=10, **changes):
    """Write the logs of a result, and return the paths."""
    settings = settings_of(rules, **changes)
    return [
        write_llama_log(folder / f"run_{n}" / f"result_{n}.txt", settings, evaluations, n)
        for n in range(count)
    ]


@pytest.mark.parametrize("rules", ROUNDS)
@pytest.mark.parametrize("name", SETS)
def test_every_published_set_is_closed_and_passes_the_checker(tmp_path, rules, name):
    devices, batch = SETS[name]
    settings = settings_of(rules, name, devices=devices)
    assert settings.global_batch_size == batch
    assert find_deviations(Llama, settings) == []
    verdict = check_file(write_llama_log(tmp_path / "result_0.txt", settings, 2, 0), werror=True)
    assert verdict.passed, verdict.complaints
    assert verdict.rules_name == f"mlperf-logging training_{rules[1:]}.0"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"epsilon": 1e-8}, "opt_adamw_epsilon"),
        ({"beta1": 0.95}, "opt_adamw_beta_1"),
        ({"beta2": 0.9}, "opt_adamw_beta_2"),
        ({"weight_decay": 0.2}, "opt_adamw_weight_decay"),
        ({"clip_norm": 0.5}, "opt_gradient_clip_norm"),
        ({"max_steps": 600_000}, "max_steps"),
    ],
)
def test_rules_and_checker_agree_on_fixed_hyperparameters(tmp_path, changes, key):
    settings = settings_of("v5.1")
    settings = replace(settings, hyperparameters={**settings.hyperparameters, **changes})
    (name,) = changes
    assert [item.setting for item in find_deviations(Llama, settings)] == [name]
    verdict = check_file(write_llama_log(tmp_path / "result_0.txt", settings, 2, 0))
    assert key in [complaint.key for complaint in verdict.complaints]


@pytest.mark.parametrize("target", [3.3, 3.2, 3.3000001, 4.0])
def test_targets_above_the_rules_are_open(target):
    settings = replace(settings_of("v5.1"), targets={"log_perplexity": target})
    deviations = [deviation.text for deviation in find_deviations(Llama, settings)]
    closed = target <= 3.3
    assert (deviations == []) == closed
    if not closed:
        assert deviations[0].endswith("not log_perplexity 3.3 or below")


@pytest.mark.parametrize("value", [3.3, 3.3000001])
def test_evaluation_reaches_the_target_from_above(tmp_path, value):
    path = write_llama_log(tmp_path / "result_0.txt", settings_of("v6.0"), 1, 0)
    path.write_text(path.read_text().replace('"value": 3.3,', f'"value": {value},'))
    assert (read(path).status == "success") == (value <= 3.3)
    assert check_file(path).passed == (value <= 3.3)


@pytest.mark.parametrize("rules", ROUNDS)
@pytest.mark.parametrize("evaluations", POINTS)
def test_folder_of_ten_closed_runs_is_compared_with_the_reference(tmp_path, rules, evaluations):
    set_of_runs(tmp_path / "job", evaluations, rules)
    done = suite_here(tmp_path, "check", "job")
    (line,) = [line for line in done.stdout.splitlines() if "rcp_checker" in line]
    assert line.startswith("PASS" if POINTS[evaluations] else "FAIL")
    assert f"(rules: rcp_checker {rules[1:]}.0)" in line
    # The olympic mean of the reference at batch 16 is 161,109.3 samples.
    factor = f"{161_109.3 / (12_288 * evaluations):.4f}"
    assert (f"the score is multiplied by {factor}" in line) == (evaluations == 13)
    assert (done.returncode == 0) == POINTS[evaluations]


def test_missing_runs_are_not_compared(tmp_path):
    paths = set_of_runs(tmp_path / "job", 13, count=3)
    verdict = check_convergence(tmp_path, [read(path) for path in paths], werror=False)
    assert (verdict.judged, verdict.text) == (
        False,
        "convergence is compared when all 10 runs exist, 3 do",
    )


def test_open_runs_and_other_benchmarks_are_not_compared(tmp_path):
    paths = set_of_runs(tmp_path / "job", 13, count=2)
    records = [replace(read(path), division="open") for path in paths]
    assert check_convergence(tmp_path, records, werror=False) is None


def test_comparison_writes_nothing_next_to_the_logs(tmp_path):
    paths = set_of_runs(tmp_path / "job", 13)
    before = sorted(tmp_path.rglob("*"))
    assert check_convergence(tmp_path, [read(path) for path in paths], werror=False).passed
    assert sorted(tmp_path.rglob("*")) == before


def test_broken_log_is_a_complaint_of_the_comparison(tmp_path):
    paths = set_of_runs(tmp_path / "job", 13)
    records = [read(path) for path in paths]
    paths[3].write_text(paths[3].read_text().replace('"samples_count": 12288', '"samples": 12288'))
    verdict = check_convergence(tmp_path, records, werror=False)
    assert not verdict.passed
    assert "KeyError" in verdict.complaints[0].found


def open_log(path, value=3.3, **changes):
    """Write a log of the open division that the suite's rules can pass."""
    write_llama_log(path, settings_of("v5.1"), 1, 0, submission_division="open", **changes)
    path.write_text(path.read_text().replace('"value": 3.3,', f'"value": {value},'))
    return path


@pytest.mark.parametrize(("value", "passes"), [(3.3, True), (3.31, False)])
def test_open_runs_are_checked_by_rules_of_the_suite(tmp_path, value, passes):
    verdict = check_file(open_log(tmp_path / "result_0.txt", value))
    rule_complaints = [item.key for item in verdict.complaints if item.key == "eval_accuracy"]
    assert (rule_complaints == []) == passes
    assert verdict.rules_name == "suite rules llama31_8b_open"
    assert verdict.why_rules == (
        "no log of llama31_8b can pass the open rules of mlperf-logging, which require an"
        " eval_accuracy below 1.0"
    )
    stock = check_file(tmp_path / "result_0.txt", "5.1.0")
    assert "eval_accuracy" in [complaint.key for complaint in stock.complaints]


def test_open_log_without_sample_counts_fails(tmp_path):
    path = open_log(tmp_path / "result_0.txt")
    lines = []
    for line in path.read_text().splitlines():
        record = json.loads(line.removeprefix(":::MLLOG "))
        record["metadata"].pop("samples_count", None)
        lines.append(f":::MLLOG {json.dumps(record)}")
    path.write_text("\n".join(lines) + "\n")
    keys = [complaint.key for complaint in check_file(path).complaints]
    assert {"block_start", "eval_start", "eval_accuracy", "block_stop"} <= set(keys)


def test_log_has_no_text_that_the_rcp_checker_searches_in_other_lines(tmp_path):
    path = tmp_path / "result_0.txt"
    write_log(path, workload_of(settings_of("v5.1")))
    keys = []
    for line in path.read_text().splitlines():
        keys.append(json.loads(line.removeprefix(":::MLLOG "))["key"])
        assert [text for text in SEARCHED_TEXTS if text in line and text != keys[-1]] == []
    assert {"suite_run", "eval_accuracy", "global_batch_size", "run_stop"} <= set(keys)
