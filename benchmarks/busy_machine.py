"""Measure how much another busy process slows down training.

    python -m benchmarks.busy_machine [--workloads ncf,resnet50,ssd]
        [--frameworks pytorch,tensorflow,mxnet] [--cores 2]
        [--policies suite,spin,10000,1000,passive] [--rounds 7] [--seconds 2]

The benchmark compares the rate of demo steps on an idle machine with their rate while another
process keeps the same cores busy.

A policy determines how OpenMP threads wait for each other:
* `suite`: the policy that the suite uses for a demo.
* `spin`: libgomp's default of 300,000 iterations (GOMP_SPINCOUNT).
* a number: this number of iterations.
* `passive`: no spinning (OMP_WAIT_POLICY).

TensorFlow does not use OpenMP threads and is measured with `suite` only.

A demo chooses its number of threads when it starts. Each policy is therefore measured with two
processes. The first process starts on the idle machine and is measured on the idle machine. The
second process starts while the busy process runs, and is measured together with the busy process.
Both training processes use the same cores and number of threads as a worker of the suite that
starts at the same time, and train on the demo's data.

All policies of a workload and framework are measured in turn. Each round measures every policy on
the idle and on the busy machine. The output is JSON with medians over the less disturbed half of
the rounds. The output contains samples_per_second when idle and when busy, the ratio busy/idle
(goal: 0.5), and others_share. The number others_share is the share of the cores that unrelated
processes used. Results with others_share above 0.05 are unreliable.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks.contenders import Contender, answer_rounds
from benchmarks.measuring import FRAMEWORKS, environment, parser_with, show, trainer_of
from suite.common import registry
from suite.common.runspec import read_run
from suite.launch.base import worker_context_for
from suite.launch.children import die_with_parent
from suite.machine.cpu_load import core_seconds
from suite.worker.main import pin_to_cores
from suite.worker.threads import resolve_thread_count
from testing.python_path import with_yaml
from workloads.api import Batch

HOG = [sys.executable, "-c", "while True: pass"]
GOAL = 0.5
"""Target for the rate on the busy machine divided by the rate on the idle machine."""
SETTLE_SECONDS = 0.2
Sample = tuple[float, float]
"""The pair (share of the cores used by unrelated processes, samples per second)."""


def policy_variables(name: str) -> dict[str, str]:
    """Return the environment variables of a policy, which replace the suite's variables."""
    if name == "suite":
        return {}
    if name == "passive":
        return {"OMP_WAIT_POLICY": "PASSIVE"}
    return {"GOMP_SPINCOUNT": "300000" if name == "spin" else str(int(name))}


@contextlib.contextmanager
def machine(state: str, cores: Sequence[int]) -> Iterator[subprocess.Popen[bytes] | None]:
    """Keep the given cores `idle`, or `busy` with a process that never waits.

    The busy process ends when this process ends.
    """
    if state == "idle":
        yield None
        return
    hog = subprocess.Popen(
        ["taskset", "-c", ",".join(map(str, cores)), *HOG], preexec_fn=die_with_parent
    )
    time.sleep(SETTLE_SECONDS)
    try:
        yield hog
    finally:
        hog.kill()
        hog.wait()


def planned(words: Sequence[str], folder: Path) -> dict[str, str]:
    """Write `run.json`, and return the environment variables that the launcher would set.

    Missing demo data sets are generated.
    """
    # a framework's environment lacks the packages that these lines import
    from rich.console import Console

    from suite.config.compose import compose
    from suite.control.command import Command
    from suite.control.planning import check_jobs, plan_all
    from suite.launch.base import create_rendezvous
    from suite.launch.hosts import hosts_of

    output = folder / "unused"
    command = Command(compose([*words, f"output={output}"]), output, Console(stderr=True))
    (job,), _ = check_jobs(command, plan_all(command.request, output))
    run = job.run(0, False)
    run.write(folder / "run.json")
    cluster = create_rendezvous(hosts_of(run))
    (worker,) = registry.load_framework(run.settings.framework).commands(
        run, "run.json", cluster, cluster.hosts[0]
    )
    return dict(worker.env)


def contender(
    policy: str,
    arguments: argparse.Namespace,
    workload: str,
    framework: str,
    cores: Sequence[int],
    folder: Path,
) -> Contender:
    """Start a process that trains with the OpenMP wait policy `policy`."""
    folder.mkdir(parents=True)
    words = [
        f"workload={workload}",
        f"framework={framework}",
        "profile=demo",
        "device=cpu",
        "seed=1",
    ]
    words += [f"cpu.cores_per_device={arguments.cores}"]
    mine = policy_variables(policy)
    # The suite's policy also chooses the number of threads. All policies except `suite` are
    # measured with one thread per core.
    env = planned(
        [*words, *([f"cpu.threads_per_device={arguments.cores}"] if mine else [])], folder
    )
    if mine:
        env = {
            name: value for name, value in env.items() if "WAIT" not in name and "SPIN" not in name
        }
    pairs = {**env, **mine, "PYTHONPATH": with_yaml(), "TF_CPP_MIN_LOG_LEVEL": "2"}
    step = [
        "-m",
        "benchmarks.busy_machine",
        "--run",
        str(folder / "run.json"),
        "--seconds",
        str(arguments.seconds),
    ]
    command = environment(framework).command(*step)
    return Contender(
        ["env", *(f"{name}={value}" for name, value in pairs.items()), *command], cores
    )


