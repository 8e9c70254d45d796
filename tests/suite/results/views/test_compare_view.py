"""Comparison of small and of published logs.

The tests cover matching, differences, refusals, ratios, verdicts, formats, and the command.
"""

import json
import shutil
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.experiment_key import EPOCH_TIME, EPOCHS, TIME
from suite.results.ratios import permutation_test
from suite.results.render.document import markdown
from suite.results.scores import published_results, results
from suite.results.series import speedups
from suite.results.targets import same_targets
from suite.results.views.compare_sides import logs_side, published_side
from suite.results.views.compare_view import comparable, compare
from testing.fake_logs import foreign, write, write_run
from tests.helpers import PROJECT, examples, refusal, suite_here

LOGS = Path(__file__).resolve().parents[5] / "shared" / "published" / "logs"
needs_logs = pytest.mark.skipif(not LOGS.is_dir(), reason=f"no published logs at {LOGS}")
REFERENCE = {
    "profile": "reference",
    "labels": [],
    "dataset": "ml-20m",
    "device": "cuda",
    "device_name": "NVIDIA V100",
}
REFERENCE |= {"global_batch_size": 1_048_576, "devices": 8}
"""Settings of a run of ours that is comparable with v0.5/NVIDIA/dgx1."""


def runs(root, lengths, job="job", epochs=3, rate=0.003, **options):
    """Write a run of `epochs` epochs for each time to target in seconds, and return the folder."""
    qualities = options.pop("qualities", [0.1] * (epochs - 1) + [0.65])
    for index, seconds in enumerate(lengths):
        keys = {"opt_base_learning_rate": rate}
        defaults = {
            "seconds_per_epoch": seconds / epochs,
            "start": 1000 * index,
            "keys": keys,
            "qualities": qualities,
        }
        write_run(root, job, index, **{**defaults, **options})
    return root


def two(first, second):
    return compare(logs_side([first], "A"), logs_side([second], "B"), published_results())


def against(root, name, workloads=()):
    return compare(
        logs_side([root], "ours", workloads=workloads), published_side(name), published_results()
    )


def ratios(view):
    found = view.data.to_frame()[view.data.to_frame()["kind"] == "ratio"]
    assert not found["quantity"].duplicated().any()
    return {line.quantity: line for line in found.itertuples()}


def verdicts(view):
    return list(view.data.to_frame().loc[view.data.to_frame()["kind"] == "refused", "verdict"])


def differing(view):
    tables = (
        section.table
        for section in view.sections
        if section.table is not None and "setting" in section.table
    )
    return {name: (value_a, value_b) for table in tables for name, value_a, value_b in table.rows}


def page(view):
    return " ".join(markdown(view).split())


def suite(*arguments):
    return suite_here(PROJECT, "compare", *arguments)


@needs_logs
def test_published_logs_agree_with_their_published_figures():
    data = against(LOGS / "v0.5", "v0.5/NVIDIA/dgx1").data.to_frame()
    found = data[data["kind"] == "ratio"]
    assert found["workload"].nunique() == 5
    complete = found[found["workload"].isin(["resnet50", "ssd"])]  # All five runs are available.
    assert list(complete["ratio"]) == pytest.approx([1.0] * len(complete), abs=1e-8)
    assert set(complete["p"]) == {1.0}
    assert set(complete["differences"]) == {""}


@needs_logs
def test_a_different_target_is_refused_for_time_but_not_for_time_per_epoch():
    view = against(LOGS / "v0.5" / "dgx1_ngc18.11_mxnet", "v0.6/NVIDIA/dgx1")
    assert differing(view)["target"] == ("top-1 accuracy ≥ 0.749", "top-1 accuracy ≥ 0.759")
    targets = "top-1 accuracy ≥ 0.749 and top-1 accuracy ≥ 0.759"
    remedy = "so only time per epoch and throughput can be compared"
    assert verdicts(view) == [f"trained to different targets ({targets}), {remedy}"] * 2
    (theirs,) = (
        row for row in published_side("v0.6/NVIDIA/dgx1").results if row.workload == "resnet50"
    )
    assert ratios(view)[EPOCH_TIME].ratio == pytest.approx(
        theirs.seconds / theirs.epochs / (8073.52413 / 63), rel=1e-6
    )


