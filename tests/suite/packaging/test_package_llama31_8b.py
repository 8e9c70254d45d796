"""Packages of Llama 3.1 8B: the written tree passes mlperf-logging's checkers of v5.1 and v6.0."""

import json

import pytest

from suite.packaging.tree import check_tree
from suite.packaging.write import PackageOptions, package
from tests.helpers import called_here
from tests.suite.packaging.package_logs import write_run_files
from tests.suite.packaging.test_package import tool
from tests.workloads.llama31_8b_logs import ROUNDS, settings_of, write_llama_log

OPTIONS = PackageOptions(submitter="EXAMPLE_ORG", system="box")
EVALUATIONS = 14
"""Evaluations to the target, at which the mean is slower than the reference's at batch 16."""


def write_runs(folder, rules="v5.1", evaluations=EVALUATIONS, count=10, **keys):
    settings = settings_of(rules)
    for index in range(count):
        run = folder / f"run_{index}"
        write_llama_log(run / f"result_{index}.txt", settings, evaluations, index, **keys)
        write_run_files(run, hyperparameters=dict(settings.hyperparameters))
    return folder


@pytest.mark.parametrize("rules", ROUNDS)
def test_tree_passes_the_stock_package_checker(tmp_path, rules):
    out = tmp_path / "tree"
    packaged = package([write_runs(tmp_path / "job", rules)], out, OPTIONS)
    assert packaged.sets == (("box", "llama31_8b", 10),)
    description = json.loads((out / "systems" / "box.json").read_text())
    assert (description["division"], description["status"]) == ("closed", "Available on-premise")
    ruleset = f"{rules[1:]}.0"
    command = ("package_checker", str(out), "training", ruleset)
    printed = called_here(tool, "tool", command, tmp_path, {}).stderr
    log = (tmp_path / "tool.log").read_text()
    assert "SUCCESS" in log, (printed, log)
    assert "RCP Test Passed: RCP found" in log
    names = [verdict.rules_name for verdict in check_tree(out)]
    assert {f"package_checker {ruleset}", f"rcp_checker {ruleset}"} <= set(names)


@pytest.mark.parametrize(("evaluations", "passes"), [(13, True), (12, False)])
def test_tree_is_compared_with_the_reference_and_not_changed(tmp_path, evaluations, passes):
    out = tmp_path / "tree"
    if not passes:
        with pytest.raises(ValueError, match=r"rcp_checker 5\.1\.0.*test failed"):
            package([write_runs(tmp_path / "job", evaluations=evaluations)], out, OPTIONS)
        assert not out.exists()
        return
    package([write_runs(tmp_path / "job", evaluations=evaluations)], out, OPTIONS)
    before = sorted(out.rglob("*"))
    verdicts = {verdict.rules_name: verdict for verdict in check_tree(out)}
    assert all(verdict.passed for verdict in verdicts.values()), verdicts
    assert "the score is multiplied by 1.0085" in verdicts["rcp_checker 5.1.0"].text
    assert sorted(out.rglob("*")) == before


def test_status_of_earlier_rulesets_is_a_complaint(tmp_path):
    out = tmp_path / "tree"
    package([write_runs(tmp_path / "job")], out, OPTIONS)
    path = out / "systems" / "box.json"
    path.write_text(path.read_text().replace("Available on-premise", "onprem"))
    complaints = [item for verdict in check_tree(out) for item in verdict.complaints]
    assert [(item.key, item.found) for item in complaints] == [("status", "onprem")]


def test_scaling_file_of_the_rcp_checker_is_allowed(tmp_path):
    out = tmp_path / "tree"
    package([write_runs(tmp_path / "job", evaluations=13)], out, OPTIONS)
    (out / "results" / "box" / "llama31_8b" / "scaling.json").write_text('{"scaling_factor": 1.0}')
    assert all(verdict.passed for verdict in check_tree(out, werror=True))


def test_open_runs_are_refused(tmp_path):
    job = write_runs(tmp_path / "job", submission_division="open")
    with pytest.raises(ValueError, match=r"^llama31_8b: open runs cannot be packaged, .* 1\.0"):
        package([job], tmp_path / "tree", OPTIONS)


def test_nine_runs_are_refused(tmp_path):
    job = write_runs(tmp_path / "job", count=9)
    with pytest.raises(ValueError, match=r"^llama31_8b: 9 of 10 runs, 1 are missing"):
        package([job], tmp_path / "tree", OPTIONS)