def train(path: Path, seconds: float) -> None:
    """Train the run in a run.json repeatedly, on the demo's data.

    The process uses the same cores and number of threads as a worker of the suite.
    """
    run = read_run(path)
    worker = resolve_thread_count(worker_context_for(run, 0, 1), run.settings)
    pin_to_cores(worker)
    workload = registry.load_workload(run.settings.workload)(run.settings, run.dataset_info)
    trainer = trainer_of(workload, worker)
    batches = workload.open_data(worker, run.settings.seed).train(0, 1 << 40)

    def work(limit_seconds: float) -> int:
        samples, end = 0, time.perf_counter() + limit_seconds

        def segment() -> Iterator[list[Batch]]:
            nonlocal samples
            while True:
                batch = next(batches)
                samples += batch[0].global_samples
                yield batch
                if time.perf_counter() > end:
                    return

        trainer.train(segment(), 0)
        return samples

    answer_rounds(work, seconds)


def measured(
    trainer: Contender, cores: Sequence[int], hog: subprocess.Popen[bytes] | None
) -> Sample:
    """Measure a round, and the share of the cores that unrelated processes used meanwhile."""

    def look() -> tuple[float, float, float]:
        spent = core_seconds()
        pids = [trainer.process.pid, *([hog.pid] if hog else [])]
        times = [psutil.Process(pid).cpu_times() for pid in pids]
        ours = sum(used.user + used.system for used in times)
        return sum(spent[core][0] for core in cores), sum(spent[core][2] for core in cores), ours

    before = look()
    trainer.round()
    busy, every, ours = (last - first for first, last in zip(before, look(), strict=True))
    return max(0.0, busy - ours) / every, trainer.rates[-1][0]


def figures(samples: dict[str, list[Sample]]) -> dict[str, object]:
    """Return medians over the less disturbed half of the rounds."""
    quiet = {state: sorted(rounds)[: (len(rounds) + 1) // 2] for state, rounds in samples.items()}
    rates = {
        state: statistics.median(rate for _, rate in rounds) for state, rounds in quiet.items()
    }
    ratio = rates["busy"] / rates["idle"]
    return {
        "samples_per_second": {state: round(rate, 1) for state, rate in rates.items()},
        "busy_over_idle": round(ratio, 3),
        "met": ratio >= GOAL,
        "others_share": round(max(share for rounds in quiet.values() for share, _ in rounds), 3),
        "rounds": {
            state: [round(rate, 1) for _, rate in rounds] for state, rounds in samples.items()
        },
    }


def compare(
    workload: str, framework: str, arguments: argparse.Namespace, scratch: Path
) -> Iterator[dict[str, object]]:
    """Measure all policies for a workload and a framework."""
    names = ["suite"] if framework == "tensorflow" else arguments.policies.split(",")
    cores = sorted(os.sched_getaffinity(0))[: arguments.cores]
    contenders: dict[str, dict[str, Contender]] = {name: {} for name in names}
    for name, both in contenders.items():
        for state in ("idle", "busy"):
            with machine(state, cores):
                folder = scratch / state / f"{workload}-{framework}-{name}"
                both[state] = contender(name, arguments, workload, framework, cores, folder)
    samples: dict[str, dict[str, list[Sample]]] = {name: {"idle": [], "busy": []} for name in names}
    for _ in range(arguments.rounds):
        for state in ("idle", "busy"):
            with machine(state, cores) as hog:
                for name, both in contenders.items():
                    samples[name][state].append(measured(both[state], cores, hog))
    for both in contenders.values():
        for each in both.values():
            each.close()
    for name, found in samples.items():
        result = {"workload": workload, "framework": framework, "policy": name, **figures(found)}
        print(json.dumps(result), file=sys.stderr)
        yield result


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(
        __doc__, workloads="ncf,resnet50,ssd", frameworks=FRAMEWORKS,
        policies="suite,spin,10000,1000,passive",
        cores=2, rounds=7, seconds=2.0,
    )  # fmt: skip
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return train(arguments.run, arguments.seconds)
    with tempfile.TemporaryDirectory() as scratch:
        results = [
            item
            for workload in arguments.workloads.split(",")
            for framework in arguments.frameworks.split(",")
            for item in compare(workload, framework, arguments, Path(scratch))
        ]
    show("busy_machine", arguments.cores, goals={"busy_over_idle": GOAL}, results=results)


if __name__ == "__main__":
    main()