def test_targets_are_equal_only_up_to_float32_rounding():
    for value, same in ((0.6349999904632568, True), (0.6349996, False), (0.6350001, False)):
        assert same_targets({"quality": 0.635}, {"hr_at_10": value}, "ncf") is same
    assert same_targets({"bleu": 0.24}, {"bleu": 24.0}, "gnmt")
    assert (
        same_targets({"BBOX": 0.377, "SEGM": 0.339}, {"BBOX": 0.377, "SEGM": 0.34}, "maskrcnn")
        is False
    )
    assert same_targets({}, {"map": 0.2}, "ssd") is None


PERCENT = {"resnet50": 3.0, "ssd": 2.6, "gnmt": 5.1, "transformer": -6.4, "ncf": 33.5}


@pytest.mark.parametrize(("workload", "percent"), PERCENT.items())
def test_the_article_is_compared_with_the_v05_entry_of_the_same_machine(workload, percent):
    names = (("dgx1-article", "A"), ("v0.5/NVIDIA/dgx1", "B"))
    sides = (published_side(name, side, [workload]) for name, side in names)
    time = ratios(compare(*sides, published_results()))[TIME]
    assert 100 * (time.ours_value / time.theirs_value - 1) == pytest.approx(percent, abs=0.06)
    assert "target" not in time.differences
    assert pd.isna(time.p)
    assert "run-to-run variation is unknown" in time.verdict


def test_total_is_exactly_the_product(tmp_path):
    runs(
        tmp_path, [30.0, 31.0, 29.5, 36.0, 30.5], epochs=7, **REFERENCE, clock="v0.7", rules="v0.7"
    )
    view = against(tmp_path, "v0.5/NVIDIA/dgx1")
    found = ratios(view)
    assert found[TIME].ratio == found[EPOCH_TIME].ratio * found[EPOCHS].ratio
    assert found[TIME].ours_value == pytest.approx((30.0 + 31.0 + 30.5) / 3)
    assert found[TIME].theirs_value == pytest.approx(0.471907 * 60, rel=1e-5)
    # The 28.3 s are the mean of 48 runs, whose mean number of epochs is 16.4375.
    assert found[EPOCHS].ratio == pytest.approx(16.4375 / 7)
    assert differing(view)["hardware"] == ("NVIDIA V100", "Tesla V100-SXM2-16GB")
    assert (differing(view)["clock rule"], differing(view)["round"]) == (("v0.7", "v0.5"),) * 2
    assert "target" not in differing(view)
    assert "ours: fewer runs than the rules require (5 of 100)" in page(view)


OTHER_DATA = {"code": "setting", "setting": "dataset", "value": "ml-1m", "allowed": "ml-20m"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"profile": "demo", "labels": ["demo"]},
            "it cannot be compared with MLPerf results. Compare it with a demo",
        ),
        ({"devices": 2}, "published has no result on 2 devices. Compare on 8 instead"),
        (
            {"workload": "dlrm"},
            "published has no result of dlrm; it has gnmt, ncf, resnet50, ssd, transformer",
        ),
        ({"stop": "epochs:3"}, "ours has a fixed length and no target"),
        (
            {"dataset": "ml-1m", "deviations": ["data set ml-1m"]},
            "trained on different data sets (ml-1m and the data set of the rules)",
        ),
        (
            {
                "dataset": "ml-1m",
                "deviations": ["trained on ml-1m"],
                "deviation_facts": [OTHER_DATA],
            },
            "trained on different data sets (ml-1m and the data set of the rules)",
        ),
        ({"mode": "forward"}, "mode forward and mode train do different work"),
    ],
)
def test_results_that_are_not_comparable_are_refused_with_a_reason(tmp_path, changes, why):
    runs(tmp_path, [30.0], **{**REFERENCE, **changes})
    view = against(tmp_path, "v0.5/NVIDIA/dgx1")
    assert not comparable(view)
    (reason,) = verdicts(view)
    assert why in reason


