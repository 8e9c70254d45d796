import csv
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common.paths import PROJECT
from suite.results.logs.collect import collect
from suite.results.published.csv_files import ARTICLE, load_published_results
from suite.results.score.bootstrap import RESAMPLES, scored_runs
from suite.results.score.groups import rows
from suite.results.score.measurement import Measurement, measurements
from suite.results.score.scaling import (
    check_printed,
    ratio_text,
    scaling_kind,
    scaling_pair,
    scaling_pairs,
    speedup_text,
)
from suite.results.score.scores import FIRST_CONVERGED, TimedRun, score
from tests.helpers import examples
from tests.suite.results.fake_logs import write_run


def make_measurement(devices, runs=((100.0, 10.0),), **changed):
    """A measurement from (seconds, epochs) of its runs."""
    timed = tuple(TimedRun(seconds, epochs, start_ms=float(index)) for index, (seconds, epochs) in enumerate(runs))
    values = {
        "origin": "ours",
        "series": "pytorch on laptop",
        "family": ("f",),
        "workload": "ncf",
        "framework": "pytorch",
        "submitter": "",
        "system": "laptop",
        "hardware": "Some CPU",
        "devices": devices,
        "batch_size_global": 4096,
        "batch_unit": "samples",
        "batch_rule": "set",
        "precision": "fp32",
        "rules": "v0.5",
        "clock": "v0.5",
        "targets": {"hr_at_10": 0.635},
        "profile": "demo",
        "labels": ("demo",),
        "score": score(timed),
        "runs": timed,
    }
    return Measurement(**{**values, **changed})


def seeded(devices, seeds, epochs, **changed):
    item = make_measurement(devices, [(100.0, epochs)] * len(seeds), **changed)
    return replace(item, runs=tuple(replace(run, seed=seed) for run, seed in zip(item.runs, seeds, strict=True)))


@pytest.mark.parametrize(
    ("one", "other", "counts"),
    [
        (([1], 10.0), ([2], 12.0), "one each"),
        (([1, 2], 10.0), ([3, 4], 12.0), "2 each"),
        (([1, 2, 3], 10.0), ([4], 12.0), "1 and 3"),
        (([1], 10.0), ([1], 12.0), ""),
        (([1], 10.0), ([None], 12.0), ""),
        (([1], 10.0), ([2], 10.0), ""),
        (([1, 2, 3], 10.0), ([4, 5, 6], 12.0), ""),
    ],
)
def test_a_few_runs_of_other_seeds_credit_no_epochs_to_devices(one, other, counts):
    pair = scaling_pair(seeded(1, *one), seeded(2, *other))
    words = f"epochs to target vary from seed to seed; runs of different seeds ({counts}) do not show that devices change them"
    assert pair.flags == ((words,) if counts else ())
    assert scaling_pair(seeded(1, *one), seeded(2, *other, batch_size_global=8192)).flags == ()


def article():
    return [item.measurement for item in load_published_results() if item.round == ARTICLE]


def printed():
    with open(PROJECT / "logs" / "published" / "dgx1_speedups.csv", newline="") as stream:
        return {
            (row["benchmark"], int(row["chips_from"]), int(row["chips_to"])): float(row["speedup_printed"])
            for row in csv.DictReader(stream)
        }


def test_table_7_of_the_article_comes_out_of_its_tables_1_to_6():
    checked = {(one.workload, one.devices_to): one for one in check_printed(printed(), scaling_pairs(article()))}
    assert len(checked) == 12
    flagged = {key: one.flag for key, one in checked.items() if one.flag}
    assert flagged == {("resnet50", 4): "4.76 printed, 4.68 by its own tables"}
    for key, one in checked.items():
        if key not in flagged:
            assert one.computed == pytest.approx(one.printed, rel=0.003)


def test_a_printed_speedup_without_its_table_is_flagged():
    (one,) = check_printed({("ncf", 1, 16): 3.0}, scaling_pairs(article()))
    assert one.computed is None
    assert "do not have both device counts" in one.flag


