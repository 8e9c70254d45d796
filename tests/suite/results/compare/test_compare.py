"""Comparison: matching, differences, refusals, ratios, words, formats and the command, on small logs and on published ones."""

import csv
import io
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.compare.compare import compare
from suite.results.compare.differences import differences
from suite.results.compare.entries import published_result_set, result_set_from_logs
from suite.results.compare.export import CSV_COLUMNS, comparison_csv, comparison_json
from suite.results.compare.markdown import comparison_markdown
from suite.results.compare.ratios import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME, Ratio, ratio_summary
from suite.results.published.csv_files import load_published_results
from suite.results.score.bootstrap import Interval
from suite.results.score.permutation_test import permutation_test
from tests import helpers
from tests.helpers import PROJECT, examples, suite_here
from tests.suite.results.fake_logs import demo_log, line, write, write_run

REPOSITORY = Path(__file__).resolve().parents[4]
LOGS = REPOSITORY.parent / "shared" / "published" / "logs"
needs_logs = pytest.mark.skipif(not LOGS.is_dir(), reason=f"no published logs at {LOGS}")

REFERENCE = {
    "profile": "reference",
    "labels": [],
    "dataset": "ml-20m",
    "device": "cuda",
    "device_name": "NVIDIA V100",
    "batch_size_global": 1_048_576,
    "devices": 8,
}
"""Settings of a run of ours that may stand beside v0.5/NVIDIA/dgx1."""


def runs(root, lengths, job="job", epochs=3, **options):
    """One run for each time to target (s), with `epochs` epochs."""
    qualities = [0.1] * (epochs - 1) + [0.65]
    for index, seconds in enumerate(lengths):
        start = 1000 * index
        write_run(
            root,
            job,
            index,
            **{"qualities": qualities, "seconds_per_epoch": seconds / epochs, "start": start, **options},
        )
    return root


def against(root, name, **options):
    return compare(
        result_set_from_logs([root], "ours", **options), published_result_set(name), load_published_results()
    )


def two_sets(one, other):
    return compare(result_set_from_logs([one], "A"), result_set_from_logs([other], "B"), load_published_results())


def known(match):
    return {item.name: (item.ours, item.theirs) for item in match.differences.known}


def suite(*arguments, start=suite_here):
    return start(PROJECT, "compare", *arguments)


# --- published figures --------------------------------------------------------------------------------------------------


@needs_logs
@pytest.mark.parametrize(("folder", "workloads"), [("dgx1_ngc18.11_mxnet", 1), ("dgx1_ngc18.11_pytorch", 4)])
def test_published_logs_against_their_own_figures(folder, workloads):
    found = against(LOGS / "v0.5" / folder, "v0.5/NVIDIA/dgx1")
    assert len(found.matches) == workloads
    assert not found.refusals
    for match in found.matches:
        if match.ours.measurement.workload in ("resnet50", "ssd"):  # all five runs are there
            assert match.ratio(TIME).ratio == pytest.approx(1.0, abs=1e-8)
            assert match.ratio(EPOCHS).ratio == 1.0
            assert match.ratio(TIME).variation.p == 1.0
            assert not match.differences.known
        assert "the same runs are on both sides" in match.caveats


@needs_logs
def test_other_target_is_refused_for_time_but_not_for_time_per_epoch():
    (match,) = against(LOGS / "v0.5" / "dgx1_ngc18.11_mxnet", "v0.6/NVIDIA/dgx1").matches
    assert next(iter(known(match).items())) == ("target", ("0.749", "0.759"))  # what differs most comes first
    assert known(match)["clock rule"] == ("v0.5 (set-up is timed)", "v0.6 and later (set-up is not timed)")
    reason = "trained to another target: 0.749 against 0.759"
    assert {item.what: item.reason for item in match.refused} == dict.fromkeys((TIME, EPOCHS), reason)
    ratio = match.ratio(EPOCH_TIME)
    theirs = next(
        one for one in published_result_set("v0.6/NVIDIA/dgx1").entries if one.measurement.workload == "resnet50"
    )
    score = theirs.measurement.score
    assert ratio.ratio == pytest.approx(score.seconds / score.epochs / (8073.52413 / 63), rel=1e-6)
    assert ratio.label.startswith("to different targets")


