"""Shares of time that went into waiting and evaluating."""

from types import SimpleNamespace

import pytest

from suite.results.logs.record import Throughput
from suite.results.report.time_fractions import TimeFractions, row_time_fractions, time_fractions, time_fractions_line


def block(train, evaluation, wait):
    return Throughput(1, 250, 500.0, 4000, train, evaluation, wait, 1.0)


def row(*runs):
    reading = [SimpleNamespace(record=SimpleNamespace(throughput=blocks)) for blocks in runs]
    return SimpleNamespace(attempts=[SimpleNamespace(succeeded=True, reading=one) for one in reading])


def test_times_are_summed_before_they_are_divided():
    assert time_fractions([block(8.0, 3.0, 2.0), block(12.0, 2.0, 2.0)]) == TimeFractions(0.2, 0.2)
    assert row_time_fractions(row([block(8.0, 3.0, 2.0)], [block(12.0, 2.0, 2.0)])) == TimeFractions(0.2, 0.2)


@pytest.mark.parametrize("missing", [block(None, 3.0, 2.0), block(8.0, 3.0, None), block(0.0, 3.0, 0.0)])
def test_a_block_without_all_times_is_left_out(missing):
    assert time_fractions([missing]) == TimeFractions(None, None)
    assert time_fractions([missing, block(10.0, 10.0, 1.0)]) == TimeFractions(0.1, 0.5)


def test_runs_without_success_do_not_count():
    failed = row([block(1.0, 1.0, 1.0)]).attempts[0]
    failed.succeeded = False
    both = SimpleNamespace(attempts=[failed, *row([block(10.0, 10.0, 1.0)]).attempts])
    assert row_time_fractions(both) == TimeFractions(0.1, 0.5)


def test_a_table_has_one_line():
    one, other = row([block(10.0, 10.0, 1.0)]), row([block(30.0, 10.0, 1.0)])
    evaluation, waiting = "of the time of training and evaluating", "of the time of training."
    assert (
        time_fractions_line([one, other])
        == f"Evaluations took 25 to 50 % {evaluation}, waiting for data took 3.3 to 10 % {waiting}"
    )
    assert time_fractions_line([one]) == f"Evaluations took 50 % {evaluation}, waiting for data took 10 % {waiting}"
    assert time_fractions_line([row([block(10.0, None, 1.0)])]) == f"Waiting for data took 10 % {waiting}"
    assert time_fractions_line([row([])]) == ""
