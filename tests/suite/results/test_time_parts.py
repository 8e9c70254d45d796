"""Parts of a time to target, and factors of a speedup.

The parts add up, setup is not part of an epoch, and a speedup is the product of its factors.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results import read
from suite.results.ratios import ratio
from suite.results.scores import results
from suite.results.time_parts import TimeParts, mean_parts, time_parts
from testing.fake_logs import demo_log, foreign, line, write, write_run
from tests.helpers import examples

SECONDS = st.floats(0.5, 50.0).map(lambda seconds: round(seconds, 3))


def one_run(path, **options):
    return read(write(path / "result_0.txt", demo_log(**options)))


def test_parts_of_a_log_with_setup(tmp_path):
    record = one_run(
        tmp_path,
        setup_seconds=4.9,
        seconds_per_epoch=1.6,
        train_seconds=0.8,
        evaluation_seconds=0.55,
    )
    parts = time_parts(record)
    assert parts == pytest.approx((4.9, 3 * 0.3, 3 * 0.5, 3 * 0.55, 3 * 0.25), abs=0.01)
    assert parts.total == pytest.approx(record.seconds)
    assert record.block_times.block_seconds == pytest.approx(3 * 1.6)


@examples(50)
@given(setup=SECONDS, epoch=SECONDS, epochs=st.integers(1, 20))
def test_parts_add_up_for_any_times(tmp_path_factory, setup, epoch, epochs):
    qualities = [0.1] * (epochs - 1) + [0.7]
    train, evaluation = 0.6 * epoch + 0.5, 0.1 * epoch
    record = one_run(
        tmp_path_factory.mktemp("log"),
        qualities=qualities,
        setup_seconds=setup,
        seconds_per_epoch=epoch + 1.0,
        train_seconds=train,
        evaluation_seconds=evaluation,
    )
    parts = time_parts(record)
    assert parts.total == pytest.approx(record.seconds, abs=1e-6)
    assert parts.setup == pytest.approx(setup, abs=2e-3)
    assert min(parts) >= 0.0


def test_logs_that_do_not_separate_setup_have_no_parts(tmp_path):
    foreign(tmp_path / "theirs" / "result_0.txt")
    assert time_parts(read(tmp_path / "theirs" / "result_0.txt")) is None
    without_blocks = [text for text in demo_log() if '"block_' not in text]
    assert time_parts(read(write(tmp_path / "a" / "result_0.txt", without_blocks))) is None
    assert time_parts(read(write(tmp_path / "b" / "result_0.txt", demo_log()[:-1]))) is None, (
        "a run that was cut off"
    )
    assert mean_parts([None]) is mean_parts([]) is None


@pytest.mark.parametrize(
    "options", [{"train_seconds": 30.0}, {"evaluation_seconds": 9.0}, {"train_seconds": 0.25}]
)
def test_a_log_that_contradicts_itself_has_no_parts(tmp_path, options):
    """Training or evaluation exceeds the run, or waiting for data exceeds the training time."""
    assert time_parts(one_run(tmp_path, **options)) is None


def test_a_block_that_was_interrupted_is_not_counted(tmp_path):
    lines = demo_log(seconds_per_epoch=2.0)
    lines.insert(-1, line(5_990, "block_start", first_epoch_num=3, epoch_count=1))
    record = read(write(tmp_path / "result_0.txt", lines))
    assert record.block_times.block_seconds == pytest.approx(6.0)


def test_the_mean_of_several_runs_has_the_mean_parts():
    assert mean_parts([]) is None
    assert TimeParts(1.0, 2.0, 3.0, 4.0, 5.0).outside_epochs == 6.0


def pair(root, before, after):
    """Return the ratio of a run on one device to a run on two devices with the given options."""
    write_run(root, "one", devices=1, **before)
    write_run(root, "two", devices=2, **after)
    return ratio(*sorted(results(root), key=lambda result: result.devices))


def test_a_speedup_is_the_product_of_epochs_their_time_and_setup(tmp_path):
    """Compare 11.7 s, of which 4.9 s are setup, with 5.6 s, of which 1.2 s are setup."""
    five = (0.1, 0.2, 0.3, 0.4, 0.7)
    found = pair(
        tmp_path,
        {"qualities": five, "setup_seconds": 4.9, "seconds_per_epoch": 1.36},
        {
            "qualities": five,
            "setup_seconds": 1.2,
            "seconds_per_epoch": 0.88,
            "train_seconds": 0.6,
            "evaluation_seconds": 0.2,
        },
    )
    assert found.total == pytest.approx(11.7 / 5.6)
    assert (found.throughput, found.efficiency) == (pytest.approx(1.36 / 0.88), 1.0)
    assert found.throughput * found.efficiency * found.setup == pytest.approx(found.total)
    assert found.setup_saving == pytest.approx(3.7 / 6.1)
    assert found.setup_explains_much


def test_shorter_setup_can_hide_slower_epochs(tmp_path):
    """Time to target is 1.02 times faster although each epoch takes 27 % longer."""
    found = pair(
        tmp_path,
        {"setup_seconds": 4.0, "seconds_per_epoch": 1.5},
        {"setup_seconds": 2.62, "seconds_per_epoch": 1.905},
    )
    assert found.total == pytest.approx(8.5 / 8.335)
    assert found.throughput == pytest.approx(1 / 1.27)
    assert found.setup_saving > 1
    assert found.setup_explains_much


@pytest.mark.parametrize(
    ("setup", "much"), [((1.0, 1.0), False), ((1.0, 0.6), False), ((3.0, 1.0), True)]
)
def test_setup_is_mentioned_if_it_explains_more_than_a_fifth(tmp_path, setup, much):
    before, after = (
        {"setup_seconds": seconds, "seconds_per_epoch": epoch}
        for seconds, epoch in zip(setup, (4, 2), strict=True)
    )
    assert pair(tmp_path, before, after).setup_explains_much == much


def test_published_logs_are_not_decomposed_into_setup(tmp_path):
    for seconds, system in ((60, "few"), (30, "many")):
        foreign(tmp_path / system / "resnet" / "result_0.txt", system, seconds=seconds)
    slow, fast = sorted(results(tmp_path), key=lambda result: -result.seconds)
    found = ratio(slow, fast)
    assert (found.setup, found.setup_saving, found.setup_explains_much) == (None, None, False)
    assert found.total == pytest.approx(found.throughput * found.efficiency)


def test_ours_against_published_compares_all_time_per_epoch(tmp_path):
    """Published logs include setup in the time per epoch, so it is included in ours too."""
    write_run(tmp_path / "ours", "one", setup_seconds=3.0, seconds_per_epoch=1.0, train_seconds=0.6)
    foreign(tmp_path / "theirs" / "resnet" / "result_0.txt", seconds=12)
    (ours,), (theirs,) = results(tmp_path / "ours"), results(tmp_path / "theirs")
    assert ours.seconds_per_epoch == pytest.approx(1.0)
    found = ratio(theirs, ours)
    assert found.throughput == pytest.approx((12 / 2) / (6 / 3))
    assert math.isclose(found.total, 12 / 6)
