"""Kill random parts of a sweep at random moments, resume the sweep, and check the results.

A round kills a worker (at any moment, during an evaluation, or while its log grows), the
controller, or the data thread, or sends two hang-up signals.

    python -m tests.stress.kill [--rounds 50] [--seed 1] [--framework pytorch]

Each round checks that no process is left, all written files are readable, finished runs are
unchanged, and `status.json` has the right status. It then checks that `resume=true` only runs the
missing runs, from their checkpoints if there are any, and that the final weights equal the weights
of an uninterrupted sweep. The script prints a line per round and JSON at the end.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil

from suite.common.logged_end import read_logged_end
from tests.helpers import PROJECT, TOY_RUN, events, status, suite_env, wait_until

KEPT = ("seed=1", "checkpoint=every:1", "checkpoint.final=true", "oversubscribe=true", "gpus=1,2")
TOY = ("-m", *TOY_RUN, *KEPT, "workload.misbehave=slow", "stop=epochs:4")
NCF = ("-m", "workload=ncf", "profile=demo", *KEPT, "stop=epochs:3", "device=cpu")
LONGEST_SECONDS = 3.0, 15.0
"""Latest moment of a kill in a sweep of the toy or NCF, a little less than its duration."""
RUNS = 2
EVALUATING = '"phase": "evaluate"'


def start(sweep, scratch, output, *arguments, **extra):
    """Start a sweep into `output`, with additional environment variables."""
    command = [
        sys.executable,
        str(PROJECT / "run_suite.py"),
        *sweep,
        f"output={output}",
        *arguments,
    ]
    environment = suite_env(scratch, toy=True, **extra)
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def workers(output):
    """Return the processes whose command line contains the output folder, except controllers."""
    processes = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if (
            str(output) in line
            and "run_suite.py" not in line
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ):
            processes.append(process)
    return processes


def evaluates(output):
    """Return whether a worker's heartbeat has the phase evaluate."""
    with contextlib.suppress(FileNotFoundError):
        return any(EVALUATING in beat.read_text() for beat in output.glob("*/run_*/.worker-0.json"))
    return False


def logged_bytes(output):
    """Return the total size of all logs."""
    return sum(log.stat().st_size for log in output.glob("*/run_*/result_*.txt"))


def is_moment(kind, output, logged):
    """Return whether a kill of this kind is due.

    `logged` is an earlier result of `logged_bytes`.
    """
    return (
        evaluates(output)
        if kind == "evaluation"
        else kind != "log" or logged_bytes(output) > logged
    )


def strike(kind, sweep, scratch, output, rng):
    """Run a sweep and kill `kind` at a random moment; return True if a process was killed.

    The function returns when no process of the sweep is left.
    """
    extra = {"TOY_DATA_ERROR_STEP": str(rng.randrange(1, 30))} if kind == "data thread" else {}
    controller = start(sweep, scratch, output, **extra)
    hit = kind == "data thread"
    if not hit:
        time.sleep(rng.uniform(0.3, LONGEST_SECONDS[sweep != TOY]))
    # Between two runs no worker exists: wait for the next worker.
    while not hit and controller.poll() is None:
        logged, is_worker = logged_bytes(output), kind in ("worker", "evaluation", "log")
        victims = [process.pid for process in workers(output)] if is_worker else [controller.pid]
        if not is_moment(kind, output, logged):
            continue
        with contextlib.suppress(ProcessLookupError):
            for victim in victims[:1]:
                for _ in range(2 if kind == "hang up" else 1):
                    os.kill(victim, signal.SIGHUP if kind == "hang up" else signal.SIGKILL)
                hit = True
    controller.communicate(timeout=300)
    wait_until("all processes of the sweep ended", lambda: not workers(output), 60)
    return hit


def statuses(output):
    """Return the status of every run folder, and check that all logs can be parsed."""
    result = {}
    for folder in output.glob("*/run_*"):
        result[folder] = status(folder)["status"] if (folder / "status.json").exists() else "absent"
        for log in folder.glob("result_*.txt"):
            for line in log.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    json.loads(line.partition(":::MLLOG ")[2])
    return result