@needs_logs
def test_bleu_in_fractions_and_in_points_is_one_target():
    found = against(LOGS / "v0.7" / "dgxa100_ngc20.06_pytorch", "v0.7/NVIDIA/dgxa100_ngc20.06_pytorch")
    assert {match.ours.measurement.workload for match in found.matches} == {"gnmt", "ssd", "maskrcnn", "transformer"}
    assert all(match.ratio(TIME) is not None for match in found.matches)
    assert not any("target" in known(match) for match in found.matches)


@needs_logs
def test_the_article_has_single_figures_and_the_round_s_targets():
    found = against(LOGS / "v0.5" / "dgx1_ngc18.11_pytorch", "dgx1-article", workloads=["gnmt"])
    (match,) = found.matches
    assert match.ratio(TIME).theirs == pytest.approx(60 * 6.4 * 3, rel=0.01)
    assert "target" not in known(match)
    assert not any("is not known" in text for text in match.caveats)
    assert match.ratio(TIME).variation is None  # one figure, no single runs


@pytest.mark.parametrize(
    ("workload", "percent"), [("resnet50", 3.0), ("ssd", 2.6), ("gnmt", 5.1), ("transformer", -6.4), ("ncf", 33.5)]
)
def test_the_article_against_the_round_s_entry_of_the_same_machine(workload, percent):
    sets = (published_result_set(name, [workload]) for name in ("dgx1-article", "v0.5/NVIDIA/dgx1"))
    (match,) = compare(*sets, load_published_results()).matches
    assert match.ours.measurement.devices == 8
    assert 100 * (match.ratio(TIME).ours / match.ratio(TIME).theirs - 1) == pytest.approx(percent, abs=0.06)
    assert "target" not in known(match)


def test_published_results_can_stand_on_the_left(tmp_path):
    done = suite("dgx1-article", "--to", "v0.5/NVIDIA/dgx1", "--workload", "resnet50")
    assert (done.returncode, done.stderr) == (0, "")
    assert "## resnet50 on 8 devices: dgx1-article" in done.stdout
    assert "138.61 min" in done.stdout
    for arguments in (("dgx1-article",), ("dgx1-artikle", "--to", "v0.5"), ("dgx1-article", "--to-logs", tmp_path)):
        wrong = suite(*arguments)
        assert wrong.returncode == 2
        assert wrong.stderr.count("\n") == 1


# --- ours against published ---------------------------------------------------------------------------------------------


def test_total_is_exactly_the_product(tmp_path):
    runs(tmp_path, [30.0, 31.0, 29.5, 36.0, 30.5], epochs=7, **REFERENCE)
    (match,) = against(tmp_path, "v0.5/NVIDIA/dgx1").matches
    time, epoch_time, epochs = (match.ratio(name) for name in (TIME, EPOCH_TIME, EPOCHS))
    assert time.ratio == epoch_time.ratio * epochs.ratio
    assert time.ours == pytest.approx((30.0 + 31.0 + 30.5) / 3)
    assert time.theirs == pytest.approx(0.471907 * 60, rel=1e-5)
    assert time.ratio == pytest.approx(time.theirs / time.ours)
    assert epochs.ratio == pytest.approx(16.4375 / 7)  # of the 48 runs that the 28.3 s are the mean of
    assert known(match)["hardware"] == ("NVIDIA V100", "Tesla V100-SXM2-16GB")
    assert known(match)["runs"][0] == "5 of 100"
    assert "ours: fewer runs than the rules ask (5 of 100)" in match.caveats
    assert "target" not in known(match)
    assert "clock rule" not in known(match)


def test_clock_rule_is_a_difference_and_no_refusal(tmp_path):
    runs(tmp_path, [30.0], **{**REFERENCE, "clock": "v0.7", "rules": "v0.7"})
    (match,) = against(tmp_path, "v0.5/NVIDIA/dgx1").matches
    assert known(match)["clock rule"] == ("v0.6 and later (set-up is not timed)", "v0.5 (set-up is timed)")
    assert match.ratio(TIME) is not None


def test_demo_is_refused_with_the_reason(tmp_path):
    runs(tmp_path, [30.0], devices=8)
    found = against(tmp_path, "v0.5/NVIDIA/dgx1")
    assert not found.comparable
    (refusal,) = found.refusals
    assert "demo target has no relation to MLPerf" in refusal.reason
    assert "ncf on 8 devices" in refusal.what