def test_a_difference_larger_than_run_to_run_variation_is_called_faster(tmp_path):
    runs(tmp_path / "a", [12.0, 12.1, 12.2, 12.3, 12.4])
    runs(tmp_path / "b", [10.5, 10.6, 10.7, 10.8, 10.9])
    view = two(tmp_path / "a", tmp_path / "b")
    time = ratios(view)[TIME]
    assert (time.p, time.ratio) == (pytest.approx(2 / 252), pytest.approx(10.7 / 12.2, rel=1e-3))
    assert time.ratio_low < time.ratio < time.ratio_high < 1
    interval = f"95 % confidence interval {1 / time.ratio_high:.2f} to {1 / time.ratio_low:.2f}"
    evidence = "This is more than run-to-run variation (p = 0.008, 5 against 5 runs)"
    assert time.verdict == f"B is 1.14× faster ({interval}). {evidence}."
    assert ratios(view)[EPOCHS].verdict == "No difference (3.0 each)."
    assert differing(view) == {}


@pytest.mark.parametrize(
    ("base", "verdict"),
    [(999.1, "No difference (16.67 min each)"), (1002.5, "Less than 0.5 % apart: A took ")],
)
def test_a_ratio_that_rounds_to_1_is_not_called_faster_even_if_p_is_small(tmp_path, base, verdict):
    runs(tmp_path / "a", [1000.0 + index / 100 for index in range(8)])
    runs(tmp_path / "b", [base + 1 + index / 100 for index in range(8)])
    time = ratios(two(tmp_path / "a", tmp_path / "b"))[TIME]
    assert time.p < 0.001
    assert time.verdict.startswith(verdict)
    assert "1.00×" not in time.verdict


def test_a_small_p_is_shown_as_below_0_001(tmp_path):
    slow, fast = ([base + index / 100 for index in range(8)] for base in (12.0, 10.0))
    time = ratios(two(runs(tmp_path / "a", slow), runs(tmp_path / "b", fast)))[TIME]
    assert "(p below 0.001, 8 against 8 runs)" in time.verdict


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ([10.2], [10.2], "No difference (10.2 s each). One run per side is too few to judge"),
        ([9.7], [8.6], "B took 8.6 s, A 9.7 s. One run per side is too few to judge"),
        ([9.7], [8.6] * 48, "B took 8.6 s, A 9.7 s. One run against 48 is too few to judge"),
        ([12.0, 12.1, 12.2], [6.0, 6.1, 6.2],
         "3 against 3 runs are too few to judge (the smallest possible p is 0.1)"),
        ([11.9, 10.2, 11.9, 10.5, 10.6, 12.1, 12.4, 10.4],
         [18.1, 11.2, 11.1, 11.5, 11.2, 14.4, 14.3, 13.7], ", but the interval includes 1"),
        ([12.0, 12.9, 11.4, 12.3, 12.4], [11.9, 12.6, 11.5, 12.2, 12.1],
         "not more than run-to-run variation (p = 0."),
    ],
)  # fmt: skip
def test_differences_without_sufficient_evidence_are_not_claimed(tmp_path, ours, theirs, words):
    theirs = [seconds + index * 1e-3 * (len(theirs) > 5) for index, seconds in enumerate(theirs)]
    view = two(runs(tmp_path / "a", ours), runs(tmp_path / "b", theirs))
    assert words in ratios(view)[TIME].verdict
    assert "×" not in "".join(line.verdict for line in ratios(view).values())
    # Only the main quantity has this note.
    assert page(view).count("too few to judge") == words.count("too few to judge")


NO_SCORE = "B has no official score and neither side is called better"


@pytest.mark.parametrize(
    ("failed", "options", "verdict"),
    [
        (2, {}, f"B took 10.7 s, A 12.2 s. 2 of 7 runs of B failed, so {NO_SCORE}."),
        (1, {}, f"B took 10.7 s, A 12.2 s. 1 of 6 runs of B failed, so {NO_SCORE}."),
        (1, {**REFERENCE, "runs_required": 6},
         "more than run-to-run variation (p = 0.008, 5 against 5 runs). "
         "1 of 6 runs of B failed and do not count in p."),
        (2, {**REFERENCE, "runs_required": 6}, f"{NO_SCORE}."),
    ],
)  # fmt: skip
def test_failed_runs_are_stated_and_without_an_official_score_no_side_is_called_better(
    tmp_path, failed, options, verdict
):
    runs(tmp_path / "a", [12.0, 12.1, 12.2, 12.3, 12.4], **options)
    runs(tmp_path / "b", [10.5, 10.6, 10.7, 10.8, 10.9], **options)
    for index in range(failed):
        write_run(
            tmp_path / "b",
            "job",
            5 + index,
            qualities=(0.1, 0.2),
            start=9000 * (1 + index),
            **options,
        )
    view = two(tmp_path / "a", tmp_path / "b")
    time = ratios(view)[TIME]
    assert time.verdict.endswith(verdict)
    assert (time.runs_theirs, time.failed_theirs, time.ratio < 1) == (5, failed, True)
    assert ("× faster" in page(view)) == ("official score" not in verdict)


