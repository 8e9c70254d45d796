"""Scores and ratios, compared with closed forms, a second implementation, and published figures."""

import csv
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common.labels import Label, LabelKind
from suite.common.paths import PROJECT
from suite.results.columns import Result, Run
from suite.results.ratios import ratio
from suite.results.scores import (
    failures,
    measured,
    merged_labels,
    results,
    results_of,
    score,
    title,
)
from suite.results.scoring_rules import FIRST_CONVERGED, ScoringRule
from suite.results.series import families, speedups
from suite.results.table import read_runs
from suite.results.views.speedup_text import describe
from testing.fake_logs import write_run
from tests.helpers import examples, one_line
from tests.suite.results.rows import make_result, pairs

PUBLISHED = PROJECT / "logs" / "published"
ORIGINAL = PROJECT.parent / "shared" / "published"
BUSY = {"busy": ["others took 48 % of its cores"], "others_share": 0.48}
WORSE = {"busy": ["others took 90 % of its cores"], "others_share": 0.9}
QUIET = {"busy": [], "others_share": 0.01}
MORE = "more runs than the rules require"
RATE = "opt_base_learning_rate"


def runs(*seconds, epochs=None):
    return [Run(seconds=value, epochs=epochs) for value in seconds]


@pytest.mark.parametrize(
    ("seconds", "failed", "required", "mean", "retained", "notes"),
    [
        ((10, 50, 20, 30, 1000), 0, 5, 100 / 3, 3, ()),
        ((10,), 0, 5, 10, 1, ("fewer runs than the rules require (1 of 5)",)),
        ((10, 20), 0, 5, 15, 2, ("fewer runs than the rules require (2 of 5)",)),
        ((10, 20, 30, 40), 1, 5, 30, 3, ("the failed run counts as the slowest",)),
        ((10, 20, 30), 2, 5, 20, 1, ("no official score: 2 runs failed",)),
        ((), 3, 5, None, 0, ("fewer runs than the rules require (3 of 5)",)),
        (
            (1, 2, 3, 4, 5, 6),
            0,
            5,
            3.5,
            4,
            (f"{MORE} (6 for 5): which of them count was not fixed before",),
        ),
        ((1, 2, 3), 0, None, 2, 1, ()),
        (
            range(100, 186),
            14,
            100,
            np.mean(range(101, 149)),
            48,
            ("first 50 successful runs",),  # The rules of NCF require 50 successful runs of 100.
        ),
        (
            range(100, 160),
            0,
            100,
            np.mean(range(101, 159)),
            58,
            ("fewer runs than the rules require (60 of 100)",),
        ),
    ],
)
def test_olympic_mean(seconds, failed, required, mean, retained, notes):
    rule = None if required is None else ScoringRule(required, first_converged=FIRST_CONVERGED)
    found = score(runs(*seconds), failed, rule)
    assert (found["seconds"], found["runs_retained"]) == (
        pytest.approx(mean) if mean else None,
        retained,
    )
    method = "olympic mean" if len(seconds) > 2 else "plain mean"
    assert (found["score_notes"], found["score_method"], found["runs_failed"]) == (
        notes,
        method,
        failed,
    )


def test_a_failed_run_counts_as_the_slowest_of_a_workload_under_its_older_name():
    """Reproduce the RetinaNet score of v5.0/tinycorp/tinybox_green.

    It has four successful runs and a failed run. The score is 803.59 minutes, not 801.93.
    """
    minutes = (790.07, 806.92, 803.61, 800.25)
    found = make_result(
        6,
        [(60 * length, 4.0) for length in minutes],
        1,
        profile="",
        workload="retinanet",
        benchmark="ssd",
    )
    assert found.seconds / 60 == pytest.approx((800.25 + 803.61 + 806.92) / 3)
    assert (found.runs_required, found.score_notes) == (
        5,
        ("the failed run counts as the slowest",),
    )