def test_device_counts_that_there_are_are_named(tmp_path):
    runs(tmp_path, [30.0], **{**REFERENCE, "devices": 2})
    (refusal,) = against(tmp_path, "v0.5/NVIDIA/dgx1").refusals
    assert refusal.reason == "v0.5/NVIDIA/dgx1 has no result on 2 devices; there are: 8"


def test_workloads_that_there_are_are_named(tmp_path):
    runs(tmp_path, [30.0], **REFERENCE)
    (refusal,) = against(tmp_path, "v0.6/NVIDIA/dgx1").refusals
    there = "gnmt, maskrcnn, minigo, resnet50, ssd, transformer"
    assert refusal.reason == f"v0.6/NVIDIA/dgx1 has no result of ncf; there are: {there}"


def test_run_of_fixed_length_has_no_time_to_target(tmp_path):
    runs(tmp_path, [30.0], **REFERENCE, stop="epochs:3")
    found = against(tmp_path, "v0.5/NVIDIA/dgx1")
    assert not found.matches
    assert "fixed length (throughput only)" in found.refusals[0].reason


def test_another_data_set_is_refused(tmp_path):
    runs(tmp_path, [30.0], **{**REFERENCE, "dataset": "ml-1m", "deviations": ["data set ml-1m"]})
    found = against(tmp_path, "v0.5/NVIDIA/dgx1")
    assert not found.matches
    assert "another data set than the rules': ml-1m" in found.refusals[0].reason


# --- two sets of ours ---------------------------------------------------------------------------------------------------


def test_difference_larger_than_run_to_run_variation(tmp_path):
    runs(tmp_path / "a", [12.0, 12.1, 12.2, 12.3, 12.4])
    runs(tmp_path / "b", [11.5, 11.6, 11.7, 11.8, 11.9])
    (match,) = two_sets(tmp_path / "a", tmp_path / "b").matches
    time = match.ratio(TIME)
    assert time.variation.p == pytest.approx(2 / 252)
    assert time.variation.exact
    assert time.ratio == pytest.approx(11.7 / 12.2, rel=1e-3)
    words = ratio_summary(time, "A", "B")
    assert words.startswith("B is 4.3 % (95 %: ")
    assert words.endswith("faster to the target, more than run-to-run variation (p = 0.0079, 5 against 5 runs)")
    assert time.interval.low < time.ratio < time.interval.high < 1
    assert match.ratio(EPOCHS).variation.p == 1.0
    assert not match.differences.known


def test_nodes_stand_in_the_heading_and_among_the_differences(tmp_path):
    """Of two candidates the one on as many nodes is compared with."""
    runs(tmp_path / "a", [10.0], devices=2, nodes=2)
    for nodes in (1, 2):
        runs(tmp_path / "b", [9.0], job=f"{nodes}-nodes", devices=2, nodes=nodes)
    (match,) = two_sets(tmp_path / "a", tmp_path / "b").matches
    assert "nodes" not in known(match)
    assert "on 2 × 1 devices" in comparison_markdown(two_sets(tmp_path / "a", tmp_path / "b"))
    (match,) = two_sets(tmp_path / "a", tmp_path / "b" / "1-nodes").matches
    assert known(match)["nodes"] == ("2", "1")


def test_few_runs_can_show_nothing(tmp_path):
    runs(tmp_path / "a", [12.0, 12.1, 12.2])
    runs(tmp_path / "b", [6.0, 6.1, 6.2])
    found = two_sets(tmp_path / "a", tmp_path / "b")
    text = "no difference that 3 against 3 runs can show (smallest p these numbers allow: 0.1)"
    assert found.matches[0].ratio(TIME).variation.summary == text
    page = " ".join(comparison_markdown(found).split())
    assert page.count(text) == 1
    assert (
        "Verdict: no difference shown (measured 1.98 times as fast to the target, B against A, interval 1.94 to" in page
    )
    assert_no_claim(page)


def assert_no_claim(page):
    for claim in ("faster", "slower", " is 1.9", "needs ", "trains ", "fewer epochs ×", "equally"):
        assert claim not in page.split("## Convergence")[0].split("more samples/s.")[1]


