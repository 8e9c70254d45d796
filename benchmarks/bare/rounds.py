"""Rounds of a bare loop: for each line on stdin, it measures once and prints a line of JSON.

No function imports the suite.
"""

import json
import sys
import time

WARM_UP_SECONDS = 0.4
"""Warm-up before a round: caches are cold, and the kernel may have reclaimed memory meanwhile."""


def answer(counts, skipped, seconds, warmup=WARM_UP_SECONDS, second=None):
    """Answer each line on stdin with the rates of a round.

    Args:
        counts: Yields the number of items completed by each unit of work.
        skipped: Units of work before the first round.
        seconds: Minimum duration of a round.
        warmup: Seconds of untimed work before each round.
        second: A concurrent process with the same protocol, whose rates are added.
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
