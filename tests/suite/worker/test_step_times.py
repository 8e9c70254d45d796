"""`timing=steps`: the timed steps, the steps that are left out, and the log entry."""

import time

import numpy as np
import pytest

from suite.results.logs.reader import read
from suite.worker.step_times import WAITS, StepTimes
from tests.data.toy import toy
from tests.helpers import events
from tests.suite.worker.test_loop import run_loop
from workloads.api import TrainStats


class Slow(toy.ToyTrainer):
    def train(self, steps, first_step):
        def slowed():
            for item in steps:
                time.sleep(0.002)
                yield item

        return super().train(slowed(), first_step)


class Marking(toy.ToyTrainer):
    """A device that times its steps itself."""

    def time_steps(self, steps, seconds):
        for item in steps:
            yield item
            seconds.append(0.25)


def step_times(folder):
    found = [
        value for key, value, _ in events(folder / "result_0.txt") if key == "suite_step_times"
    ]
    assert len(found) <= 1
    return found[0] if found else None


def test_each_step_after_the_warm_up_is_timed(tmp_path):
    run_loop(
        tmp_path, trainer_type=Slow, stop="steps:7", timing_warmup_steps=3, timing_each="steps"
    )
    found = step_times(tmp_path)
    assert (found["count"], found["how"]) == (7, WAITS)
    assert 2 <= found["median_ms"] <= found["p90_ms"] <= found["p99_ms"]
    assert found["mean_ms"] >= 2
    record = read(tmp_path / "result_0.txt")
    assert (record.step_times["count"], record.step_times_by) == (7, WAITS)
    assert record.settings.timing_each == "steps"


def test_timing_does_not_change_the_computed_steps(tmp_path):
    losses = []
    for each in ("interval", "steps"):
        folder = tmp_path / each
        folder.mkdir()
        run_loop(folder, stop="steps:5", timing_each=each)
        (stats,) = [
            value for key, value, _ in events(folder / "result_0.txt") if key == "tracked_stats"
        ]
        losses.append((stats["samples"], stats["data_bytes"]))
    assert losses[0] == losses[1] == (5 * 64, 5 * 64 * 4)
    assert step_times(tmp_path / "interval") is None


def test_a_device_that_times_its_steps_is_used(tmp_path):
    run_loop(tmp_path, trainer_type=Marking, stop="steps:4", timing_each="steps")
    assert step_times(tmp_path) == {
        "count": 4, "mean_ms": 250.0, "sd_ms": 0.0, "median_ms": 250.0, "p90_ms": 250.0,
        "p99_ms": 250.0, "how": "device events",
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 100])
def test_statistics_are_those_of_numpy(count):
    """Compare with NumPy's statistics. A single step has no standard deviation."""
    times, values = StepTimes(), np.arange(1.0, count + 1)
    times.seconds += list(values / 1e3)
    found = times.statistics()
    of_numpy = {
        "mean_ms": values.mean(),
        "median_ms": np.median(values),
        "p90_ms": np.quantile(values, 0.9),
    }
    assert {name: found[name] for name in of_numpy} == pytest.approx(of_numpy)
    assert found["p99_ms"] == {1: 1.0, 100: 99.01}[count]
    assert found["sd_ms"] == (None if count == 1 else pytest.approx(values.std(ddof=1), rel=1e-6))


def test_waiting_for_data_is_not_in_a_step():
    class Trainer:
        def time_steps(self, steps, seconds):
            return None

    def late():
        for item in range(2):
            time.sleep(0.05)
            yield item

    times = StepTimes()
    stats = times.timed(Trainer(), lambda steps, first: TrainStats(1, float(first)), late(), 3)
    assert max(times.seconds) < 0.05
    assert stats == TrainStats(2, 3.5)