@pytest.mark.parametrize(("others", "counts"), [([8.0], "one run each"), ([8.0] * 48, "1 against 48 runs")])
def test_one_run_shows_nothing(tmp_path, others, counts):
    runs(tmp_path / "a", [10.0])
    runs(tmp_path / "b", others)
    page = " ".join(comparison_markdown(two_sets(tmp_path / "a", tmp_path / "b")).split())
    said = f"Verdict: {counts}: measured 1.25 times as fast to the target, B against A, which one run cannot show."
    assert said in page
    assert_no_claim(page)


def test_difference_inside_the_variation_is_not_claimed(tmp_path):
    runs(tmp_path / "a", [12.0, 12.9, 11.4, 12.3, 12.4])
    runs(tmp_path / "b", [11.9, 12.6, 11.5, 12.2, 12.1])
    found = two_sets(tmp_path / "a", tmp_path / "b")
    page = comparison_markdown(found)
    assert "Verdict: no difference shown (measured 1.0" in page
    assert_no_claim(page)
    assert found.matches[0].ratio(TIME).variation.can_be_significant


def test_verdict_stands_before_what_differs(tmp_path):
    runs(tmp_path / "a", [12.0, 12.1, 12.2, 12.3, 12.4])
    runs(tmp_path / "b", [11.5, 11.6, 11.7, 11.8, 11.9])
    page = comparison_markdown(two_sets(tmp_path / "a", tmp_path / "b"))
    assert page.index("Verdict: B is 4.3 % (95 %: ") < page.index("What differs")
    assert "- epochs to target: no difference shown (measured" in page


def test_significant_test_whose_interval_includes_1_claims_nothing():
    test = permutation_test([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4])
    ratio = Ratio(TIME, "s", 1.2, 2.2, 1.8, Interval(0.9, 2.4), test)
    assert ratio_summary(ratio, "A", "B").startswith("no difference shown (measured 1.80 times as fast")
    assert ratio_summary(replace(ratio, interval=None), "A", "B").startswith("A is 80.0 % faster to the target")
    assert ratio_summary(replace(ratio, variation=None), "A", "B").startswith("no difference shown, as single runs")


def test_same_framework_is_matched_and_the_rest_is_named(tmp_path):
    runs(tmp_path / "a", [12.0], framework="pytorch")
    runs(tmp_path / "b", [13.0], job="p", framework="pytorch")
    runs(tmp_path / "b", [12.0], job="m", framework="mxnet")
    found = two_sets(tmp_path / "a", tmp_path / "b")
    assert [match.theirs.measurement.framework for match in found.matches] == ["pytorch"]
    assert found.unmatched == ("ncf on 1 device (mxnet on laptop)",)
    reverse = two_sets(tmp_path / "b", tmp_path / "a")
    assert sorted(known(match).get("framework", ("", ""))[0] for match in reverse.matches) == ["", "mxnet 2.11.0"]


def test_settings_and_hyperparameters_that_differ_are_listed(tmp_path):
    runs(tmp_path / "a", [12.0])
    changed = {"precision": "bf16", "batch_size_global": 8192, "framework_version": "2.12.0", "system": "server"}
    changed |= {"data_fingerprint": "f" * 64, "lr_scaling": "linear", "cores_per_device": 2}
    runs(tmp_path / "b", [12.0], keys={"opt_base_learning_rate": 0.004}, **changed)
    (match,) = two_sets(tmp_path / "a", tmp_path / "b").matches
    assert known(match) == {
        "data fingerprint": ("abcdef012345", "f" * 12),
        "learning-rate scaling": ("none", "linear"),
        "cores per device": ("1", "2"),
        "global batch": ("4,096 user-item pairs", "8,192 user-item pairs"),
        "precision": ("fp32", "bf16"),
        "framework": ("pytorch 2.11.0", "pytorch 2.12.0"),
        "opt_base_learning_rate": ("0.003", "0.004"),
    }
    assert differences(match.ours, match.ours).known == ()


def test_throughput_of_two_fixed_length_sets(tmp_path):
    fixed = {"stop": "epochs:3", "qualities": (None, None, None), "status": "aborted"}
    runs(tmp_path / "a", [12.0] * 3, samples=200, **fixed)
    runs(tmp_path / "b", [12.0] * 3, samples=100, **fixed)
    (match,) = two_sets(tmp_path / "a", tmp_path / "b").matches
    assert [(item.quantity, item.ratio) for item in match.ratios] == [(THROUGHPUT, 2.0)]
    assert {item.what for item in match.refused} == {TIME, EPOCH_TIME, EPOCHS}


