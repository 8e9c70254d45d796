"""How training bears another busy process: demo steps on all cores of an idle machine, and beside a process that never waits.

    python benchmarks/busy_machine.py [--workloads ncf,resnet50,ssd] [--frameworks pytorch,tensorflow,mxnet] [--cores 2]
        [--policies suite,spin,10000,1000,passive] [--rounds 7] [--seconds 2] [--before CHECKOUT]

A policy says how threads of OpenMP wait for each other: `suite`: as the suite chooses for a demo; `spin`: libgomp's own choice,
300,000 turns (GOMP_SPINCOUNT); a number: so many turns; `passive`: none (OMP_WAIT_POLICY). TensorFlow has threads of its own.
`--before`: a checkout of an earlier commit, whose steps are measured in the same rounds with the variables of its own suite.

A demo chooses its threads when it starts, so each contender is two processes: one started on the idle machine, whose rate there
is measured, and one started beside the process that never waits.

All contenders of a workload and framework take turns, idle and busy in each round. Printed as JSON, medians of the quieter half
of the rounds: samples_per_second idle and busy, their ratio (goal: 0.5), idle over that of `before` (goal: 0.97), and
others_share, what processes that belong to neither took of the cores meanwhile: above 0.05 the figures are worth little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from contenders import Contender
from measuring import BENCHMARKS, FRAMEWORKS, PROJECT, environment, show

from suite.common.paths import data_root
from suite.launch.children import die_with_parent
from suite.machine.cpu_load import core_seconds

HOG = [sys.executable, "-c", "while True: pass"]
GOALS = {"busy_over_idle": 0.5, "idle_over_before": 0.97}
SETTLE_SECONDS = 0.2
Sample = tuple[float, float]
"""(share of the cores that neither contender nor hog took, samples per second)."""


def policy_variables(name: str) -> dict[str, str]:
    """What a policy sets beside the suite's own variables."""
    if name in ("suite", "before"):
        return {}
    if name == "passive":
        return {"OMP_WAIT_POLICY": "PASSIVE"}
    return {"GOMP_SPINCOUNT": "300000" if name == "spin" else str(int(name))}


def benchmark_cores(arguments: argparse.Namespace) -> list[int]:
    """The cores that all share."""
    return sorted(os.sched_getaffinity(0))[: arguments.cores]


def busy_process(cores: Sequence[int]) -> subprocess.Popen[bytes]:
    """The process that never waits, running on these cores, and no longer than this one."""
    hog = subprocess.Popen(["taskset", "-c", ",".join(map(str, cores)), *HOG], preexec_fn=die_with_parent)
    time.sleep(SETTLE_SECONDS)
    return hog


def started(
    policy: str, state: str, arguments: argparse.Namespace, workload: str, framework: str, scratch: Path
) -> Contender:
    """A contender that started in that state of the machine."""
    hog = busy_process(benchmark_cores(arguments)) if state == "busy" else None
    try:
        return contender(policy, arguments, workload, framework, scratch / state)
    finally:
        if hog is not None:
            hog.kill()
            hog.wait()