def test_all_candidates_on_a_side_are_named_with_their_settings(tmp_path):
    for job, rate, batch in (("x", 0.002, 4096), ("y", 0.002, 512), ("z", 0.004, 4096)):
        runs(tmp_path / "b", [10.0], job=job, rate=rate, global_batch_size=batch)
    text = page(two(runs(tmp_path / "a", [10.0], rate=0.003), tmp_path / "b"))
    batch, rate = "global batch {}", "learning rate {}"
    for name in (batch.format("4,096"), batch.format(512), rate.format(0.002), rate.format(0.004)):
        assert (
            name
            in text.partition("B has 3 results on 1 device: ")[2].partition(". No result has")[0]
        )


def test_results_are_matched_by_experiment_and_unmatched_results_are_named(tmp_path):
    for rate in (0.002, 0.003):
        runs(tmp_path / "b", [10.0], job=f"{rate}", rate=rate)
    view = two(runs(tmp_path / "a", [10.0], rate=0.003), tmp_path / "b")
    assert ratios(view)[TIME].differences == ""
    assert "only in B: NCF on 1 device (PyTorch on laptop, learning rate 0.002)" in page(view)
    runs(tmp_path / "b", [10.0], job="m", rate=0.003, framework="mxnet")
    assert ratios(two(tmp_path / "a", tmp_path / "b"))[TIME].differences == ""
    reverse = two(tmp_path / "b", tmp_path / "a").data.to_frame()
    found = set(reverse.loc[reverse["quantity"].eq(TIME), "differences"])
    assert found == {"", "framework: mxnet | pytorch", "learning rate: 0.002 | 0.003"}


def test_settings_and_hyperparameters_that_differ_are_listed(tmp_path):
    changed = {"precision": "bf16", "nodes": 2, "devices": 2, "global_batch_size": 8192}
    changed |= {"framework_version": "2.12.0", "lr_scaling": "linear"}
    conditions = [{"busy": ["others took 48 % of its cores"], "others_share": 0.48}, {"busy": []}]
    folder = runs(tmp_path / "a", [12.0], devices=2, condition=conditions[0])
    view = two(folder, runs(tmp_path / "b", [12.0], rate=0.004, condition=conditions[1], **changed))
    # A busy machine makes the times unreliable, so this difference comes first.
    assert next(iter(differing(view))) == "machine"
    assert differing(view) == {
        "machine": ("busy machine: others took 48 % of its cores", "not busy"),
        "global batch": ("4,096", "8,192"),
        "learning-rate scaling": ("none", "linear"),
        "precision": ("fp32", "bf16"),
        "nodes": ("1", "2"),
        "version": ("2.11.0", "2.12.0"),
        "learning rate": ("0.003", "0.004"),
    }


@pytest.mark.parametrize(
    ("names", "sides"), [(("x", "y"), "A and of B"), (("v4.1", "y"), "B"), (("v4.1", "v5.0"), "")]
)
def test_an_unknown_round_is_reported_and_not_treated_as_equal(tmp_path, names, sides):
    for name in names:
        foreign(tmp_path / name / "box" / "resnet" / "result_0.txt", seconds=60 + len(name))
        (tmp_path / name / "box" / "system.json").write_text(
            '{"number_of_nodes": 1, "accelerators_per_node": 8}'
        )
    view = two(*(tmp_path / name for name in names))
    assert (f"The round of {sides} is unknown" in page(view)) == bool(sides)
    assert ("round" in differing(view)) == (not sides)
    assert len(speedups(results([tmp_path]))) == 0


