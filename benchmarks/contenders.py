"""Measure several programs in alternating rounds.

The programs are processes that are pinned to the same cores and wait for their turn. At its start,
a program prints `ready`. For each line on stdin, the program measures once and prints a JSON list:
items per second, and items per second of CPU time. Concurrent load on the machine affects CPU time
less than elapsed time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from benchmarks.measuring import PROJECT

WARM_UP_SECONDS = 0.4
"""Seconds of warm-up before each timed round.

The warm-up is needed because caches are cold, and the kernel may have reclaimed memory of waiting
processes (DAMON). The bare loops use the same warm-up.
"""
REFILL_SECONDS = 1.5
"""Seconds of pause after a round, in which the workers of a DataLoader fill their queues.

Without the pause, the work of filling the queues would slow down the next program.
"""
Rates = dict[str, list[list[float]]]


class Contender:
    """A process that measures one round per request."""

    def __init__(self, command: Sequence[str], cores: Collection[int]) -> None:
        pipe = subprocess.PIPE
        taskset = ["taskset", "-c", ",".join(map(str, sorted(cores)))]
        self.process = subprocess.Popen(
            [*taskset, *command], stdin=pipe, stdout=pipe, text=True, cwd=PROJECT
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        if self.stdout.readline() != "ready\n":
            raise SystemExit(f"did not start: {' '.join(command)}")
        self.rates: list[list[float]] = []

    def round(self) -> None:
        """Measure a round."""
        self.stdin.write("go\n")
        self.stdin.flush()
        self.rates.append(json.loads(self.stdout.readline()))

    def close(self) -> None:
        """Stop the process."""
        self.stdin.close()
        self.process.wait()


def alternate(
    commands: Mapping[str, Sequence[str]],
    cores: Collection[int],
    rounds: int,
    refilling: Collection[str] = (),
) -> Rates:
    """Return the rates of all programs in every round.

    Each program in `refilling` is followed by a pause.
    """
    contenders = {name: Contender(command, cores) for name, command in commands.items()}
    for _ in range(rounds):
        for name, contender in contenders.items():
            contender.round()
            if name in refilling:
                time.sleep(REFILL_SECONDS)
    for contender in contenders.values():
        contender.close()
    return {name: contender.rates for name, contender in contenders.items()}


def answer_rounds(work: Callable[[float], int], seconds: float) -> None:
    """Measure and print a round of `seconds` for each line on stdin.

    `work` runs for at least the given number of seconds and returns its number of items.
    """
    work(WARM_UP_SECONDS)
    print("ready", flush=True)
    for _ in sys.stdin:
        work(WARM_UP_SECONDS)
        start, cpu = time.perf_counter(), time.process_time()
        done = work(seconds)
        print(
            json.dumps([done / (time.perf_counter() - start), done / (time.process_time() - cpu)]),
            flush=True,
        )
    os._exit(0)


def answer_pipeline(data: Any, seconds: float) -> None:
    """Measure a workload's input pipeline, with a round per line on stdin."""
    batches = data.train(0, 1 << 40)

    def work(limit_seconds: float) -> int:
        done, end = 0, time.perf_counter() + limit_seconds
        while time.perf_counter() < end:
            done += len(next(batches)[0].arrays["label"])
        data.finish()  # wait for the prefetched batches
        return done

    answer_rounds(work, seconds)


def medians(rates: Rates, clock: int) -> dict[str, float]:
    """Return medians over all rounds, in items per second.

    `clock` selects the time: 0 for elapsed time, 1 for CPU time.
    """
    return {
        name: statistics.median(rate[clock] for rate in rounds) for name, rounds in rates.items()
    }


def rounded(rates: Mapping[str, float]) -> dict[str, int]:
    """Round rates to whole items per second."""
    return {name: round(rate) for name, rate in rates.items()}