ARTICLE_FACTORS = {
    # workload, from, to: kind, time-per-epoch ratio, epochs ratio: by hand from the tables
    ("resnet50", 1, 4): ("mixed", 16.21 / 4.56, 83 / 63),
    ("resnet50", 4, 8): ("strong", 4.56 / 2.2002, 1),
    ("maskrcnn", 1, 8): ("mixed", 179.183 / 24.9895, 11 / 13),
    ("maskrcnn", 4, 8): ("weak", 44.315 / 24.9895, 18 / 13),
    ("ssd", 1, 8): ("weak", 4.080 / 0.5628, 1),
    ("gnmt", 1, 4): ("unknown", 39.98 / 12.31, 1),
    ("gnmt", 1, 8): ("mixed", 39.98 / 6.4, 5 / 3),
    ("transformer", 1, 8): ("weak", 60.34 / 7.648, 2),
    ("ncf", 1, 8): ("strong", 1.76 / 0.63, 1),
}


@pytest.mark.parametrize(("key", "expected"), ARTICLE_FACTORS.items())
def test_factors_and_kind_of_scaling_of_the_article(key, expected):
    (pair,) = [one for one in scaling_pairs(article()) if (one.workload, one.devices_from, one.devices_to) == key]
    name, throughput, efficiency = expected
    assert pair.scaling_kind == name
    assert pair.throughput == pytest.approx(throughput, rel=1e-8)
    assert pair.efficiency == pytest.approx(efficiency, rel=1e-12)
    assert pair.scaling_efficiency == pytest.approx(throughput * key[1] / key[2], rel=1e-8)
    assert pair.interval is None
    assert pair.no_interval.startswith("no single runs are known on ")
    assert pair.labels == ("article",)


def test_every_pair_of_device_counts():
    found = scaling_pairs([make_measurement(count) for count in (8, 1, 4, 2)])
    assert [(pair.devices_from, pair.devices_to) for pair in found] == [(1, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 8)]


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ((60.34 / 7.648, 2.0), "15.8× = 7.9× faster epochs × 2.0× fewer epochs"),
        ((1.76, 1.0), "1.76× = 1.76× faster epochs, same number of epochs"),
        ((7.17, 11 / 13), "6.1× = 7.2× faster epochs ÷ 1.18× more epochs"),
        ((0.8, 1.5), "1.20× = 1.50× fewer epochs ÷ 1.25× slower epochs"),
        ((0.8, 0.5), "0.40× = 1 ÷ 1.25× slower epochs ÷ 2.0× more epochs"),
        ((0.5, 1.0), "0.50× = 1 ÷ 2.0× slower epochs, same number of epochs"),
        ((16.21 / 2.2002, 83 / 63), "9.7× = 7.37× faster epochs × 1.317× fewer epochs"),
        ((1.0, 1.0), "1.00× = 1.00× faster epochs, same number of epochs"),
    ],
)
def test_verdict(factors, words):
    throughput, efficiency = factors
    assert speedup_text(throughput * efficiency, throughput, efficiency) == words


def test_verdict_of_what_cannot_be_taken_apart():
    assert speedup_text(7.31, None, None) == "7.3×; epochs are not known, so it cannot be decomposed"
    assert speedup_text(None, 3.68, None).startswith("3.7× faster training (samples/s)")
    assert speedup_text(None, 0.5, None).startswith("2.0× slower training (samples/s)")
    assert speedup_text(None, None, None) == "not measured"


@given(st.floats(0.05, 500), st.floats(0.05, 20))
def test_printed_factors_multiply_to_the_printed_total(throughput, efficiency):
    words = speedup_text(throughput * efficiency, throughput, efficiency)
    total, _, rest = words.partition("× = ")
    product, sign = 1.0, "×"
    for word in rest.replace(",", "").split():
        if word in "×÷":
            sign = word
        elif word.endswith("×"):
            product = product * float(word[:-1]) if sign == "×" else product / float(word[:-1])
    assert total in (ratio_text(product * 0.999999), ratio_text(product * 1.000001))  # either side of a half


some_runs = st.lists(st.tuples(st.floats(1, 1e5), st.floats(1, 100)), min_size=1, max_size=12)


@examples(60)
@given(some_runs, some_runs, st.integers(1, 8), st.integers(9, 64))
def test_total_is_exactly_the_product(one, other, fewer, more):
    (pair,) = scaling_pairs([make_measurement(fewer, one), make_measurement(more, other)], intervals=False)
    assert pair.total == pair.throughput * pair.efficiency
    assert pair.total == pytest.approx(pair.before.score.seconds / pair.after.score.seconds, rel=1e-12)


