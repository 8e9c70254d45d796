"""Shares of time that went into waiting and evaluating."""

from types import SimpleNamespace

import pytest

from suite.results.logs.record import Throughput
from suite.results.report.time_fractions import Shares, of_row, shares, words


def block(train, evaluation, wait):
    return Throughput(1, 250, 500.0, 4000, train, evaluation, wait, 1.0)


def row(*runs):
    reading = [SimpleNamespace(record=SimpleNamespace(throughput=blocks)) for blocks in runs]
    return SimpleNamespace(attempts=[SimpleNamespace(succeeded=True, reading=one) for one in reading])


def test_times_are_summed_before_they_are_divided():
    assert shares([block(8.0, 3.0, 2.0), block(12.0, 2.0, 2.0)]) == Shares(0.2, 0.2)
    assert of_row(row([block(8.0, 3.0, 2.0)], [block(12.0, 2.0, 2.0)])) == Shares(0.2, 0.2)


@pytest.mark.parametrize("missing", [block(None, 3.0, 2.0), block(8.0, 3.0, None), block(0.0, 3.0, 0.0)])
def test_a_block_without_all_times_is_left_out(missing):
    assert shares([missing]) == Shares(None, None)
    assert shares([missing, block(10.0, 10.0, 1.0)]) == Shares(0.1, 0.5)


def test_runs_without_success_do_not_count():
    failed = row([block(1.0, 1.0, 1.0)]).attempts[0]
    failed.succeeded = False
    both = SimpleNamespace(attempts=[failed, *row([block(10.0, 10.0, 1.0)]).attempts])
    assert of_row(both) == Shares(0.1, 0.5)


def test_a_table_has_one_line():
    one, other = row([block(10.0, 10.0, 1.0)]), row([block(30.0, 10.0, 1.0)])
    evaluation, waiting = "of the time of training and evaluating", "of the time of training."
    assert (
        words([one, other]) == f"Evaluations took 25 to 50 % {evaluation}, waiting for data took 3.3 to 10 % {waiting}"
    )
    assert words([one]) == f"Evaluations took 50 % {evaluation}, waiting for data took 10 % {waiting}"
    assert words([row([block(10.0, None, 1.0)])]) == f"Waiting for data took 10 % {waiting}"
    assert words([row([])]) == ""