# --- logs of other programs ---------------------------------------------------------------------------------------------


def foreign(path):
    lines = [text for text in demo_log() if '"suite_run"' not in text]
    return write(path, [line(-6, "submission_benchmark", "ncf"), *lines])


@pytest.mark.parametrize(
    ("place", "description"),
    [
        ("sys/system.json", {"number_of_nodes": "2", "accelerators_per_node": "4", "accelerator_model_name": "V100"}),
        ("sys/entry.json", {"nodes": [{"num_nodes": 2, "num_accelerators": 4, "accelerator": "V100"}]}),
    ],
)
def test_system_description_gives_the_devices(tmp_path, place, description):
    foreign(tmp_path / "sys" / "ncf" / "result_0.txt")
    before = result_set_from_logs([tmp_path], "ours")
    assert not before.entries
    assert "do not say on how many devices" in before.left_out[0]
    (tmp_path / place).write_text(json.dumps({"framework": "PyTorch NGC", **description}))
    (entry,) = result_set_from_logs([tmp_path], "ours").entries
    assert (entry.measurement.devices, entry.measurement.hardware) == (8, "V100")
    assert entry.measurement.framework == "pytorch"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"number_of_nodes": 1e99, "accelerators_per_node": -1}', "[" * 9000])
def test_bad_system_descriptions_say_nothing(tmp_path, text):
    foreign(tmp_path / "sys" / "ncf" / "result_0.txt")
    (tmp_path / "sys" / "system.json").write_text(text)
    assert not result_set_from_logs([tmp_path], "ours").entries


# --- the permutation test -----------------------------------------------------------------------------------------------

values = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=5)


@given(values, values)
@examples(60)
def test_permutation_test_counts_all_deals(ours, theirs):
    pooled = [*ours, *theirs]

    def difference(chosen):
        rest = [pooled[index] for index in range(len(pooled)) if index not in chosen]
        return sum(pooled[index] for index in chosen) / len(chosen) - sum(rest) / len(rest)

    seen = difference(range(len(ours)))
    dealt = [difference(chosen) for chosen in combinations(range(len(pooled)), len(ours))]
    below = sum(one <= seen + 1e-9 for one in dealt)
    above = sum(one >= seen - 1e-9 for one in dealt)
    result = permutation_test(ours, theirs)
    assert result.p == pytest.approx(min(1.0, 2 * min(below, above) / len(dealt)))
    assert result.p >= result.smallest_p - 1e-12


def test_permutation_test_agrees_with_scipy():
    from scipy import stats

    one = [10.1, 10.5, 9.8, 10.9, 11.2, 10.4, 10.0, 10.8, 11.0, 10.6, 10.3]
    other = [10.9, 11.3, 10.7, 11.1, 11.8, 10.2, 11.5, 11.4, 10.75, 11.6, 11.9, 10.95]

    def p(ours, theirs):
        def statistic(x, y, axis):
            return x.mean(axis=axis) - y.mean(axis=axis)

        return stats.permutation_test(
            (ours, theirs), statistic, vectorized=True, n_resamples=100_000, batch=5000
        ).pvalue

    exact = permutation_test(one[:5], other[:6])
    assert exact.exact
    assert exact.p == pytest.approx(p(one[:5], other[:6]), rel=1e-12)
    drawn = permutation_test(one, other)
    assert not drawn.exact
    assert drawn.p == pytest.approx(p(one, other), abs=0.003)
    assert drawn == permutation_test(one, other)  # the seed is fixed


def test_permutation_test_of_what_is_no_number():
    assert permutation_test([1.0, float("inf")], [1.0]) is None
    assert permutation_test([], [1.0]) is None


# --- formats and command ------------------------------------------------------------------------------------------------


def test_csv_and_json_hold_the_same_ratios(tmp_path):
    runs(tmp_path / "a", [12.0, 12.1, 12.2])
    runs(tmp_path / "b", [6.0, 6.1, 6.2], devices=1)
    found = two_sets(tmp_path / "a", tmp_path / "b")
    table = list(csv.DictReader(io.StringIO(comparison_csv(found))))
    assert tuple(table[0]) == CSV_COLUMNS
    whole = json.loads(comparison_json(found))
    ratios = {row["quantity"]: float(row["ratio"]) for row in table if row["kind"] == "ratio"}
    assert ratios == {item["quantity"]: item["ratio"] for item in whole["matches"][0]["ratios"]}
    assert ratios[TIME] == pytest.approx(6.1 / 12.1)
    assert whole["convergence"][0]["verdict"] == "not judged"