def ordinary(random_numbers, runs, seconds):
    """Runs with 5 % of noise, a tenth more in the epochs."""
    epochs = 10 * np.exp(random_numbers.normal(0, 0.1, runs))
    return [(seconds * count / 10 * np.exp(random_numbers.normal(0, 0.05)), count) for count in epochs]


@examples(30)
@given(st.integers(0, 10_000), st.integers(3, 20), st.integers(3, 20))
def test_interval_contains_the_point_for_ordinary_runs(seed, runs_before, runs_after):
    numbers = np.random.default_rng(seed)
    sides = [
        make_measurement(1, ordinary(numbers, runs_before, 600)),
        make_measurement(4, ordinary(numbers, runs_after, 180)),
    ]
    (pair,) = scaling_pairs(sides)
    assert pair.no_interval == ""
    ratios = (pair.total, pair.throughput, pair.efficiency)
    intervals = (pair.interval, pair.interval_throughput, pair.interval_efficiency)
    for ratio, interval in zip(
        ratios, intervals, strict=True
    ):  # three runs: the end may be the point itself, but for rounding
        assert interval.low * (1 - 1e-9) <= ratio <= interval.high * (1 + 1e-9)


@examples(20)
@given(st.randoms(use_true_random=False), st.integers(0, 1000))
def test_order_changes_nothing(shuffler, seed):
    numbers = np.random.default_rng(seed)
    items = [make_measurement(count, ordinary(numbers, 5, 600 / count)) for count in (1, 2, 4)]
    items.append(make_measurement(4, ordinary(numbers, 4, 170), batch_size_global=8192))
    mixed = [replace(item, runs=tuple(shuffler.sample(item.runs, len(item.runs)))) for item in items]
    shuffler.shuffle(mixed)
    facts = [
        [
            (one.devices_from, one.devices_to, one.scaling_kind, one.total, one.interval, one.flags)
            for one in scaling_pairs(group)
        ]
        for group in (items, mixed)
    ]
    assert facts[0] == facts[1]


def test_interval_is_the_same_each_time_and_grows_with_the_spread():
    quiet = [(100.0 + index, 10.0) for index in range(5)]
    loud = [(100.0 + 20 * index, 10.0) for index in range(5)]
    one, again = (scaling_pairs([make_measurement(1, quiet), make_measurement(4, quiet)])[0] for _ in range(2))
    assert one.interval == again.interval
    wide = scaling_pairs([make_measurement(1, loud), make_measurement(4, loud)])[0].interval
    assert wide.high - wide.low > 3 * (one.interval.high - one.interval.low)


def test_interval_is_the_one_of_a_plain_loop():
    """The same resampling, run by run and with the score of `scores.py`, agrees within the noise of the draw."""
    one = [(float(seconds), float(epochs)) for seconds, epochs in ((90, 9), (100, 11), (130, 12), (95, 10), (160, 15))]
    other = [(seconds / 3, epochs) for seconds, epochs in reversed(one[:4])]
    drawn = random.Random(7)
    ratios = []
    for _ in range(4000):
        means = [score([TimedRun(*run) for run in drawn.choices(side, k=len(side))]).seconds for side in (one, other)]
        ratios.append(means[0] / means[1])
    low, high = np.quantile(ratios, [0.025, 0.975])
    interval = scaling_pairs([make_measurement(1, one), make_measurement(4, other)])[0].interval
    assert interval.low == pytest.approx(low, rel=0.02)
    assert interval.high == pytest.approx(high, rel=0.02)
    assert RESAMPLES == 10_000


def test_many_runs_are_drawn_in_blocks(monkeypatch):
    numbers = np.random.default_rng(3)
    sides = [make_measurement(1, ordinary(numbers, 400, 600)), make_measurement(4, ordinary(numbers, 300, 180))]
    whole = scaling_pairs(sides)[0].interval
    monkeypatch.setattr("suite.results.score.bootstrap._DRAWS_AT_A_TIME", 1234)
    blocks = scaling_pairs(sides)[0].interval
    assert blocks.low == pytest.approx(whole.low, rel=0.005)
    assert blocks.high == pytest.approx(whole.high, rel=0.005)


