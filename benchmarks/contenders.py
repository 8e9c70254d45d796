"""Measures programs in alternating rounds.

The programs are processes that wait for their turn, pinned to the same cores. A contender prints
`ready`. For each line on stdin, it measures once and prints a JSON list: items per second, and
items per second of processor time. Concurrent load on the machine affects processor time less.
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
"""Warm-up before each timed round.

Caches are cold, and the kernel may have reclaimed memory of waiting processes (DAMON). The bare
loops do the same.
"""
REFILL_SECONDS = 1.5
"""Pause after a round, in which a loader's workers fill their queues.

Otherwise the next round would pay for this work.
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
        """Measure once."""
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
    """Return the rates of all contenders in every round.

    A pause follows each contender in `refilling`.
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
    """Act as a contender with rounds of `seconds`.

    `work` runs for at least this long and returns its number of items.
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
    """Act as a contender that produces a workload's training batches."""
    batches = data.train(0, 1 << 40)

    def work(limit_seconds: float) -> int:
        done, end = 0, time.perf_counter() + limit_seconds
        while time.perf_counter() < end:
            done += len(next(batches)[0].arrays["label"])
        data.finish()  # wait for the batches that were begun ahead
        return done

    answer_rounds(work, seconds)


def medians(rates: Rates, clock: int) -> dict[str, float]:
    """Return medians over all rounds, in items per second.

    `clock` 0 counts elapsed time, `clock` 1 processor time.
    """
    return {
        name: statistics.median(rate[clock] for rate in rounds) for name, rounds in rates.items()
    }


def rounded(rates: Mapping[str, float]) -> dict[str, int]:
    """Round rates to whole items per second."""
    return {name: round(rate) for name, rate in rates.items()}