@pytest.mark.parametrize(
    ("successful", "failed", "fastest_dropped", "slowest_dropped", "notes"),
    [
        (40, 0, 4, 4, ()),
        (39, 1, 4, 3, ("the failed run counts as the slowest",)),
        (36, 4, 4, 0, ("the 4 failed runs count as the slowest",)),
        (35, 5, 4, 4, ("no official score: 5 runs failed",)),
        (
            21,
            1,
            4,
            3,
            (
                "fewer runs than the rules require (22 of 40)",
                "the failed run counts as the slowest",
            ),
        ),
        (8, 0, 1, 1, ("fewer runs than the rules require (8 of 40)",)),
    ],
)
def test_unet3d_drops_four_runs_at_each_end(
    successful, failed, fastest_dropped, slowest_dropped, notes
):
    seconds = [float(value * value) for value in range(1, successful + 1)]
    members = [(value, 1.0) for value in seconds]
    found = make_result(8, members, failed, profile="", workload="unet3d", benchmark="unet3d")
    assert found.seconds == pytest.approx(
        np.mean(seconds[fastest_dropped : successful - slowest_dropped])
    )
    assert (found.score_notes, found.runs_required) == (notes, 40)
    assert failures(found)[1] == (failed == 0 or (failed <= 4 and successful + failed == 40))


def test_the_slower_of_two_successful_runs_is_the_score_if_a_third_run_failed():
    """Drop the fastest run and the failed run, as mlperf-logging's result summarizer does."""
    found = make_result(
        8, [(100.0, 1.0), (110.0, 1.0)], 1, profile="", workload="gpt3", benchmark="gpt3"
    )
    assert (found.seconds, found.runs_retained) == (110.0, 1)


def test_a_scaling_factor_multiplies_times_to_target_but_not_epochs_or_time_per_epoch():
    members = [(value, 10.0) for value in (10.0, 20.0, 30.0, 40.0, 90.0)]
    plain = make_result(1, members, profile="", workload="resnet50")
    scaled = make_result(1, members, profile="", workload="resnet50", scaling_factor=1.1)
    times = ("seconds", "seconds_minimum", "seconds_maximum", "seconds_standard_deviation")
    for name in times:
        assert getattr(scaled, name) == pytest.approx(1.1 * getattr(plain, name))
    assert scaled.unscaled_seconds == plain.seconds == plain.unscaled_seconds
    for name in ("epochs", "seconds_per_epoch", "run_seconds"):
        assert getattr(scaled, name) == getattr(plain, name)
    assert scaled.scaling_factor == 1.1
    assert any("multiplied by 1.1" in note and "30.00 s" in note for note in scaled.score_notes)
    pair = ratio(plain, scaled)
    assert pair.total == pytest.approx(1 / 1.1)
    assert pair.total == pytest.approx(pair.throughput * pair.efficiency / 1.1)
    assert pair.interval.low <= pair.total <= pair.interval.high
    assert "scaling factors 1 and 1.1" in describe(pair)


def test_spread_is_over_all_successful_runs_and_time_per_epoch_over_the_retained():
    found = score(runs(10, 20, 30))
    assert (found["seconds_minimum"], found["seconds_maximum"]) == (10, 30)
    assert found["seconds_standard_deviation"] == pytest.approx(10.0)
    assert score(runs(10))["seconds_standard_deviation"] is None
    timed = make_result(1, [(10.0, 1.0), (20.0, 2.0), (40.0, 3.0), (60.0, 5.0), (90.0, 6.0)])
    assert (timed.epochs, timed.seconds_per_epoch) == pytest.approx((10 / 3, 120 / 10))
    unknown = make_result(1, [(10.0, 1.0), (20.0, None), (40.0, 3.0), (60.0, 4.0)])
    # A mean over only some of the runs would be misleading.
    assert (unknown.epochs, unknown.seconds_per_epoch) == (None, None)


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=20), st.floats(0.5, 100))
def test_score_scales_with_its_times_and_ignores_their_order(seconds, scale):
    in_order, reverse = score(runs(*seconds))["seconds"], score(runs(*reversed(seconds)))["seconds"]
    assert in_order == pytest.approx(reverse)
    assert score(runs(*(value * scale for value in seconds)))["seconds"] == pytest.approx(
        in_order * scale
    )
    assert min(seconds) - 1e-6 <= in_order <= max(seconds) + 1e-6


@pytest.mark.skipif(
    not (ORIGINAL / "results.csv").is_file(), reason=f"no published figures at {ORIGINAL}"
)
def test_the_shipped_figures_equal_the_published_figures():
    columns = {
        "seconds": "mean_seconds",
        "batch": "global_batch_size",
        "chips": "accelerators_total",
    }
    places = ("round", "submitter", "system")
    with (
        open(PUBLISHED / "results.csv", newline="") as mine,
        open(ORIGINAL / "results.csv", newline="") as theirs,
    ):
        shipped = {tuple(row[name] for name in (*places, *columns)) for row in csv.DictReader(mine)}
        original = {
            tuple(row[name] for name in (*places, *columns.values()))
            for row in csv.DictReader(theirs)
        }
    assert len(original) == 445
    assert original <= shipped


@examples(60)
@given(*[st.lists(st.tuples(st.floats(1, 1e5), st.floats(1, 100)), min_size=1, max_size=12)] * 2)
def test_total_is_exactly_the_product(before, after):
    pair = ratio(make_result(1, before), make_result(4, after), intervals=False)
    assert pair.total == pair.throughput * pair.efficiency
    assert pair.total == pytest.approx(pair.before.seconds / pair.after.seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            (158.0, 20.0),
            (10.0, 10.0),
            (
                "15.8× faster to target with 0.50× as many epochs. Whole epochs 7.90× faster,"
                " evaluation included."
            ),
        ),
        (
            (106.0, 10.0),
            (100.0, 10.0),
            (
                "1.06× faster to target with the same number of epochs. Whole epochs 1.06× faster,"
                " evaluation included."
            ),
        ),
        (
            (100.0, 10.0),
            (128.0, 10.0),
            (
                "1.28× slower to target with the same number of epochs. Whole epochs 1.28× slower,"
                " evaluation included."
            ),
        ),
        (
            (100.0, 10.0),
            (50.0, 20.0),
            (
                "2.00× faster to target with 2.00× as many epochs. Whole epochs 4.00× faster,"
                " evaluation included."
            ),
        ),
        (
            (100.0, 10.0),
            (100.0, 10.0),
            "as fast to target with the same number of epochs. Time per epoch unchanged.",
        ),
        ((100.0, None), (50.0, None), "2.00× faster to target."),
    ],
)
def test_a_ratio_as_text(before, after, words):
    assert describe(ratio(make_result(1, [before]), make_result(2, [after]))) == words


def test_kind_of_scaling():
    before, kinds = (
        make_result(2, global_batch_size=128),
        {128: "strong", 512: "weak", 256: "mixed", None: "unknown"},
    )
    for batch, kind in kinds.items():
        assert ratio(before, make_result(8, global_batch_size=batch)).scaling == kind
    assert (
        ratio(before, make_result(8, global_batch_size=128, batch_unit="tokens")).scaling
        == "unknown"
    )


@pytest.mark.parametrize(
    ("seeds", "epochs", "message"),
    [
        (([1], [2]), 12.0, "single runs"),
        (([1, 2], [3, 4]), 12.0, "2 runs each"),
        (([1, 2, 3], [4]), 12.0, "1 and 3 runs"),
        (([1], [1]), 12.0, ""),
        (([1], [None]), 12.0, ""),
        (([1, 2, 3], [4, 5, 6]), 12.0, ""),
        (([1], [2]), 10.0, ""),
    ],
)
def test_few_runs_with_other_seeds_do_not_attribute_epochs_to_devices(seeds, epochs, message):
    sides = [
        make_result(1, [(100.0, 10.0)] * len(seeds[0])),
        make_result(2, [(100.0, epochs)] * len(seeds[1])),
    ]
    sides = [
        replace(
            side,
            runs=tuple(
                replace(run, seed=seed) for run, seed in zip(side.runs, side_seeds, strict=True)
            ),
        )
        for side, side_seeds in zip(sides, seeds, strict=True)
    ]
    chance = ratio(*sides).chance
    assert (message in chance) if message else chance == ""
    assert ratio(sides[0], replace(sides[1], global_batch_size=8192)).chance == ""


def counts(results):
    return [(pair.before.devices, pair.after.devices) for pair in pairs(results, intervals=False)]


def test_every_pair_of_device_counts():
    results = [make_result(count) for count in (8, 1, 4, 2)]
    assert counts(results) == [(1, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 8)]
    assert sorted(found.after.devices for found in speedups(results).values()) == [2, 4, 8]


def test_results_pair_only_with_results_of_the_same_settings():
    on_one, on_two = (
        [make_result(n, [(100.0 * r, 10.0)], hyperparameters={RATE: r}) for r in (n, n + 1)]
        for n in (1, 2)
    )
    (pair,) = pairs(on_one + on_two)
    assert (pair.before.hyperparameters, pair.after.hyperparameters) == ({RATE: 2}, {RATE: 2})


def test_clusters_of_one_submitter_are_one_family_even_if_their_names_differ():
    common = {"profile": "", "round": "v4.0", "submitter": "A"}
    settings = (
        {"system": f"dgx_n{n}", "folder": f"/{n}", "framework_version": f"{n}", "devices": n}
        for n in (8, 64, 512)
    )
    found = [make_result(**common, **changed) for changed in settings]
    assert counts(found) == [(8, 64), (8, 512), (64, 512)]
    (family,) = families(found)
    assert title(family) == "ncf by A (v4.0) in pytorch on several systems with Some CPU (demo)"


def ordinary(numbers, count, seconds):
    """Return `count` runs of about `seconds` with 10 % noise in the epochs and 5 % in the rate."""
    epochs = 10 * np.exp(numbers.normal(0, 0.1, count))
    return [
        (seconds * count_of_epochs / 10 * np.exp(numbers.normal(0, 0.05)), count_of_epochs)
        for count_of_epochs in epochs
    ]


@examples(30)
@given(st.integers(0, 10_000), st.integers(3, 20), st.integers(3, 20))
def test_interval_contains_the_point_for_ordinary_runs(seed, before, after):
    numbers = np.random.default_rng(seed)
    pair = ratio(
        make_result(1, ordinary(numbers, before, 600)),
        make_result(4, ordinary(numbers, after, 180)),
    )
    assert pair.no_interval == ""
    for value, interval in zip(
        (pair.total, pair.throughput, pair.efficiency), pair.intervals, strict=True
    ):
        assert interval.low * (1 - 1e-9) <= value <= interval.high * (1 + 1e-9)


def test_the_interval_agrees_with_a_plain_resampling_loop(monkeypatch):
    """Resample run by run with `score` and compare the quantiles within the sampling noise."""
    before = [
        (float(seconds), float(epochs))
        for seconds, epochs in ((90, 9), (100, 11), (130, 12), (95, 10), (160, 15))
    ]
    after = [(seconds / 3, epochs) for seconds, epochs in reversed(before[:4])]
    drawn, ratios = random.Random(7), []
    for _ in range(4000):
        means = [
            score(runs(*(s for s, _ in drawn.choices(side, k=len(side)))))["seconds"]
            for side in (before, after)
        ]
        ratios.append(means[0] / means[1])
    interval = ratio(make_result(1, before), make_result(4, after)).interval
    assert (interval.low, interval.high) == pytest.approx(
        tuple(np.quantile(ratios, [0.025, 0.975])), rel=0.02
    )
    again = ratio(make_result(1, before[::-1]), make_result(4, after)).interval
    assert again == interval
    # With many runs, the draws are made in blocks.
    monkeypatch.setattr("suite.results.ratios._DRAWS_AT_A_TIME", 1234)
    blocks = ratio(make_result(1, before), make_result(4, after)).interval
    assert (blocks.low, blocks.high) == pytest.approx((interval.low, interval.high), rel=0.01)


def test_runs_of_fixed_length_give_a_throughput(tmp_path):
    """Check that the throughput is the sum of samples divided by the sum of training seconds."""
    for index in range(4):
        for devices, count in ((1, 1000), (2, 1800)):
            times = {"stop": "epochs:3", "train_seconds": 1 + index}
            write_run(
                tmp_path,
                f"{devices}",
                index,
                devices=devices,
                samples=(1 + index) ** 2 * count,
                **times,
            )
    found = results(tmp_path)
    assert sorted(row.samples_per_second for row in found) == pytest.approx(
        [30 * 1000 / 10, 30 * 1800 / 10]
    )
    (pair,) = pairs(found)
    assert (pair.total, pair.efficiency, pair.throughput) == (None, None, pytest.approx(1.8))
    assert pair.interval.low < 1.8 < pair.interval.high


@pytest.mark.parametrize(
    ("conditions", "label"),
    [
        ([BUSY], "busy machine: others took 48 % of its cores"),
        ([QUIET, BUSY, WORSE], "busy machine (2 of 3 runs): others took 90 % of its cores"),
        ([QUIET, QUIET], "not busy"),
        ([QUIET, None], ""),
        ([None, BUSY], "busy machine (1 of 2 runs): others took 48 % of its cores"),
        ([{"busy": []}], "not busy"),
        ([{"busy": "yes"}], "not busy"),
        ([{"busy": [1, None], "others_share": "much"}], "not busy"),
        *[([damaged], "") for damaged in ("busy", 1, ["busy"])],
    ],
)
def test_equal_runs_are_one_result_even_if_the_machine_was_busy(tmp_path, conditions, label):
    for index, condition in enumerate(conditions):
        write_run(tmp_path, "job", index, start=1000 * index, condition=condition)
    runs = read_runs(tmp_path)
    (found,) = results_of(runs)
    assert found.machine_condition == label
    expected_busy = [condition in (BUSY, WORSE) for condition in conditions]
    assert [
        text.startswith("busy machine: others took")
        for text in (run.machine_condition for run in runs)
    ] == expected_busy
    assert (found.busy is not None) == label.startswith("busy")
    assert merged_labels([found]) == ("cpu", "demo", *([label] if found.busy is not None else []))


def test_busy_labels_of_several_results_are_merged_into_one():
    busy = [
        Result(labels=("demo",), machine_condition=label.text, busy=label)
        for label in (Label(LabelKind.BUSY, f"others took {percent} %") for percent in (48, 90))
    ]
    assert merged_labels(busy) == ("demo", "busy machine")
    assert merged_labels(busy[:1]) == ("demo", "busy machine: others took 48 %")


def test_missing_results_are_reported_in_one_line(tmp_path):
    write_run(tmp_path / "a", "a", qualities=(0.1,))
    write_run(tmp_path / "a", "b", log=False, status={"status": "running"})
    write_run(tmp_path / "b", "a")
    for arguments, words in [
        (([],), "give a folder with runs (suite report logs/) or --published dgx1-article"),
        (
            ([tmp_path / "a"],),
            "no run succeeded (1 of 2 did not, 1 of 2 has not ended); the reasons: suite report",
        ),
        (
            ([], ["v9.9/Nobody/box"]),
            "--published v9.9/Nobody/box: no such published result. Nearest:",
        ),
        (([tmp_path / "b"], [], "resnet5"), "--workload=resnet5: allowed: ncf"),
    ]:
        with pytest.raises(ValueError, match=one_line(words)):
            measured(*arguments)