def test_conditions_that_limit_a_ratio_are_stated(tmp_path):
    folder = runs(tmp_path / "a", [10.0])
    assert "The same runs are on both sides." in page(two(folder, folder))
    sides = (
        published_side(name, side, ["gnmt"])
        for name, side in (("v0.5/Google", "A"), ("v0.7/Google", "B"))
    )
    assert "TPUs are counted in cores in v0.5, and in chips" in page(compare(*sides, ()))
    foreign(tmp_path / "x" / "resnet" / "result_0.txt")
    side = logs_side([tmp_path / "x"], "A")
    assert (side.results, "number of devices" in side.left_out[0]) == ((), True)


def test_time_per_epoch_and_its_p_value_leave_out_setup(tmp_path):
    """Compare two sides with the same times to target. B has shorter epochs and more setup."""
    for name, seconds, setup in (("a", 2.3, 1.0), ("b", 2.0, 1.9)):
        for index in range(5):
            extra = {"start": 100_000 * index, "setup_seconds": setup - 0.03 * index}
            write_run(
                tmp_path / name, "job", index, seconds_per_epoch=seconds + 0.01 * index, **extra
            )
    found = ratios(two(tmp_path / "a", tmp_path / "b"))
    assert (found[TIME].ratio, found[TIME].p) == (pytest.approx(1.0), pytest.approx(1.0))
    per_epoch = found[EPOCH_TIME]
    assert (per_epoch.ours_value, per_epoch.theirs_value) == (
        pytest.approx(2.32),
        pytest.approx(2.02),
    )
    assert per_epoch.p == pytest.approx(2 / 252)
    assert per_epoch.ratio == pytest.approx(2.02 / 2.32)
    assert per_epoch.ratio_low < per_epoch.ratio < per_epoch.ratio_high < 1


def test_time_per_epoch_includes_setup_if_a_side_does_not_separate_it(tmp_path):
    runs(tmp_path, [30.0] * 3, setup_seconds=6.0, **REFERENCE)
    view = against(tmp_path, "v0.5/NVIDIA/dgx1")
    assert ratios(view)[EPOCH_TIME].ours_value == pytest.approx(36.0 / 3)
    assert page(view).count("do not separate setup") == 1


@pytest.mark.parametrize(
    ("setups", "shown"),
    [
        (
            (5.0, 1.0),
            "Setup took 5.0 s in A and 1.0 s in B, which explains 67 % of the difference.",
        ),
        (
            (1.0, 4.0),
            "Setup took 1.0 s in A and 4.0 s in B. Without setup A took 9.0 s and B 7.0 s.",
        ),
        ((1.0, 1.2), ""),
    ],
)
def test_setup_is_next_to_the_time_to_target_if_it_explains_much(tmp_path, setups, shown):
    runs(tmp_path / "a", [9.0], setup_seconds=setups[0])
    runs(tmp_path / "b", [7.0], setup_seconds=setups[1])
    view = two(tmp_path / "a", tmp_path / "b")
    verdict = dict(view.sections[0].facts)["Time to target"]
    assert verdict.endswith(shown) if shown else "Setup" not in verdict
    table = {row["quantity"]: row for row in view.sections[0].table}
    assert (table["setup"]["A"], table["setup"]["B"]) == tuple(f"{setup:.1f} s" for setup in setups)


def test_the_same_folder_on_both_sides_matches_each_result_with_itself(tmp_path):
    """Match results with equal keys on both sides."""
    for rate, seconds in ((0.002, 10.0), (0.003, 12.0)):
        runs(tmp_path, [seconds], job=f"{rate}", rate=rate)
    view = two(tmp_path, tmp_path)
    times = [row for row in view.data if row["kind"] == "ratio" and row["quantity"] == TIME]
    assert [(row["ours_value"], row["ratio"]) for row in times] == [(10.0, 1.0), (12.0, 1.0)]
    assert "only in B" not in page(view)


def test_names_of_results_do_not_repeat_the_framework(tmp_path):
    for framework in ("pytorch", "mxnet"):
        runs(tmp_path, [10.0], job=framework, framework=framework)
    side = logs_side([tmp_path], "A")
    assert {side.name_of(result) for result in side.results} == {
        "PyTorch on laptop",
        "MXNet on laptop",
    }


def test_demos_are_compared_without_a_section_on_published_runs(tmp_path):
    view = two(runs(tmp_path / "a", [10.0]), runs(tmp_path / "b", [10.0]))
    assert not [section for section in view.sections if section.title.startswith("Convergence")]
    assert sum(row["kind"] == "convergence" for row in view.data) == 2


