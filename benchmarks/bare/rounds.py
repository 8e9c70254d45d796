"""How a bare loop answers rounds: one word on stdin, one JSON line. Does not import the suite."""

import json
import sys
import time

WARM_UP_SECONDS = 0.4
"""Caches are cold, and a kernel may have taken memory back meanwhile."""


def answer(counts, skipped, seconds, warmup=WARM_UP_SECONDS, other=None):
    """Answer rounds.

    `counts` yields numbers of completed items; the rates of the concurrent process `other` are
    added.
    """
    for _ in range(skipped):
        next(counts)
    print("ready", flush=True)
    for _ in sys.stdin:
        if other:
            other.stdin.write("go\n")
            other.stdin.flush()
        start = time.perf_counter()
        while time.perf_counter() - start < warmup:
            next(counts)
        done, start, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - start < seconds:
            done += next(counts)
        rates = [done / (time.perf_counter() - start), done / (time.process_time() - cpu)]
        if other:
            rates = [
                mine + others
                for mine, others in zip(rates, json.loads(other.stdout.readline()), strict=True)
            ]
        print(json.dumps(rates), flush=True)