def test_too_few_runs_are_said():
    (pair,) = scaling_pairs([make_measurement(1, [(100.0, 10.0)] * 5), make_measurement(2, [(60.0, 10.0)] * 2)])
    assert (pair.interval, pair.no_interval) == (None, "too few runs on 2 devices: 2, and 3 are needed")
    assert pair.total == pytest.approx(100 / 60)


def test_a_score_that_its_runs_do_not_give_has_no_interval():
    runs = [(100.0, 10.0), (110.0, 10.0), (120.0, 10.0)]
    odd = replace(make_measurement(1, runs), score=replace(make_measurement(1, runs).score, seconds=50.0))
    (pair,) = scaling_pairs([odd, make_measurement(2, runs)])
    assert pair.no_interval == "the score on 1 device does not come out of its single runs"


def test_a_run_of_no_time_gives_no_interval():
    (pair,) = scaling_pairs([make_measurement(1, [(0.0, 10.0)] * 4), make_measurement(2, [(60.0, 10.0)] * 4)])
    assert (pair.total, pair.interval) == (None, None)
    assert pair.no_interval == "a run on 1 device took no time"


def test_ncf_resamples_the_first_50():
    timed = tuple(TimedRun(float(100 + index), 13.0, start_ms=float(index)) for index in range(86))
    item = replace(make_measurement(1), runs=tuple(reversed(timed)), score=score(timed, 14, 100, FIRST_CONVERGED))
    runs, fast, slow = scored_runs(item)
    assert ([run.seconds for run in runs], fast, slow) == ([float(value) for value in range(100, 150)], 1, 1)


def test_a_failed_run_that_counts_as_the_slowest_stays_so():
    timed = [TimedRun(float(value), 10.0) for value in (10, 20, 30, 40)]
    item = replace(make_measurement(1), runs=tuple(timed), score=score(timed, failed=1, required=5))
    assert scored_runs(item)[1:] == (1, 0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"targets": {"hr_at_10": 0.6}}, "target differs: hr_at_10 0.635 and hr_at_10 0.6"),
        ({"clock": "v0.7"}, "clock rule differs: v0.5 and v0.7"),
        ({"precision": "fp16"}, "precision differs: fp32 and fp16"),
    ],
)
def test_what_differs_within_a_pair_is_flagged(changed, words):
    (pair,) = scaling_pairs([make_measurement(1), make_measurement(4, **changed)])
    assert pair.flags == (words,)


def test_kind_of_scaling():
    base = make_measurement(2, batch_size_global=128)
    assert scaling_kind(base, make_measurement(8, batch_size_global=128)) == "strong"
    assert scaling_kind(base, make_measurement(8, batch_size_global=512)) == "weak"
    assert scaling_kind(base, make_measurement(8, batch_size_global=256)) == "mixed"
    assert scaling_kind(base, make_measurement(8, batch_size_global=None)) == "unknown"
    assert scaling_kind(base, make_measurement(8, batch_size_global=128, batch_unit="tokens")) == "unknown"


def test_several_settings_on_as_many_devices_pair_with_their_like():
    rate, told = "opt_base_learning_rate", "base_learning_rate"
    one = [make_measurement(1, [(value, 10.0)], hyperparameters={rate: str(value)}) for value in (100.0, 200.0)]
    two = [make_measurement(2, [(value, 10.0)], hyperparameters={rate: str(value)}) for value in (200.0, 300.0)]
    (pair,) = scaling_pairs(one + two)
    assert (pair.before.hyperparameters, pair.after.hyperparameters) == ({rate: "200.0"}, {rate: "200.0"})
    assert pair.flags == (
        f"one of 2 results on 1 device: {told}=200.0",
        f"one of 2 results on 2 devices: {told}=200.0",
    )
    assert pair.settings == f"{told}=200.0"
    unlike = scaling_pairs([one[0], *two])
    assert len(unlike) == 2
    assert [pair.flags for pair in unlike] == [
        (f"one of 2 results on 2 devices: {told}={value}",) for value in ("200.0", "300.0")
    ]