def test_only_throughput_is_compared_for_runs_of_fixed_length(tmp_path):
    fixed = {"stop": "epochs:3", "qualities": (None, None, None), "status": "aborted"}
    folder = runs(tmp_path / "a", [12.0] * 3, samples=200, **fixed)
    view = two(folder, runs(tmp_path / "b", [12.0] * 3, samples=100, **fixed))
    assert {name: found.ratio for name, found in ratios(view).items()} == {"throughput": 2.0}
    assert set(verdicts(view)) == {
        "A and B have a fixed length and no target, so only throughput can be compared"
    }


values = st.lists(st.integers(-1000, 1000).map(lambda value: value / 10), min_size=2, max_size=5)


@given(values, values)
@examples(40)
def test_permutation_test_counts_all_permutations(ours, theirs):
    pooled = [round(10 * value) for value in (*ours, *theirs)]
    dealt = [sum(chosen) for chosen in combinations(pooled, len(ours))]
    seen = sum(pooled[: len(ours)])
    tails = sum(total <= seen for total in dealt), sum(total >= seen for total in dealt)
    p, smallest = permutation_test(ours, theirs)
    assert p == pytest.approx(min(1.0, 2 * min(tails) / len(dealt)))
    assert smallest == pytest.approx(min(1.0, 2 / len(dealt)))


def test_permutation_test_is_deterministic_and_returns_none_for_invalid_values():
    ours, theirs = (
        [10.0 + 0.1 * index for index in range(11)],
        [10.5 + 0.1 * index for index in range(12)],
    )
    assert permutation_test(ours, theirs) == permutation_test(ours, theirs)
    assert permutation_test(ours, theirs)[0] == pytest.approx(0.0016, abs=6e-4)
    assert permutation_test([1.0, float("inf")], [1.0, 2.0]) is None
    assert permutation_test([1.0, None], [1.0, 2.0]) is None
    assert permutation_test([], [1.0]) is None


def test_the_page_agrees_with_the_stored_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Relative paths have a fixed length, so lines wrap as stored.
    first, second = runs(Path("a"), [12.0, 12.1, 12.2, 12.3, 12.4]), Path("b")
    for rate in (0.002, 0.004):
        runs(second, [10.5, 10.6, 10.7, 10.8, 10.9], job=f"{rate}", rate=rate)
    assert (
        markdown(two(first, second))
        == (PROJECT / "tests" / "data" / "pages" / "compare.md").read_text()
    )


def test_two_folders_are_compared(tmp_path):
    first, second = runs(tmp_path / "a", [12.0]), runs(tmp_path / "b", [6.0])
    shutil.copytree(second / "job", second / "copy")  # Copies do not count.
    done = suite(first, second)
    assert "1 of 2 runs are copies of other logs" in done.stdout
    assert "One run per side is too few to judge" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "## NCF on 1 device (demo): A (PyTorch on laptop) and B (PyTorch on laptop)" in done.stdout
    )
    assert done.stdout == suite(first, "--to-logs", second).stdout
    assert suite(first, "v0.5/NVIDIA/dgx1").returncode == 1  # A demo is not comparable.
    assert suite(first).returncode == 1  # The convergence of a demo cannot be judged.


def submission(root, round_name, benchmark, factor=None):
    """Write five runs of an entry on eight devices with a scaling factor, and return the folder."""
    folder = root / round_name / "Lab" / "results" / "box" / benchmark
    for index in range(5):
        foreign(
            folder / f"result_{index}.txt", "x", 60 + index, benchmark, seed=f"{round_name}{index}"
        )
    description = {
        "number_of_nodes": 1,
        "accelerators_per_node": 8,
        "accelerator_model_name": "GPU",
    }
    write(root / round_name / "Lab" / "systems" / "box.json", [json.dumps(description)])
    if factor is not None:
        write(folder / "scaling.json", [json.dumps({"scaling_factor": factor})])
    return folder


def test_a_benchmark_that_changed_its_name_is_compared(tmp_path):
    """R-GAT has the name gnn until v4.1 and rgat since v5.0."""
    view = two(submission(tmp_path, "v4.1", "gnn"), submission(tmp_path, "v5.0", "rgat"))
    assert comparable(view)
    assert ratios(view)[TIME].ratio == pytest.approx(1.0)