def contender(policy: str, arguments: argparse.Namespace, workload: str, framework: str, scratch: Path) -> Contender:
    """The process that trains under a policy."""
    checkout = Path(arguments.before).resolve() if policy == "before" else PROJECT
    folder = scratch / f"{workload}-{framework}-{policy}"
    folder.mkdir(parents=True)
    places = {**os.environ, "PYTHONPATH": str(checkout), "SUITE_DATA_DIR": str(data_root())}
    script = str(BENCHMARKS / "busy_run.py")
    # Another way of waiting is compared at one thread for each core; how many the suite takes is part of its own way.
    more = [f"cpu.threads_per_device={arguments.cores}"] if policy_variables(policy) else []
    command = [sys.executable, script, workload, framework, str(arguments.cores), str(folder), *more]
    subprocess.run(command, check=True, env=places)
    variables = json.loads((folder / "variables.json").read_text())
    mine = policy_variables(policy)
    if mine:
        variables = {name: value for name, value in variables.items() if "WAIT" not in name and "SPIN" not in name}
    python = environment(framework).command()
    step = [str(BENCHMARKS / "busy_step.py"), str(folder / "run.json"), str(arguments.seconds)]
    pairs = {**variables, **mine, "PYTHONPATH": str(checkout), "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = ["env", *(f"{name}={value}" for name, value in pairs.items()), *python, *step]
    return Contender(command, benchmark_cores(arguments))


def measured(one: Contender, cores: list[int], hog: subprocess.Popen[bytes] | None) -> Sample:
    """A round, and what others took of the cores meanwhile."""

    def look() -> tuple[float, float, float]:
        spent = core_seconds()
        times = [psutil.Process(pid).cpu_times() for pid in (one.process.pid, hog.pid if hog else one.process.pid)]
        ours = sum(used.user + used.system for used in times[: 2 if hog else 1])
        return sum(spent[core][0] for core in cores), sum(spent[core][2] for core in cores), ours

    before = look()
    one.round()
    busy, every, ours = (last - first for first, last in zip(before, look(), strict=True))
    return max(0.0, busy - ours) / every, one.rates[-1][0]


def alternate(
    contenders: dict[str, dict[str, Contender]], cores: list[int], rounds: int
) -> dict[str, dict[str, list[Sample]]]:
    """Samples of every contender, idle and busy in turn."""
    found: dict[str, dict[str, list[Sample]]] = {name: {"idle": [], "busy": []} for name in contenders}
    for _ in range(rounds):
        for state in ("idle", "busy"):
            hog = busy_process(cores) if state == "busy" else None
            try:
                for name, both in contenders.items():
                    found[name][state].append(measured(both[state], cores, hog))
            finally:
                if hog is not None:
                    hog.kill()
                    hog.wait()
    return found


def summary(samples: dict[str, list[Sample]]) -> dict[str, float]:
    """Medians of the quieter half of the rounds."""
    quiet = {state: sorted(rounds)[: (len(rounds) + 1) // 2] for state, rounds in samples.items()}
    rates = {state: statistics.median(rate for _, rate in rounds) for state, rounds in quiet.items()}
    return {**rates, "others_share": max(share for rounds in quiet.values() for share, _ in rounds)}


def compare(workload: str, framework: str, arguments: argparse.Namespace, scratch: Path) -> list[dict[str, object]]:
    """All policies of one workload in one framework."""
    wanted = ["suite"] if framework == "tensorflow" else arguments.policies.split(",")
    names = [*(["before"] if arguments.before else []), *wanted]
    contenders = {
        name: {state: started(name, state, arguments, workload, framework, scratch) for state in ("idle", "busy")}
        for name in names
    }
    cores = benchmark_cores(arguments)
    samples = alternate(contenders, cores, arguments.rounds)
    for both in contenders.values():
        for one in both.values():
            one.close()
    figures = {name: summary(rounds) for name, rounds in samples.items()}
    results = []
    for name, found in figures.items():
        ratios = {"busy_over_idle": found["busy"] / found["idle"]}
        if arguments.before:
            ratios["idle_over_before"] = found["idle"] / figures["before"]["idle"]
        results.append({
            "workload": workload, "framework": framework, "policy": name,
            "samples_per_second": {state: round(found[state], 1) for state in ("idle", "busy")},
            **{key: round(value, 3) for key, value in ratios.items()},
            "met": all(value >= GOALS[key] for key, value in ratios.items()),
            "others_share": round(found["others_share"], 3),
            "rounds": {state: [round(rate, 1) for _, rate in rounds] for state, rounds in samples[name].items()},
        })  # fmt: skip
        print(json.dumps(results[-1]), file=sys.stderr)
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workloads", default="ncf,resnet50,ssd")
    parser.add_argument("--frameworks", default=FRAMEWORKS)
    parser.add_argument("--policies", default="suite,spin,10000,1000,passive")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--before", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        results = [
            item
            for workload in arguments.workloads.split(",")
            for framework in arguments.frameworks.split(",")
            for item in compare(workload, framework, arguments, Path(scratch))
        ]
    show("busy_machine", arguments.cores, goals=GOALS, results=results)


if __name__ == "__main__":
    main()