def contents(folder):
    """Return the contents of all files of a run."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def weights(output):
    """Return the weights of all runs by the names of their folders."""
    result = {}
    for path in sorted(output.glob("*/run_*/weights.npz")):
        with np.load(path) as arrays:
            result[str(path.parent.relative_to(output))] = {
                name: arrays[name].tobytes() for name in arrays
            }
    return result


def scores(output):
    """Return the evaluation results and mean losses of all runs."""
    result = {}
    for log in sorted(output.glob("*/run_*/result_*.txt")):
        kept = [
            (key, value)
            for key, value, _ in events(log)
            if key in ("eval_accuracy", "tracked_stats")
        ]
        result[str(log.parent.relative_to(output))] = [
            value if key == "eval_accuracy" else value["loss"] for key, value in kept
        ]
    return result


ALLOWED = {
    "worker": {"success", "rank_died"},
    "controller": {"success", "running", "absent"},
    "data thread": {"success", "failed"},
    "evaluation": {"success", "rank_died"},
    "hang up": {"success", "interrupted", "running", "absent"},
    "log": {"success", "rank_died"},
}


def run_round(number, seed, sweep, scratch, whole):
    """Run a sweep with one kill, whose kind depends on the round, and resume it once.

    Return the killed part, the statuses after the kill, and how many runs resumed from a
    checkpoint. `whole` contains the weights of a sweep without a kill.
    """
    rng = random.Random(f"{seed}:{number}")
    kinds = [kind for kind in sorted(ALLOWED) if kind != "data thread" or sweep == TOY]
    kind, output = kinds[number % len(kinds)], scratch / f"round-{number}"
    hit = strike(kind, sweep, scratch, output, rng)
    after = statuses(output)
    assert set(after.values()) <= ALLOWED[kind], (kind, after)
    finished = {folder: contents(folder) for folder, status in after.items() if status == "success"}
    ends = {
        folder: [read_logged_end(log) for log in folder.glob("result_*.txt")] for folder in after
    }
    ended = [
        folder
        for folder, found in ends.items()
        if any(end is not None and end.is_finished for end in found)
    ]
    without_weights = {
        str(folder.relative_to(output)) for folder in ended if not (folder / "weights.npz").exists()
    }
    resumed = start(sweep, scratch, output, "resume=true")
    text = resumed.communicate(timeout=600)[0].decode()
    assert resumed.returncode == 0, text
    assert text.count("finished earlier") == len(ended), text
    final = statuses(output)
    assert len(final) == RUNS, final
    # A worker that is killed after the end of its log leaves its status in status.json. The log
    # counts, and is not run again.
    assert all(
        status == "success" or (folder in ended and status == after[folder])
        for folder, status in final.items()
    )
    assert {folder: contents(folder) for folder in finished} == finished
    assert len(list(output.glob("*/superseded/*"))) == len(after) - len(ended)
    assert weights(output) == {
        name: arrays for name, arrays in whole.items() if name not in without_weights
    }
    assert not workers(output)
    continued = text.count("resumed from")
    assert continued == sum(
        "suite_continued" in log.read_text() for log in output.glob("*/run_*/result_*.txt")
    )
    return (kind if hit else "nothing (the sweep was over)"), Counter(after.values()), continued


def main():
    """Run all rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--framework", help="run NCF's demo in this framework, instead of the toy")
    arguments = parser.parse_args()
    sweep = (*NCF, f"framework={arguments.framework}") if arguments.framework else TOY
    kinds, all_continued = Counter(), 0
    with tempfile.TemporaryDirectory() as scratch:
        start(sweep, Path(scratch), Path(scratch) / "whole").communicate(timeout=600)
        whole = weights(Path(scratch) / "whole")
        assert len(whole) == RUNS
        for number in range(arguments.rounds):
            kind, after, continued = run_round(number, arguments.seed, sweep, Path(scratch), whole)
            kinds[kind] += 1
            all_continued += continued
            print(
                f"round {number}: {kind} killed; statuses {dict(after)}; {continued} resumed",
                flush=True,
            )
    counts = {"rounds": arguments.rounds, "continued": all_continued, "orphans": 0, "lost": 0}
    print(json.dumps({**counts, "kinds": dict(kinds)}))


if __name__ == "__main__":
    main()