@pytest.mark.parametrize("factors", [(1.1, None), (None, 1.1), (1.1, 1.2), (1.1, 1.1)])
def test_the_factors_of_both_sides_multiply_their_times(tmp_path, factors):
    folders = [
        submission(tmp_path, name, "resnet", factor)
        for name, factor in zip(("v4.0", "v4.1"), factors, strict=True)
    ]
    view = two(*folders)
    first, second = (factor or 1.0 for factor in factors)
    found = ratios(view)
    time = found[TIME]
    assert time.ratio == pytest.approx(second / first)
    assert found[EPOCH_TIME].ratio == found[EPOCHS].ratio == pytest.approx(1.0)
    assert (time.ours_value, time.theirs_value) == pytest.approx((62 * first, 62 * second))
    assert time.ratio_low <= time.ratio <= time.ratio_high
    assert (time.p == 1.0) == (first == second)
    assert ("are multiplied by 1.1" in page(view)) == (1.1 in factors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("x", "y"),
            (
                "x and y do not exist, and no published results have these names. Give folders that"
                " contain logs"
            ),
        ),
        (
            ("a", "y"),
            (
                "y does not exist, and no published results have that name. Give folders that"
                " contain logs"
            ),
        ),
        (("x", "b"), "x does not exist, and no published results have that name"),
        (("x",), "x does not exist, and no published results have that name"),
        (("a", "--to-logs", "x"), "x does not exist, and no published results have that name"),
        (("a", "v0.5/NVIDIA/dgx"), "did you mean"),
        (("a", "--published"), "--published: give the name of published results, such as v0.7"),
        (("a", "--to"), "--to: give the name of published results, such as v0.7"),
        (("a", "--to", "nothing"), "--to nothing: no such published result. Nearest: "),
        (
            ("a", "--published", "nothing"),
            "--published nothing: no such published result. Nearest: ",
        ),
        (
            ("a", "--to", "b"),
            "--to b: expected the name of published results, but b is a path. Run: ",
        ),
        (("a", "empty"), "empty holds no log"),
        (("a", "notes.txt"), "notes.txt is not a log: not a log: no line holds"),
        (("notes.txt", "a"), "notes.txt is not a log: not a log: no line holds"),
        (("notes.txt",), "notes.txt is not a log: not a log: no line holds"),
        (("a", "a"), "both sides are the same results: give two different sets of runs"),
        (("a", "./a"), "both sides are the same results"),
        (("a", "link"), "both sides are the same results"),
        (("a", "--to-logs", "a"), "both sides are the same results"),
        (("v0.5/NVIDIA", "v0.5/nvidia"), "both sides are the same results"),
        (("a", "b", "c"), "expected one or two. Run: "),
        (("v0.5/NVIDIA",), "v0.5/NVIDIA is the name of published results, not a folder. Run: "),
    ],
)
def test_missing_invalid_or_equal_sides_are_rejected_in_one_line(
    tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "c"):
        runs(tmp_path / name, [12.0])
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("Nothing of a log.\n")
    (tmp_path / "link").symlink_to("a")
    line = refusal(suite_here(tmp_path, "compare", *arguments))
    assert message in line
    assert "--to" not in line or "--to" in arguments or "Run: " in line, (
        "the message names only options of the command line"
    )


def test_published_is_an_alias_of_to_and_both_orders_of_sides_are_accepted(tmp_path):
    runs(tmp_path / "a", [12.0], **REFERENCE)
    by_option = [
        suite(tmp_path / "a", option, "v0.5/NVIDIA/dgx1") for option in ("--to", "--published")
    ]
    by_place = [
        suite(tmp_path / "a", "v0.5/NVIDIA/dgx1"),
        suite("v0.5/NVIDIA/dgx1", tmp_path / "a"),
    ]
    assert {done.stdout for done in by_option} == {done.stdout for done in by_place}


@pytest.mark.parametrize(
    "command", [("advise",), ("scaling", "--devices", "8"), ("tables",), ("report",)]
)
def test_every_command_names_a_file_that_is_not_a_log(tmp_path, command):
    (tmp_path / "notes.txt").write_text("Nothing of a log.\n")
    line = refusal(suite_here(tmp_path, command[0], "notes.txt", *command[1:]))
    assert "notes.txt is not a log: not a log: no line holds" in line
