"""Convergence compared with published runs: limits of rcp_checker and choice of the reference."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.columns import Run
from suite.results.scores import published_results
from suite.results.views import convergence as rcp
from suite.results.views.convergence import ConvergenceVerdict
from tests.helpers import examples

TOLERANCE = 1e-4
"""Tolerance in epochs of the bisection with which rcp_checker determines its limit."""


def checker(ruleset, benchmark):
    # The module imports scipy.stats, which the test workers should not do during collection.
    from mlperf_logging.rcp_checker import rcp_checker

    return rcp_checker.RCP_Checker("training", ruleset, benchmark, verbose=False)


def records(ruleset, benchmark):
    package = Path(importlib.util.find_spec("mlperf_logging").origin).parent
    path = package / "rcp_checker" / f"training_{ruleset}" / f"rcps_{benchmark}.json"
    return [
        (record["BS"], record["Epochs to converge"])
        for record in json.loads(path.read_text()).values()
    ]


def result(name, workload):
    return next(row for row in published_results() if row.run == name and row.workload == workload)


def ours(workload, epochs, batch, name="v0.7/NVIDIA/dgx1_ngc20.06_mxnet", **changes):
    """Return a published result with the profile, epochs to target, and batch of a run of ours.

    It has no failed runs.
    """
    runs = tuple(
        Run(seconds=100.0 + n, epochs=float(of_run), start_ms=1e12 + 1e6 * n)
        for n, of_run in enumerate(epochs)
    )
    settings = {"profile": "reference", "global_batch_size": batch, "runs": runs, "runs_failed": 0}
    return replace(result(name, workload), **{**settings, **changes})


def judged(row):
    (found,) = rcp.judge_convergence([row], published_results())
    return found


def parts(found, place):
    """Return the rounds (`place` 0) or submitters (`place` 1) of the sources of a reference."""
    return {source.split("/")[place] for source in found.reference.sources}


@pytest.mark.parametrize("benchmark", ["resnet", "ssd", "maskrcnn"])
@pytest.mark.parametrize("ruleset", ["1.0.0", "1.1.0"])
def test_limits_agree_with_rcp_checker(ruleset, benchmark):
    theirs = {record["BS"]: record for record in checker(ruleset, benchmark).rcp_data.values()}
    for batch, epochs in records(ruleset, benchmark):
        if [size for size, _ in records(ruleset, benchmark)].count(batch) > 1:
            continue  # If two records have the same batch size, rcp_checker uses only one of them.
        point = rcp.reference_point(batch, epochs)
        assert point.mean == pytest.approx(theirs[batch]["RCP Mean"], rel=1e-12)
        assert point.standard_deviation == pytest.approx(theirs[batch]["RCP Stdev"], rel=1e-12)
        # Three of five runs are retained.
        low = rcp.fewest_acceptable(point.mean, point.standard_deviation, point.retained, 3)
        assert low == pytest.approx(theirs[batch]["Min Epochs"], abs=TOLERANCE)
        assert point.mean / low == pytest.approx(theirs[batch]["Max Speedup"], abs=TOLERANCE)


@pytest.mark.parametrize("batch", [1800, 3000, 6000, 40000])
def test_interpolation_agrees_with_rcp_checker(batch):
    theirs = checker("1.0.0", "resnet")
    low = theirs._find_top_min_rcp(batch, "full_rcps")
    high = theirs._find_bottom_max_rcp(batch, "full_rcps")
    _, interpolated = theirs._create_interp_rcp(batch, low, high)
    points = [rcp.reference_point(size, epochs) for size, epochs in records("1.0.0", "resnet")]
    point = rcp.reference_point_at(batch, points, 10)
    assert (point.neighbors, point.mean) == (
        (low["BS"], high["BS"]),
        pytest.approx(interpolated["RCP Mean"], rel=1e-12),
    )
    assert point.standard_deviation == pytest.approx(interpolated["RCP Stdev"], rel=1e-12)
    limit = rcp.fewest_acceptable(point.mean, point.standard_deviation, point.retained, 3)
    assert limit == pytest.approx(interpolated["Min Epochs"], abs=TOLERANCE)


@given(st.lists(st.integers(20, 50), min_size=5, max_size=5))
@examples(80)
def test_verdict_agrees_with_rcp_checker(epochs):
    theirs = checker("1.0.0", "resnet")
    record = next(candidate for candidate in theirs.rcp_data.values() if candidate["BS"] == 1632)
    passed, factor = theirs._eval_submission_record(record, list(epochs), "")
    point = rcp.reference_point(1632, dict(records("1.0.0", "resnet"))[1632])
    found = rcp.judge(ours("resnet50", epochs, 1632), point)
    assert (found.verdict != ConvergenceVerdict.SUSPICIOUSLY_FAST) == passed
    assert max(1.0, point.mean / found.epochs) == pytest.approx(factor, rel=1e-12)


def test_verdicts_inside_slower_and_suspiciously_fast():
    """Judge epochs around the mean of the closed v0.7 ResNet runs at batch 1,664."""
    wanted = ("v0.7", "resnet50", "closed")
    same = [row for row in published_results() if (row.round, row.workload, row.division) == wanted]
    point = next(candidate for candidate in rcp.reference_points(same) if candidate.batch == 1664)
    words = {}
    for shift in (-8, 0, 8):
        found = judged(ours("resnet50", [round(point.mean) + shift] * 5, 1664))
        words[shift] = found.verdict
        assert (found.reference.mean, found.reference.sources) == (
            pytest.approx(point.mean),
            point.sources,
        )
    assert words == {
        -8: ConvergenceVerdict.SUSPICIOUSLY_FAST,
        0: ConvergenceVerdict.INSIDE,
        8: ConvergenceVerdict.SLOWER,
    }


def test_the_round_of_a_result_takes_precedence_over_its_family_of_rounds():
    name = "v0.7/NVIDIA/dgx1_ngc20.06_pytorch"
    assert parts(judged(ours("maskrcnn", [14] * 5, 48, name)), 0) == {"v0.7"}
    assert {"v0.6", "v0.7", "v1.1"} <= parts(
        judged(ours("maskrcnn", [14] * 5, 48, name, rules="not known")), 0
    )
    # Transformer kept its target from v0.5 to v0.6, but epochs are counted differently.
    found = judged(ours("transformer", [3] * 10, 40_960, "v0.5/NVIDIA/dgx1_ngc18.11_pytorch"))
    assert parts(found, 0) == {"v0.5"}
    later = [row for row in published_results() if row.rules != "v0.5"]
    assert rcp.judge_convergence([found.result], later)[0].reference is None
    assert "epochs are the epochs begun when the target was reached" in found.notes


def test_a_point_between_two_batches_has_twice_the_runs_of_a_result():
    found = judged(ours("resnet50", [40] * 5, 1700))
    assert (found.reference.neighbors, found.reference.retained) == ((1664, 2048), 10)


def test_a_result_without_a_reference_is_not_judged_and_the_nearest_batches_are_named():
    found = judged(ours("resnet50", [40] * 5, 16))
    assert found.verdict == ConvergenceVerdict.NOT_JUDGED
    assert "Nearest: 408 (35.19 epochs, 23 runs), 472 (35 epochs, 5 runs)" in found.why_not_judged
    found = judged(
        ours("ssd", [40] * 5, 1024, "v0.7/NVIDIA/dgx1_ngc20.06_pytorch", targets={"map": 0.5})
    )
    assert found.why_not_judged == "no published run of ssd has this target and the same rules"


def test_batches_in_tokens_and_in_sentence_pairs_are_not_mixed():
    """Google counts Transformer's batches in sentence pairs, NVIDIA counts them in tokens."""
    name = "v0.7/NVIDIA/dgx1_ngc20.06_pytorch"
    submitters = parts(judged(ours("transformer", [3] * 10, 81_920, name)), 1)
    assert submitters
    assert "Google" not in submitters
    assert parts(judged(ours("transformer", [3] * 10, 2048, "v0.7/Google/tpu-v3-8192-TF")), 1) == {
        "Google"
    }


