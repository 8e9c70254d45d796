"""Shipped published results: scores, targets, units, copies, and figures of a second program."""

import csv
import itertools
import re
from pathlib import Path

import pytest

from suite.results.published_results import SHIPPED
from suite.results.scores import published_results
from suite.results.targets import epoch_unit, published_targets
from testing.rule_logs import compliance_folder
from tests.helpers import PROJECT

ORIGINAL = PROJECT.parent / "shared" / "published"
NAMES_OF_RULES = {"gnn": "rgat", "ssd": "retinanet", "resnet": "resnet50"}
LATER_ROUNDS = ("v4.1", "v5.0", "v5.1")


def rows(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def entry(row):
    benchmark = row["benchmark"]
    later = row["round"] in LATER_ROUNDS
    name = NAMES_OF_RULES.get(benchmark, benchmark) if later else benchmark
    return row["round"], row["submitter"], row["system"], name


def test_every_score_follows_from_the_single_runs():
    """Compare the score that the suite computes from runs.csv with the score in results.csv."""
    found = [result for result in published_results((SHIPPED,)) if result.round != "dgx1-article"]
    assert len(found) == len(rows(SHIPPED / "results.csv"))
    without_runs = []
    for result in found:
        printed = result.attempts[0].printed
        if result.single_figure:
            without_runs.append(result.run)
            continue
        assert result.unscaled_seconds == pytest.approx(float(printed["seconds"]), abs=1e-4)
        assert len(result.attempts) == int(printed["runs"])
        assert result.runs_retained == int(printed["runs_used"])
        epochs = float(printed["epochs"]) if printed["epochs"] else None
        assert result.epochs == pytest.approx(epochs, rel=1e-4)
    assert without_runs == [
        "v6.0/GigaComputing/G894-SD3-AAX7_pytorch",
        "v6.0/Inventec/P9000IG7_ngc26.04_nemo",
    ]


def test_targets_of_the_later_rounds_are_those_of_the_installed_rule_files():
    checked = set()
    for row in rows(SHIPPED / "results.csv"):
        if row["round"] not in LATER_ROUNDS:
            continue
        name = next((old for old, new in NAMES_OF_RULES.items() if new == row["benchmark"]), None)
        folder = compliance_folder() / f"training_{row['round'][1:]}.0"
        files = [folder / f"closed_{option}.yaml" for option in (row["benchmark"], name)]
        file = next(path for path in files if path.is_file())
        check = re.search(
            r"NAME: +(?:aggregated_)?eval_accuracy\n(?:(?!\n- ).)*?ATLEAST_ONE_CHECK: *(.*)",
            file.read_text(),
            re.DOTALL,
        )[1].partition("\n")[0]
        bounds = {float(number) for number in re.findall(r"\d+\.\d+", check)}
        targets = [float(row[column]) for column in ("target", "target_mask") if row[column]]
        assert {*targets} <= bounds, (file, row["system"])
        assert targets == list(published_targets(row["benchmark"]).values())
        is_lower_better = "<=" in check.replace("and v['value'] <= 1.0", "")
        assert ("lower is better" in row["quality_metric"]) == is_lower_better
        checked.add((row["round"], row["benchmark"]))
    assert len(checked) == 21


def test_every_successful_run_of_the_later_rounds_reaches_its_target_and_has_a_plausible_count():
    limits = {"epochs": (0.5, 15), "samples": (1000, 2e7), "tokens": (1e9, 2e9)}
    targets = {entry(row): row for row in rows(SHIPPED / "results.csv")}
    count = 0
    for run in rows(SHIPPED / "runs.csv"):
        if run["round"] not in LATER_ROUNDS or run["status"] != "success":
            continue
        count += 1
        result = targets[entry(run)]
        low, high = limits[epoch_unit(run["benchmark"])]
        assert low <= float(run["epochs"]) <= high
        quality, target = float(run["quality"]), float(result["target"])
        if "lower is better" in result["quality_metric"]:
            assert quality <= target
        else:
            assert quality >= target
    assert count == 4680


@pytest.mark.skipif(not ORIGINAL.is_dir(), reason=f"no published figures at {ORIGINAL}")
def test_the_later_rounds_equal_the_figures_of_a_second_program():
    """Compare with tables that a different program computed from the same logs."""
    shipped = {entry(row): row for row in rows(SHIPPED / "results.csv")}
    original = {entry(row): row for row in rows(ORIGINAL / "later_results.csv")}
    assert len(original) == 538
    assert {name for name in shipped if name[0] in LATER_ROUNDS} == {*original}
    same = ("accelerator", "chips", "nodes", "framework", "division", "availability", "runs")
    for name, row in original.items():
        mine = shipped[name]
        for column in (*same, "runs_successful", "batch"):
            assert mine[column] == row[column], (name, column)
        assert float(mine["seconds"]) == pytest.approx(float(row["seconds"]), abs=2e-4)
        factor = re.match(r"scaling ([\d.]+)", row["note"])
        assert bool(factor) == bool(mine["scaling_factor"])
        if factor:
            assert float(mine["scaling_factor"]) == pytest.approx(float(factor[1]), abs=6e-5)
    runs = {(*entry(row), row["file"]): row for row in rows(SHIPPED / "runs.csv")}
    for row in rows(ORIGINAL / "later_runs.csv"):
        mine = runs[(*entry(row), row["file"])]
        assert (mine["status"], mine["batch"]) == (row["status"], row["batch"])
        for column in ("seconds", "run_start_unix_seconds"):
            theirs = float(row[column]) if row[column] else None
            assert (float(mine[column]) if mine[column] else None) == pytest.approx(
                theirs, abs=2e-3
            )


@pytest.mark.skipif(not ORIGINAL.is_dir(), reason=f"no published figures at {ORIGINAL}")
def test_samples_and_throughput_of_llama31_8b_equal_the_figures_of_a_second_program():
    shipped = {entry(row): row for row in rows(SHIPPED / "results.csv")}
    found = rows(ORIGINAL / "results_llama31_8b.csv")
    for row in found:
        mine = shipped[entry(row)]
        assert (mine["epochs_minimum"], mine["epochs_maximum"]) == (
            row["epochs_min"],
            row["epochs_max"],
        )
        if row["round"] == "v5.1":
            rate = float(row["throughput_per_accelerator"])
            assert float(mine["throughput_per_chip"]) == pytest.approx(rate, rel=5e-3)
        else:
            assert "incomplete round" in mine["note"]
    assert len(found) == 43


def test_a_copy_names_an_entry_that_stands_before_it_and_has_the_same_runs():
    results = rows(SHIPPED / "results.csv")
    positions = {
        (f"{row['round']} {row['submitter']}/{row['system']}", row["benchmark"]): index
        for index, row in enumerate(results)
    }
    runs = {
        name: {(run["run_start_unix_seconds"], run["seconds"]) for run in members}
        for name, members in itertools.groupby(rows(SHIPPED / "runs.csv"), entry)
    }
    copies = [row for row in results if row["first_entry"] and row["round"] in LATER_ROUNDS]
    assert len(copies) == 27
    for row in copies:
        first = positions[row["first_entry"], row["benchmark"]]
        assert first < results.index(row)
        assert runs[entry(row)] == runs[entry(results[first])]


def test_the_readme_has_the_counts_of_the_files():
    text = Path(SHIPPED / "README.md").read_text(encoding="utf-8")
    counts = {name: len(rows(SHIPPED / f"{name}.csv")) for name in ("results", "runs")}
    assert f"benchmark ({counts['results']:,}) |" in text
    assert f"such an entry ({counts['runs']:,}) |" in text
    for round_name in LATER_ROUNDS:
        entries = [row for row in rows(SHIPPED / "results.csv") if row["round"] == round_name]
        copies = sum(bool(row["first_entry"]) for row in entries)
        runs = sum(row["round"] == round_name for row in rows(SHIPPED / "runs.csv"))
        assert f"| {round_name} | {len(entries)} | {copies} | {runs:,} |" in text
