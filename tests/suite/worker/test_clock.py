"""The run's clock, compared with the machine's uptime."""

import time
from types import SimpleNamespace

import pytest

from suite.worker import clock
from suite.worker.clock import ClockCheck


@pytest.fixture
def clocks(monkeypatch, tmp_path):
    """Return a function that sets the monotonic clock and the uptime."""
    monkeypatch.setattr(clock, "UPTIME", tmp_path / "uptime")
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now.seconds))

    def set_clocks(monotonic, uptime):
        now.seconds = monotonic
        (tmp_path / "uptime").write_text(f"{uptime:.2f} {2 * uptime:.2f}\n")

    return set_clocks


@pytest.mark.parametrize(
    ("monotonic", "uptime", "agrees"),
    [
        (100.0, 100.0, True),
        (100.0, 100.4, True),
        (10_000.0, 10_005.0, True),
        (50.0, 100.0, False),  # a clock at half the pace
        (100.0, 50.0, False),
        (100.0, 3_700.0, False),  # suspended for an hour
        (10_000.0, 10_020.0, False),
        (-5.0, 10.0, False),  # set back
    ],
)
def test_a_clock_that_disagrees_with_the_uptime_ends_the_run(clocks, monotonic, uptime, agrees):
    """Check the elapsed times. A constant offset is allowed: a time namespace has one."""
    clocks(7.0, 1_000_000.0)
    check = ClockCheck()
    check.begin()
    clocks(7.0 + monotonic, 1_000_000.0 + uptime)
    if agrees:
        check.check()
        return
    with pytest.raises(
        RuntimeError,
        match=f"{monotonic:.1f} s by its clock and {uptime:.1f} s by the machine's uptime",
    ):
        check.check()


@pytest.mark.parametrize("text", [None, "", "x y", "nonsense"])
def test_without_an_uptime_nothing_is_compared(monkeypatch, tmp_path, text):
    monkeypatch.setattr(clock, "UPTIME", tmp_path / "uptime")
    if text is not None:
        (tmp_path / "uptime").write_text(text)
    check = ClockCheck()
    check.begin()
    check.check()


def test_both_clocks_of_this_machine_agree():
    check = ClockCheck()
    check.begin()
    time.sleep(0.2)
    check.check()