def test_a_log_submitted_twice_counts_once():
    pool = [
        row
        for row in published_results()
        if row.workload == "resnet50" and row.round in ("v2.1", "v3.0")
    ]
    runs = {
        (run.start_ms, run.seconds) for row in pool for run in row.runs if run.epochs is not None
    }
    assert (
        sum(len(row.runs) for row in pool)
        > len(runs)
        >= sum(point.runs for point in rcp.reference_points(pool))
        > 0
    )


def test_demo_unknown_and_fixed_length_are_not_judged():
    demo = judged(ours("resnet50", [1] * 5, 1664, profile="demo", labels=("demo",)))
    assert (demo.verdict, demo.reference) == (ConvergenceVerdict.NOT_JUDGED, None)
    published = judged(
        result("v0.6/NVIDIA/dgx1_ngc19.05_mxnet", "resnet50")
    )  # The sources of a reference must not include the result itself.
    assert published.reference is None or not [
        source for source in published.reference.sources if "dgx1_ngc19.05" in source
    ]
    assert (
        judged(ours("resnet50", [1] * 5, None)).why_not_judged == "the global batch size is unknown"
    )
    assert (
        rcp.judge_convergence(
            [ours("resnet50", [1] * 5, 1664, to_target=False)], published_results()
        )
        == []
    )
    run = Run(seconds=1.0)
    assert (
        judged(ours("resnet50", [1], 1664, runs=(run,))).why_not_judged
        == "the epochs of single runs are unknown"
    )


def test_failed_and_missing_runs_are_noted():
    found = judged(ours("resnet50", [30, 35, 36, 37], 1664, runs_failed=1))
    assert found.epochs == pytest.approx((35 + 36 + 37) / 3)
    assert "the failed run counts as the slowest" in found.notes
    two_failed = judged(ours("resnet50", [30, 35, 36, 37], 1664, runs_failed=2))
    assert two_failed.epochs == pytest.approx((35 + 36) / 2)
    assert (
        "2 runs failed, which the rules do not allow, so they are not counted" in two_failed.notes
    )
    assert (
        "2 of the 5 runs that the rules require" in judged(ours("resnet50", [40, 41], 1664)).notes
    )
    assert rcp.fewest_acceptable(10.0, 1.0, 1, 1) is None
    assert [rcp.reference_point(1, epochs).mean for epochs in ([3.0, 1.0], [3.0, 1.0, 50.0])] == [
        2.0,
        3.0,
    ]