def test_families_never_meet():
    assert scaling_pairs([make_measurement(1), make_measurement(4, family=("g",))]) == []
    assert scaling_pairs([make_measurement(1), make_measurement(4, workload="ssd")]) == []
    assert scaling_pairs([make_measurement(1), make_measurement(4, origin="v0.5")]) == []
    assert scaling_pairs([make_measurement(1), make_measurement(1)]) == []
    assert scaling_pairs([]) == []


def test_runs_of_fixed_length_give_a_throughput_with_an_interval(tmp_path):
    for index in range(4):
        options = {"stop": "epochs:3", "train_seconds": 1 + index / 100}
        write_run(tmp_path, "a", index, devices=1, samples=1000, **options)
        write_run(tmp_path, "b", index, devices=2, samples=1800, **options)
    (pair,) = scaling_pairs(measurements(rows(collect([tmp_path]))))
    assert (pair.total, pair.efficiency) == (None, None)
    assert pair.throughput == pytest.approx(1.8)
    assert pair.interval.low < 1.8 < pair.interval.high
    assert pair.verdict.startswith("1.80× faster training (samples/s)")


@pytest.mark.filterwarnings("error")
def test_numbers_out_of_range_give_no_interval(tmp_path):
    for index, devices in [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]:
        write_run(tmp_path, f"{devices}", index, devices=devices, stop="epochs:3", samples=1e308)
    (pair,) = scaling_pairs(measurements(rows(collect([tmp_path]))))
    assert (pair.interval, pair.no_interval) == (None, "the runs hold numbers out of range")


def test_our_logs_give_the_speedup_of_the_report(tmp_path):
    for index, (epochs, seconds) in enumerate([(3, 2.0), (5, 2.5), (4, 2.25), (9, 1.75), (6, 3.0)]):
        write_run(tmp_path, "a", index, qualities=[0.1] * (epochs - 1) + [0.65], seconds_per_epoch=seconds, devices=1,
                  profile="reference")  # fmt: skip
        write_run(tmp_path, "b", index, qualities=[0.1] * epochs + [0.65], seconds_per_epoch=seconds / 3, devices=4,
                  profile="reference")  # fmt: skip
    table = rows(collect([tmp_path]))
    (pair,) = scaling_pairs(measurements(table))
    assert pair.total == pytest.approx(table[1].speedup.total, rel=1e-12)
    assert pair.throughput == pytest.approx(table[1].speedup.throughput, rel=1e-12)
    assert pair.efficiency == pytest.approx(table[1].speedup.efficiency, rel=1e-12)
    assert pair.interval.low <= pair.total <= pair.interval.high
    assert pair.notes == ("fewer runs than the rules ask (5 of 100)",)


def test_compare_gives_one_pair():
    assert scaling_pair(make_measurement(1, [(100.0, 10.0)]), make_measurement(4, [(50.0, 10.0)])).total == 2.0


def test_all_shipped_scores_come_out_of_their_shipped_runs():
    """Right number of runs, olympic mean, one failed run as the slowest, NCF's 48 of the first 50: scores.py against 445."""
    compared = 0
    for item in load_published_results():
        published = item.measurement.score
        if item.round == ARTICLE:
            continue
        first = FIRST_CONVERGED if item.benchmark == "ncf" else None
        again = score(item.measurement.runs, published.runs_failed, published.runs_required, first)
        assert again.seconds == pytest.approx(float(item.row["seconds"]), abs=1e-3), item.name
        assert again.runs_retained == int(item.row["runs_used"])
        assert scored_runs(item.measurement) is not None, item.name
        assert published.epochs == again.epochs or again.epochs is None
        compared += 1
    assert compared == 445


def test_more_runs_than_the_rules_ask_are_marked():
    timed = [TimedRun(float(value), 10.0) for value in range(1, 8)]
    assert score(timed, required=7).notes == ()
    (note,) = score(timed, required=5).notes
    assert note == "more runs than the rules ask (7 for 5): which of them count was not fixed before"


def test_published_pairs_hold_together():
    found = scaling_pairs([item.measurement for item in load_published_results()])
    assert len(found) > 300
    for pair in found:
        assert pair.devices_from < pair.devices_to
        assert pair.before.workload == pair.after.workload
        assert pair.total == pytest.approx(pair.before.score.seconds / pair.after.score.seconds, rel=1e-12)
        if pair.interval is not None:
            assert pair.interval.low <= pair.total <= pair.interval.high
