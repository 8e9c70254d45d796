"""Measure several programs in alternating rounds.

The programs are processes that are pinned to the same cores and wait for their turn. At its start,
a program prints `ready`. For each line on stdin, the program measures a round and prints a JSON
list: items per second, and items per second of CPU time. Concurrent load on the machine affects CPU
time less than elapsed time.
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

The warm-up is needed because caches are cold and the kernel may have reclaimed memory of waiting
processes (DAMON). The bare loops have the same warm-up time.
"""
REFILL_SECONDS = 1.5
"""Seconds of pause after a round, in which the worker processes of a DataLoader fill their queues.

Without the pause, the DataLoader would still fill its queues while the next program is measured,
and slow the program down.
"""
Rates = dict[str, list[list[float]]]


class Contender:
    """A process that measures one round per line on its stdin."""

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
        """Let the process measure a round, and append the rates."""
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

    After each round of a program in `refilling`, the benchmark pauses for `REFILL_SECONDS`.
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
    """For each line on stdin, measure a round of `seconds` and print the rates.

    The function `work` runs for at least the given number of seconds and returns the number of
    processed items.
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
    """Measure a round of a workload's input pipeline for each line on stdin."""
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
