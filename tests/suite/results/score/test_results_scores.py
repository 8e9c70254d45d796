import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.score.scores import FIRST_CONVERGED, TimedRun, score

PROJECT = Path(__file__).resolve().parents[4]
PUBLISHED = PROJECT / "logs" / "published"
ORIGINAL = PROJECT.parent / "shared" / "published"
COLUMNS = {
    "results.csv": {
        **{
            name: name
            for name in ("round", "submitter", "system", "framework", "division", "runs", "runs_used", "rule")
        },
        "seconds": "mean_seconds",
        "runs_successful": "runs_success",
        "epochs": "epochs_mean",
        "batch": "global_batch_size",
        "target": "quality_target",
        "chips": "accelerators_total",
    },
    "runs.csv": {
        **{name: name for name in ("round", "submitter", "system", "seconds", "status")},
        "epochs": "epochs_to_target",
        "quality": "final_quality",
        "quality_mask": "final_quality_mask",
        "batch": "global_batch_size",
        "run_start_unix_seconds": "run_start_unix",
    },
}
"""Columns of the shipped files, and what they are called where they came from."""


def runs(*seconds, epochs=None):
    return [TimedRun(value, epochs, start_ms=index) for index, value in enumerate(seconds)]


def test_olympic_mean_drops_fastest_and_slowest():
    result = score(runs(10, 50, 20, 30, 1000), required=5)
    assert result.seconds == pytest.approx((20 + 30 + 50) / 3)
    assert (result.method, result.runs_retained, result.notes) == ("olympic mean", 3, ())
    assert (result.seconds_minimum, result.seconds_maximum) == (10, 1000)


@pytest.mark.parametrize(("seconds", "mean"), [((10.0,), 10.0), ((10.0, 20.0), 15.0)])
def test_plain_mean_below_three(seconds, mean):
    result = score(runs(*seconds), required=5)
    assert (result.seconds, result.method, result.runs_retained) == (mean, "plain mean", len(seconds))
    assert result.notes == (f"fewer runs than the rules ask ({len(seconds)} of 5)",)


def test_standard_deviation_is_over_all_successful_runs():
    assert score(runs(10, 20, 30)).seconds_standard_deviation == pytest.approx(10.0)
    assert score(runs(10)).seconds_standard_deviation is None


def test_one_failed_run_of_a_complete_set_counts_as_the_slowest():
    result = score(runs(10, 20, 30, 40), failed=1, required=5)
    assert result.seconds == pytest.approx(30.0)
    assert result.notes == ("the failed run counts as the slowest",)


def test_more_failed_runs_leave_no_official_score():
    result = score(runs(10, 20, 30), failed=2, required=5)
    assert result.seconds == 20.0
    assert result.notes == ("no official score: 2 runs failed",)


def test_nothing_succeeded():
    result = score([], failed=3, required=5)
    assert (result.seconds, result.epochs, result.samples_per_second, result.seconds_per_epoch) == (None,) * 4
    assert result.runs_failed == 3


def test_ncf_takes_48_of_the_first_50_converged():
    started = [TimedRun(float(100 + index), 13.0, start_ms=float(index)) for index in range(86)]
    result = score(list(reversed(started)), failed=14, required=100, first_converged=FIRST_CONVERGED)
    assert result.seconds == pytest.approx(sum(range(101, 149)) / 48)
    assert (result.runs_retained, result.notes) == (48, ("first 50 successful runs",))


def test_ncf_with_fewer_runs_is_marked():
    result = score(runs(*range(1, 61)), failed=0, required=100, first_converged=FIRST_CONVERGED)
    assert (result.runs_retained, result.notes) == (58, ("fewer runs than the rules ask (60 of 100)",))


def test_samples_per_second_is_all_samples_over_all_training_seconds():
    result = score([TimedRun(9, samples=100, train_seconds=1), TimedRun(9, samples=300, train_seconds=9), TimedRun(9)])
    assert result.samples_per_second == pytest.approx(400 / 10)


def test_time_per_epoch_is_over_the_retained_runs():
    timed = [TimedRun(seconds, epochs) for seconds, epochs in ((10, 1), (20, 2), (40, 3), (60, 5), (90, 6))]
    result = score(timed, required=5)
    assert result.epochs == pytest.approx((2 + 3 + 5) / 3)
    assert result.seconds_per_epoch == pytest.approx((20 + 40 + 60) / (2 + 3 + 5))


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=20), st.floats(0.5, 100))
def test_score_scales_with_its_times_and_ignores_their_order(seconds, scale):
    one, reverse = score(runs(*seconds)), score(runs(*reversed(seconds)))
    scaled = score(runs(*(value * scale for value in seconds)))
    assert one.seconds == pytest.approx(reverse.seconds)
    assert scaled.seconds == pytest.approx(one.seconds * scale)
    assert min(seconds) - 1e-6 <= one.seconds <= max(seconds) + 1e-6


def test_all_published_scores_come_out_of_the_published_runs():
    gathered = {}
    with open(PUBLISHED / "runs.csv", newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["round"], row["submitter"], row["system"], row["benchmark"])
            gathered.setdefault(key, []).append(row)
    compared = 0
    with open(PUBLISHED / "results.csv", newline="") as stream:
        for row in csv.DictReader(stream):
            members = gathered.pop((row["round"], row["submitter"], row["system"], row["benchmark"]))
            good = [member for member in members if member["status"] == "success"]
            timed = [
                TimedRun(float(m["seconds"]), start_ms=1e3 * float(m["run_start_unix_seconds"] or 0)) for m in good
            ]
            first = FIRST_CONVERGED if row["benchmark"] == "ncf" else None
            result = score(timed, len(members) - len(good), len(members), first)
            assert result.seconds == pytest.approx(float(row["seconds"]), abs=1e-3), row
            assert result.seconds / 60 == pytest.approx(float(row["minutes"]), abs=1e-5), row
            assert result.runs_retained == int(row["runs_used"])
            assert (len(members), len(good)) == (int(row["runs"]), int(row["runs_successful"]))
            compared += 1
    assert compared == 445
    assert not gathered


@pytest.mark.skipif(not (ORIGINAL / "results.csv").is_file(), reason=f"no published figures at {ORIGINAL}")
def test_the_shipped_figures_are_the_published_ones():
    for name, columns in COLUMNS.items():
        with open(PUBLISHED / name, newline="") as mine, open(ORIGINAL / name, newline="") as theirs:
            pairs = list(zip(csv.DictReader(mine), csv.DictReader(theirs), strict=True))
        for here, there in pairs:
            assert [here[column] for column in columns] == [there[column] for column in columns.values()]
    assert len(pairs) == 2930
