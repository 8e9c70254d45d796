"""Shared functions of the benchmarks.

The functions start measured processes, and print JSON with the machine, the date, and the load.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.common import registry
from suite.common.git_state import git_state
from suite.launch import mxnet, pytorch
from suite.launch.base import thread_variables
from suite.launch.network import free_ports
from suite.machine.devices import cpu_model
from testing.python_path import with_yaml
from workloads.api import WorkerContext, Workload

PROJECT = Path(__file__).resolve().parent.parent
FRAMEWORKS = "pytorch,tensorflow,mxnet"
MALLOC_TUNABLES = {"pytorch": pytorch.MALLOC_TUNABLES, "mxnet": mxnet.MALLOC_TUNABLES}
_BEGIN, _LOAD = time.time(), os.getloadavg()[0]


def parser_with(doc: str | None, /, **options: str | float) -> argparse.ArgumentParser:
    """Return a parser with the first line of `doc` as description and the given options.

    Each option `--NAME` has the type of its default value.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser


def head(benchmark: str, cores: int = 0) -> dict[str, object]:
    """Return the context of a benchmark's results, such as the machine and the date.

    `cores` is the number of cores that the benchmark used, or 0 for all cores.
    """
    return {
        "benchmark": benchmark,
        "device": f"{cores} core{'s' * (cores > 1)} of {cpu_model()}" if cores else cpu_model(),
        "date": time.strftime("%Y-%m-%d", time.gmtime(_BEGIN)),
        "seconds": round(time.time() - _BEGIN),
        "load_average": {"before": round(_LOAD, 2), "after": round(os.getloadavg()[0], 2)},
        "git": git_state(),
    }


def show(benchmark: str, cores: int = 0, /, **figures: object) -> None:
    """Print the context and the results of a benchmark as JSON."""
    print(json.dumps({**head(benchmark, cores), **figures}, indent=1, ensure_ascii=False))


def environment(framework: str) -> Any:
    """Return the framework's environment for runs on CPUs."""
    from suite.common.run_config import EnvironmentConfig

    # a framework's environment lacks a package that this module imports
    from suite.environments.environment import resolve

    return resolve(EnvironmentConfig(), registry.load_framework(framework).environments["cpu"])


def in_environment(framework: str, words: Sequence[object], cores: int, malloc: bool = True) -> Any:
    """Run a module in a framework's environment, and return the JSON in its last line.

    The process is pinned to the first `cores` cores.

    Args:
        framework: Name of the framework whose environment is used.
        words: Name of the module, followed by its arguments.
        cores: Number of cores and of threads.
        malloc: Set the allocator variables that the launcher sets for the suite's workers.

    Raises:
        SystemExit: The process failed.
    """
    env = {
        **os.environ,
        **thread_variables(cores),
        "PYTHONPATH": with_yaml(),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    if malloc and framework in MALLOC_TUNABLES:
        env["GLIBC_TUNABLES"] = MALLOC_TUNABLES[framework]
    pin = ["taskset", "-c", ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:cores])]
    command = [*pin, *environment(framework).command("-m", *map(str, words))]
    return json.loads(_output_of(command, env).strip().splitlines()[-1])


def trainer_of(workload: Workload, worker: WorkerContext | None = None, warmup: bool = True) -> Any:
    """Set up the workload's trainer in this process, as the only worker.

    By default, `worker` has a single CPU device.
    """
    worker = worker or WorkerContext(
        0, 1, range(1), 1, ("cpu",), cores_per_device=workload.settings.cores_per_device or 1
    )
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_PORT=str(free_ports(1)[0]))
    trainer = registry.load_trainer(workload.name, workload.settings.framework)(workload, worker)
    trainer.setup(workload.initial_weights(1), warmup)
    return trainer


@dataclass(frozen=True)
class Spent:
    """Time of a command, including the start of the suite and all its processes."""

    seconds: float
    cpu_seconds: float
    """User and system time of the process tree.

    Concurrent load on the machine affects CPU time less than the elapsed time.
    """
    load_average: float
    """Load average of the last minute at the end of the command."""

    def figures(self) -> dict[str, float]:
        """Return the rounded measurements as a dictionary for JSON."""
        return {name: round(value, 1) for name, value in vars(self).items()}


def run_suite(words: Sequence[str], output: Path, prefix: Sequence[str] = ()) -> Spent:
    """Run `PREFIX python run_suite.py WORDS output=OUTPUT`.

    Raises SystemExit, with the command's output, if the command fails.
    """
    before, start = children_cpu_seconds(), time.monotonic()
    _output_of(
        [*prefix, sys.executable, str(PROJECT / "run_suite.py"), *words, f"output={output}"],
        {**os.environ},
    )
    return Spent(time.monotonic() - start, children_cpu_seconds() - before, os.getloadavg()[0])


def suite_command(*words: object) -> str:
    """Run `suite WORDS`, and return its output."""
    return _output_of(
        [sys.executable, "-m", "suite.cli", *map(str, words)],
        {**os.environ, "PYTHONPATH": str(PROJECT)},
    )


def blocks(output: Path) -> list[dict[str, Any]]:
    """Return the lines in `metrics.jsonl` of the only run below `output`.

    The file contains a line per evaluation.
    """
    (path,) = output.glob("**/run_0/metrics.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def children_cpu_seconds() -> float:
    """Return the user and system time of all ended child processes.

    A child process is included after this process has waited for its exit.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def median_ratio(
    over: Sequence[Mapping[str, float]], under: Sequence[Mapping[str, float]], key: str
) -> float:
    """Return the median, over rounds, of the ratio of `over[key]` to `under[key]`."""
    return round(statistics.median(a[key] / b[key] for a, b in zip(over, under, strict=True)), 3)


def in_turns(
    names: Sequence[str],
    rounds: int,
    run: Callable[[str], dict[str, Any]],
    key: str,
    label: str = "",
) -> dict[str, list[dict[str, Any]]]:
    """Return the results of `run` for each name and round.

    The order of the names rotates from round to round. After each round, the function prints a line
    to stderr with `label` and, for each name, the round's value of `key`.
    """
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            found[name].append(run(name))
        last = {name: round(figures[-1][key], 2) for name, figures in found.items()}
        print(f"{label} {number} {key}: {last}", file=sys.stderr)
    return found


def _output_of(command: Sequence[str], env: Mapping[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)}: exit status"
            f" {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout
