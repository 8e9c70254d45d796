"""Scores and ratios against closed forms, a second implementation, and the published figures."""

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
            ("first 50 successful runs",),
        ),  # as NCF's rules ask
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
    """RetinaNet's four runs and a failed one of v5.0/tinycorp/tinybox_green: 803.59 minutes, not
    801.93.
    """
    minutes = (790.07, 806.92, 803.61, 800.25)
    found = make_result(
        6,
        [(60 * one, 4.0) for one in minutes],
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


def test_of_three_runs_of_which_one_failed_the_slower_one_is_the_score():
    """The summarizer drops the fastest run, and the failed one as the slowest."""
    found = make_result(
        8, [(100.0, 1.0), (110.0, 1.0)], 1, profile="", workload="gpt3", benchmark="gpt3"
    )
    assert (found.seconds, found.runs_retained) == (110.0, 1)


def test_a_scaling_factor_multiplies_times_and_leaves_epochs_and_their_time():
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
    assert (unknown.epochs, unknown.seconds_per_epoch) == (
        None,
        None,
    )  # never the mean of some of them


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=20), st.floats(0.5, 100))
def test_score_scales_with_its_times_and_ignores_their_order(seconds, scale):
    one, reverse = score(runs(*seconds))["seconds"], score(runs(*reversed(seconds)))["seconds"]
    assert one == pytest.approx(reverse)
    assert score(runs(*(value * scale for value in seconds)))["seconds"] == pytest.approx(
        one * scale
    )
    assert min(seconds) - 1e-6 <= one <= max(seconds) + 1e-6


@pytest.mark.skipif(
    not (ORIGINAL / "results.csv").is_file(), reason=f"no published figures at {ORIGINAL}"
)
def test_the_shipped_figures_are_the_published_ones():
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
def test_total_is_exactly_the_product(one, other):
    pair = ratio(make_result(1, one), make_result(4, other), intervals=False)
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
    one, kinds = (
        make_result(2, global_batch_size=128),
        {128: "strong", 512: "weak", 256: "mixed", None: "unknown"},
    )
    for batch, kind in kinds.items():
        assert ratio(one, make_result(8, global_batch_size=batch)).scaling == kind
    assert (
        ratio(one, make_result(8, global_batch_size=128, batch_unit="tokens")).scaling == "unknown"
    )


@pytest.mark.parametrize(
    ("seeds", "epochs", "said"),
    [
        (([1], [2]), 12.0, "single runs"),
        (([1, 2], [3, 4]), 12.0, "2 runs each"),
        (([1, 2, 3], [4]), 12.0, "1 and 3 runs"),
        *[(seeds, 12.0, "") for seeds in (([1], [1]), ([1], [None]), ([1, 2, 3], [4, 5, 6]))],
        (([1], [2]), 10.0, ""),
    ],
)
def test_a_few_runs_of_other_seeds_credit_no_epochs_to_devices(seeds, epochs, said):
    sides = [
        make_result(1, [(100.0, 10.0)] * len(seeds[0])),
        make_result(2, [(100.0, epochs)] * len(seeds[1])),
    ]
    sides = [
        replace(
            side,
            runs=tuple(replace(run, seed=seed) for run, seed in zip(side.runs, own, strict=True)),
        )
        for side, own in zip(sides, seeds, strict=True)
    ]
    chance = ratio(*sides).chance
    assert (said in chance) if said else chance == ""
    assert ratio(sides[0], replace(sides[1], global_batch_size=8192)).chance == ""


def counts(results):
    return [(pair.before.devices, pair.after.devices) for pair in pairs(results, intervals=False)]


def test_every_pair_of_device_counts():
    results = [make_result(count) for count in (8, 1, 4, 2)]
    assert counts(results) == [(1, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 8)]
    assert sorted(found.after.devices for found in speedups(results).values()) == [2, 4, 8]


def test_several_settings_on_as_many_devices_pair_with_their_like():
    one, two = (
        [make_result(n, [(100.0 * r, 10.0)], hyperparameters={RATE: r}) for r in (n, n + 1)]
        for n in (1, 2)
    )
    (pair,) = pairs(one + two)
    assert (pair.before.hyperparameters, pair.after.hyperparameters) == ({RATE: 2}, {RATE: 2})


def test_clusters_of_one_submitter_are_one_family_whatever_they_are_called():
    common = {"profile": "", "round": "v4.0", "submitter": "A"}
    own = (
        {"system": f"dgx_n{n}", "folder": f"/{n}", "framework_version": f"{n}", "devices": n}
        for n in (8, 64, 512)
    )
    found = [make_result(**common, **one) for one in own]
    assert counts(found) == [(8, 64), (8, 512), (64, 512)]
    (family,) = families(found)
    assert title(family) == "ncf by A (v4.0) in pytorch on several systems with Some CPU (demo)"


def ordinary(numbers, count, seconds):
    """Runs with 5 % of noise, a tenth more in the epochs."""
    epochs = 10 * np.exp(numbers.normal(0, 0.1, count))
    return [(seconds * one / 10 * np.exp(numbers.normal(0, 0.05)), one) for one in epochs]


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


def test_interval_is_the_one_of_a_plain_loop(monkeypatch):
    """The same resampling, run by run and with `score`, agrees within the noise of the draw."""
    one = [
        (float(seconds), float(epochs))
        for seconds, epochs in ((90, 9), (100, 11), (130, 12), (95, 10), (160, 15))
    ]
    other = [(seconds / 3, epochs) for seconds, epochs in reversed(one[:4])]
    drawn, ratios = random.Random(7), []
    for _ in range(4000):
        means = [
            score(runs(*(s for s, _ in drawn.choices(side, k=len(side)))))["seconds"]
            for side in (one, other)
        ]
        ratios.append(means[0] / means[1])
    interval = ratio(make_result(1, one), make_result(4, other)).interval
    assert (interval.low, interval.high) == pytest.approx(
        tuple(np.quantile(ratios, [0.025, 0.975])), rel=0.02
    )
    again = ratio(make_result(1, one[::-1]), make_result(4, other)).interval
    assert again == interval
    monkeypatch.setattr(
        "suite.results.ratios._DRAWS_AT_A_TIME", 1234
    )  # many runs are drawn in blocks
    blocks = ratio(make_result(1, one), make_result(4, other)).interval
    assert (blocks.low, blocks.high) == pytest.approx((interval.low, interval.high), rel=0.01)


def test_runs_of_fixed_length_give_a_throughput(tmp_path):
    """Samples per second are all samples over all training seconds."""
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
    ("conditions", "said"),
    [
        ([BUSY], "busy machine: others took 48 % of its cores"),
        ([QUIET, BUSY, WORSE], "busy machine (2 of 3 runs): others took 90 % of its cores"),
        ([QUIET, QUIET], "not busy"),
        ([QUIET, None], ""),
        ([None, BUSY], "busy machine (1 of 2 runs): others took 48 % of its cores"),
        *[
            ([one], "not busy")
            for one in ({"busy": []}, {"busy": "yes"}, {"busy": [1, None], "others_share": "much"})
        ],
        *[([one], "") for one in ("busy", 1, ["busy"])],
    ],
)
def test_equal_runs_stay_one_result_whatever_the_machine_did(tmp_path, conditions, said):
    for index, condition in enumerate(conditions):
        write_run(tmp_path, "job", index, start=1000 * index, condition=condition)
    runs = read_runs(tmp_path)
    (found,) = results_of(runs)
    assert found.machine_condition == said
    own = [one in (BUSY, WORSE) for one in conditions]
    assert [
        text.startswith("busy machine: others took")
        for text in (run.machine_condition for run in runs)
    ] == own
    assert (found.busy is not None) == said.startswith("busy")
    assert merged_labels([found]) == ("cpu", "demo", *([said] if found.busy is not None else []))


def test_busy_machines_of_several_results_are_one_label():
    busy = [
        Result(labels=("demo",), machine_condition=label.text, busy=label)
        for label in (Label(LabelKind.BUSY, f"others took {percent} %") for percent in (48, 90))
    ]
    assert merged_labels(busy) == ("demo", "busy machine")
    assert merged_labels(busy[:1]) == ("demo", "busy machine: others took 48 %")


def test_nothing_to_show_is_one_line(tmp_path):
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
