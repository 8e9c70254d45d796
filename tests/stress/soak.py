"""Run demo sweeps for hours, with random kills and resumptions, next to uninterrupted sweeps.

    python -m tests.stress.soak [--minutes 120] [--seconds 40] [OVERRIDES OF RUN_SUITE...]

The sweeps write checkpoints after every epoch. A kill hits the controller or a worker, on average
every 40 seconds. After every sweep the script checks that the weights, scores and losses of all
runs are bitwise equal, and that no process is left. It prints a line per sweep and JSON at the end.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.helpers import wait_until
from tests.stress.kill import scores, start, weights, workers

SWEEP = ("workload=ncf,resnet50,ssd", "framework=pytorch", "gpus=1,2")
KEPT = (
    "profile=demo",
    "device=cpu",
    "oversubscribe=true",
    "checkpoint=every:1",
    "checkpoint.final=true",
)


def count(output, key):
    """Return the number of log lines with this key."""
    return sum(log.read_text().count(f'"{key}"') for log in output.glob("*/run_*/result_*.txt"))


def interrupted(sweep, scratch, output, rng, mean_seconds):
    """Start a sweep, and kill and resume it until it succeeds.

    Return the number of kills of the controller and of workers.
    """
    kills, resumed = {"controller": 0, "worker": 0}, []
    while True:
        controller, before = start(sweep, scratch, output, *resumed), sum(kills.values())
        resumed = ["resume=true"]
        while True:
            try:
                text = controller.communicate(timeout=rng.uniform(0, 2 * mean_seconds))[0].decode()
                break
            except subprocess.TimeoutExpired:
                kind = rng.choice(sorted(kills))
                victims = (
                    [process.pid for process in workers(output)]
                    if kind == "worker"
                    else [controller.pid]
                )
                with contextlib.suppress(ProcessLookupError):
                    for victim in victims[:1]:
                        os.kill(victim, signal.SIGKILL)
                        kills[kind] += 1
        wait_until("all processes of the sweep ended", lambda: not workers(output), 60)
        if controller.returncode == 0:
            return kills
        assert sum(kills.values()) > before, text  # otherwise the sweep failed without a kill


def main():
    """Run sweeps with increasing seeds until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seconds", type=float, default=40, help="average time between two kills")
    parser.add_argument("overrides", nargs="*", default=SWEEP)
    arguments = parser.parse_args()
    begin, seed = time.monotonic(), 1
    totals = dict.fromkeys(
        ("sweeps", "runs", "controller", "worker", "checkpoints", "continued"), 0
    )
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - begin < arguments.minutes * 60:
            whole, cut = (Path(folder, f"{seed}-{name}") for name in ("whole", "cut"))
            sweep = ("-m", *arguments.overrides, *KEPT, f"seed={seed}")
            text = start(sweep, Path(folder), whole).communicate()[0].decode()
            expected = weights(whole)
            assert expected, text
            kills = interrupted(sweep, Path(folder), cut, random.Random(seed), arguments.seconds)
            assert scores(cut) == scores(whole)
            assert weights(cut) == expected
            counts = {"runs": len(expected), **kills, "checkpoints": count(cut, "suite_checkpoint")}
            counts |= {"sweeps": 1, "continued": count(cut, "suite_continued")}
            totals = {key: value + counts[key] for key, value in totals.items()}
            minutes = (time.monotonic() - begin) / 60
            print(f"seed {seed}, minute {minutes:.0f}: equal; {counts}", flush=True)
            seed += 1
    print(json.dumps({"minutes": round(minutes), **totals}))


if __name__ == "__main__":
    main()
