"""Measure the overhead of training on two machines instead of one.

    python -m benchmarks.two_machines [--workloads ncf,resnet50] [--framework pytorch]
        [--rate 200mbit] [--rounds 5] [--steps 40]

The benchmark measures training steps of demos on two CPU devices. The two simulated machines are
network namespaces of this machine, connected by a virtual cable (testing/machines). Each simulated
machine has a dedicated core. Three setups run in turn:
* `processes`: two processes on a single machine.
* `machines`: a process on each machine, with a cable as fast as memory.
* `slow`: a process on each machine, with a cable that transfers at most `--rate` (a token bucket,
  without additional latency).

All setups train on the same batches. The output is JSON:
* step_ms: median step time of a run, as the median over rounds.
* overhead: step time of `machines` divided by step time of `processes`, minus 1.
* exposed_communication_ms: step time of `slow` minus step time of `machines`, which is the time
  that a step waits for the cable.
* ideal_ms: ideal time of an all-reduce of the gradients at `--rate`. Each of n machines sends 2 (n
  - 1) / n of the gradient bytes.
* exposed_over_ideal: exposed_communication_ms divided by ideal_ms.
* others_share: maximum share of the cores used by unrelated processes. Results with a share above
  0.05 are unreliable.

The script needs root and openssh-server.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measuring import PROJECT, parser_with, show
from suite.common import registry
from suite.common.paths import data_root
from suite.common.runspec import read_run
from suite.results.logs.reader import read
from testing.machines import Machines, needs, ssh
from testing.machines.machine import Machine

NODES = 2
WARM_UP_STEPS = 5
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
"""Units of a network rate in the notation of `tc`, in bits per second."""
LIMIT_SECONDS = 600.0
Figures = dict[str, float]


def bits_per_second(rate: str) -> float:
    """Convert a rate such as `200mbit` to bits per second.

    Raises ValueError if the rate is invalid.
    """
    unit = next((unit for unit in UNITS if rate.endswith(unit)), "")
    if not unit or not rate.removesuffix(unit).isdecimal():
        raise ValueError(
            f"--rate {rate}: expected an integer with a unit ({', '.join(UNITS)}), such as 200mbit"
        )
    return int(rate.removesuffix(unit)) * UNITS[unit]


def ideal_seconds(gradient_bytes: int, rate: float) -> float:
    """Return the ideal seconds of an all-reduce between NODES machines.

    The ideal time is the number of bits that each machine sends, divided by the rate in bits per
    second.
    """
    return 2 * (NODES - 1) / NODES * gradient_bytes * 8 / rate


def run(
    machine: Machine,
    where: Sequence[str],
    arguments: argparse.Namespace,
    workload: str,
    output: Path,
) -> Path:
    """Start a run on `machine` and return its folder."""
    words = [
        f"workload={workload}", f"framework={arguments.framework}", "profile=demo",
        "device=cpu", f"gpus={NODES}", "timing=steps", f"timing.warmup_steps={WARM_UP_STEPS}",
        f"stop=steps:{arguments.steps}", "seed=1", f"output={output}", *where,
    ]  # fmt: skip
    command = [sys.executable, str(PROJECT / "run_suite.py"), *words]
    done = machine.run(command, cwd=PROJECT, timeout=LIMIT_SECONDS, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{workload} {' '.join(where)}:\n{done.stdout}{done.stderr}")
    return next(output.glob("*/run_0"))


def figures(folder: Path) -> Figures:
    """Return the run's median step time in milliseconds, and the machine's load.

    The load is the share of the cores used by unrelated processes.
    """
    record = read(folder / "result_0.txt")
    share = record.condition.figures.get("others_share", 0.0) if record.condition else 0.0
    return {"step_ms": record.step_times["median_ms"], "others_share": share}


def gradient_bytes(folder: Path) -> int:
    """Return the total size of all gradients in fp32, in bytes."""
    spec = read_run(folder / "run.json")
    workload = registry.load_workload(spec.settings.workload)(spec.settings, spec.dataset_info)
    return sum(weights.size * 4 for _, weights in workload.initial_weights(1))


def measured(
    workload: str, arguments: argparse.Namespace, places: Mapping[str, tuple[Machine, list[str]]]
) -> dict[str, object]:
    """Measure a workload in each setup in turn, and return the results."""
    found: dict[str, list[Figures]] = {name: [] for name in places}
    size = 0
    for number in range(arguments.rounds):
        for name, (machine, where) in places.items():
            # The simulated machine can access the parent folder of `machine.folder`.
            output = machine.folder.parent / f"{workload}-{name}-{number}"
            folder = run(machine, where, arguments, workload, output)
            found[name].append(figures(folder))
            size = size or gradient_bytes(folder)
        print(
            workload, number, {name: rounds[-1] for name, rounds in found.items()}, file=sys.stderr
        )
    step = {
        name: statistics.median(row["step_ms"] for row in rounds) for name, rounds in found.items()
    }
    ideal = ideal_seconds(size, bits_per_second(arguments.rate)) * 1e3
    return {
        "workload": workload, "framework": arguments.framework, "gradient_bytes": size,
        "step_ms": {name: round(value, 3) for name, value in step.items()},
        "overhead": round(step["machines"] / step["processes"] - 1, 4),
        "exposed_communication_ms": round(step["slow"] - step["machines"], 3),
        "ideal_ms": round(ideal, 3),
        "exposed_over_ideal": round((step["slow"] - step["machines"]) / ideal, 3),
        "others_share": max(row["others_share"] for rounds in found.values() for row in rounds),
        "rounds": {
            name: [round(row["step_ms"], 3) for row in rounds] for name, rounds in found.items()
        },
    }  # fmt: skip


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(
        __doc__, workloads="ncf,resnet50", framework="pytorch", rate="200mbit", rounds=5, steps=40
    )
    arguments = parser.parse_args()
    try:
        bits_per_second(arguments.rate)
    except ValueError as error:
        parser.error(str(error))
    if reason := needs.missing(needs.SSH):
        raise SystemExit(reason)
    # Create the data root first, because the simulated machines share only folders that exist when
    # they start.
    data_root().mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        arguments.scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fast, slow = (
            stack.enter_context(Machines.up(_make_folder(arguments.scratch / name), NODES, rate))
            for name, rate in (("fast", None), ("slow", arguments.rate))
        )
        for machines in (fast, slow):
            ssh.start(machines)
        over = [
            f"nodes={NODES}",
            "launch=ssh",
            f"launch.hosts=[{','.join(node.name for node in fast.nodes)}]",
        ]
        places = {
            "processes": (fast.hub, []),
            "machines": (fast.hub, over),
            "slow": (slow.hub, over),
        }
        results = [
            measured(workload, arguments, places) for workload in arguments.workloads.split(",")
        ]
    context = {
        "cores": len(os.sched_getaffinity(0)),
        "nodes": NODES,
        "rate": arguments.rate,
        "steps": arguments.steps,
    }
    show("two_machines", **context, results=results)


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
