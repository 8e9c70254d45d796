"""ResNet-50's training step against a bare loop and the framework's own stock model, on CPU cores.

    python benchmarks/resnet_step.py [--frameworks pytorch,tensorflow,mxnet] [--cores 2] [--rounds 5] [--precision bf16]

Batch 32, 224 pixels, made-up images that lie ready. The three processes of a round follow each other, in another order each
round; shares are medians over rounds of ratios within a round. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from suite import registry
from suite.devices import cpu_model
from suite.environment import resolve
from suite.launch.base import thread_variables
from suite.launch.pytorch import CPU_MEMORY
from suite.source import git_state

PROJECT = Path(__file__).resolve().parent.parent
BARE = PROJECT / "benchmarks" / "bare"


def images_per_second(framework: str, cores: int, script: str, *arguments: str) -> float:
    """One process in the framework's environment, pinned to its cores."""
    python = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
    command = python.command(str(BARE / script), *arguments)
    variables = {**os.environ, **thread_variables(cores), "PYTHONPATH": str(PROJECT)}
    if framework == "pytorch" and script == "resnet_suite.py":
        variables |= CPU_MEMORY  # as the launcher does
    pin = ["taskset", "-c", ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:cores])]
    done = subprocess.run([*pin, *command], check=True, capture_output=True, text=True, env=variables)
    return float(json.loads(done.stdout.strip().splitlines()[-1])["images_per_second"])


def measure(framework: str, cores: int, rounds: int, steps: int, precision: str) -> dict[str, float]:
    """Medians of images/s and of the suite's shares."""
    found: dict[str, list[float]] = {"suite": [], "bare": [], "stock": []}
    for number in range(rounds):
        for kind in list(found)[number % 3 :] + list(found)[: number % 3]:
            head = [framework, str(cores)] if kind == "suite" else [str(cores), kind]
            script = "resnet_suite.py" if kind == "suite" else f"resnet_{framework}.py"
            found[kind].append(images_per_second(framework, cores, script, *head, precision, str(steps)))
        print(
            f"{framework} {number}: { ({kind: round(rates[-1], 2) for kind, rates in found.items()}) }", file=sys.stderr
        )
    shares = {
        kind: statistics.median(ours / other for ours, other in zip(found["suite"], found[kind], strict=True))
        for kind in ("bare", "stock")
    }
    return {
        **{f"{kind}_images_per_second": round(statistics.median(rates), 2) for kind, rates in found.items()},
        **{f"suite_to_{kind}": round(share, 3) for kind, share in shares.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", default="pytorch,tensorflow,mxnet")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--precision", default="fp32")
    arguments = parser.parse_args()
    results = {
        framework: measure(framework, arguments.cores, arguments.rounds, arguments.steps, arguments.precision)
        for framework in arguments.frameworks.split(",")
    }
    head = {"benchmark": "resnet_step", "device": f"{arguments.cores} cores of {cpu_model()}", "batch_size_global": 32}
    print(json.dumps({**head, "precision": arguments.precision, "git": git_state(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