def test_text_of_logs_is_escaped(tmp_path):
    runs(tmp_path / "a", [12.0], system="<script>|x\x1b[2J", framework_version="=1+1")
    runs(tmp_path / "b", [12.0], system="y")
    found = two_sets(tmp_path / "a", tmp_path / "b")
    text = comparison_markdown(found)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\x1b" not in comparison_csv(found)


def test_command_writes_once_and_never_over_a_file(tmp_path):
    runs(tmp_path / "a", [12.0])
    runs(tmp_path / "b", [6.0])
    output = tmp_path / "out.md"
    first = suite(tmp_path / "a", "--to", tmp_path / "b", "--output", output)  # no published result: a path
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    assert "## ncf on 1 device (demo): A (pytorch on laptop) against B (pytorch on laptop)" in output.read_text()
    before = output.read_bytes()
    again = suite(tmp_path / "a", "--to-logs", tmp_path / "b", "--output", output, start=helpers.suite)
    assert again.returncode == 2
    assert "exists and is not overwritten" in again.stderr
    assert output.read_bytes() == before


def test_command_says_what_is_wrong_in_one_line(tmp_path):
    runs(tmp_path / "demo", [12.0])
    runs(tmp_path / "reference", [12.0], **REFERENCE)
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "failed", "job", qualities=(0.1, 0.2))
    cases = {
        (tmp_path / "empty",): "holds no log",
        (tmp_path / "none",): "does not exist",
        (tmp_path / "demo", tmp_path / "reference"): "runs of several profiles (demo, reference)",
        (tmp_path / "demo", "--to", "v0.5/NVIDA/dgx1"): "nearest: v0.5/NVIDIA/dgx1",
        (tmp_path / "demo", "--workload", "ssd"): "no run of workload ssd; there are: ncf",
        (tmp_path / "demo", "--profile", "refrence"): "no run of profile refrence; there are: demo",
        (tmp_path / "failed",): "none of 1 runs succeeded",
        (tmp_path / "demo", "--to-logs", tmp_path / "empty"): "holds no log",
    }
    for arguments, words in cases.items():
        result = suite(*arguments)
        assert result.returncode == 2, arguments
        assert words in result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""


def test_a_run_that_has_not_ended_is_counted_apart(tmp_path):
    runs(tmp_path, [12.0])
    write_run(tmp_path, "later", log=False, status={"status": "running"})
    assert result_set_from_logs([tmp_path], "ours").left_out == ("1 of 2 has not ended (suite report lists them)",)


def test_nothing_comparable_is_exit_1_with_the_reasons(tmp_path):
    runs(tmp_path, [12.0], devices=8)
    result = suite(tmp_path, "--to", "v0.5/NVIDIA/dgx1")
    assert result.returncode == 1
    assert "demo target has no relation to MLPerf" in result.stdout
    assert suite(tmp_path).returncode == 1  # convergence alone: nothing could be judged


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("v0.5/Intel/skx_8180_2s_8x", "v0.5/Intel/skx_8180_2s_1x"),
        ("v0.5/NVIDIA/dgx1_ngc18.11_mxnet", "v0.5/Intel/skx_8180_2s_1x"),
    ],
)
def test_cpu_systems_of_unknown_size_are_not_compared(ours, theirs):
    found = compare(published_result_set(ours), published_result_set(theirs), load_published_results())
    assert not found.matches
    assert "the number of devices of a CPU system is not known" in found.refusals[0].reason
    assert "×" not in found.refusals[0].what, "nodes × nothing"


def test_several_nodes_against_one_differ():
    found = compare(
        published_result_set("v0.7/DellEMC/2xC4140", ["resnet50"]),
        published_result_set("v0.7/NVIDIA/dgx1_ngc20.06_mxnet", ["resnet50"]),
        load_published_results(),
    )
    assert {(item.name, item.ours, item.theirs) for item in found.matches[0].differences.known} >= {("nodes", "2", "1")}
    assert "resnet50 on 2 × 4 devices" in comparison_markdown(found)
