"""Rounds of a bare loop: for each line on stdin, measure once and print JSON.

This module does not import the suite.
"""

import json
import sys
import time

WARM_UP_SECONDS = 0.4
"""Seconds of warm-up before a round. The warm-up fills the caches, and pages in memory that the
kernel may have reclaimed.
"""


def answer(counts, skipped, seconds, warmup=WARM_UP_SECONDS, second=None):
    """For each line on stdin, measure a round and print its rates.

    Args:
        counts: Iterator that yields the number of items (such as images) that each unit of work
            processes.
        skipped: Number of units of work before the first round.
        seconds: Minimum duration of a round.
        warmup: Seconds of untimed work before each round.
        second: A concurrent process with the same protocol. Its rates are added to the printed
            rates.
    """
    for _ in range(skipped):
        next(counts)
    print("ready", flush=True)
    for _ in sys.stdin:
        if second:
            second.stdin.write("go\n")
            second.stdin.flush()
        start = time.perf_counter()
        while time.perf_counter() - start < warmup:
            next(counts)
        done, start, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - start < seconds:
            done += next(counts)
        rates = [done / (time.perf_counter() - start), done / (time.process_time() - cpu)]
        if second:
            rates = [
                mine + theirs
                for mine, theirs in zip(rates, json.loads(second.stdout.readline()), strict=True)
            ]
        print(json.dumps(rates), flush=True)
