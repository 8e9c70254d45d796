"""What the suite costs: its training rate over that of a bare loop of the same model, data and batch.

    python benchmarks/overhead.py [--frameworks pytorch,tensorflow,mxnet] [--profile synthetic|demo] [--cores 2] [--rounds 7]

`synthetic`: ML-20M's counts, batch 65,536, both get ready-made batches: the loop alone. `demo`: small steps, and both draw
fresh negatives every epoch (the bare loop without rejection). Both run in turn, `--rounds` times; printed as JSON with the
median of each and their ratio. The bare loops stand in benchmarks/bare/: at most 60 lines each, importing nothing of the suite.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from suite.common import registry
from suite.common.runspec import RunSpec, read_run
from suite.environments.environment import resolve
from suite.launch.base import place_of
from suite.machine.devices import cpu_model

PROJECT = Path(__file__).resolve().parent.parent
STEPS = {"synthetic": 30, "demo": 306}
"""Timed steps: 30 of 65,536 samples at ML-20M's counts; six epochs of 51 steps of the demo."""
BATCH = {"synthetic": "global:65536", "demo": "set"}
BARE_BATCHES = 8


def suite_run(framework: str, profile: str, cores: int, output: Path) -> tuple[float, RunSpec]:
    """Samples per second of the suite (training alone, the first block left out where there are several), and the run."""
    command = [
        *(sys.executable, str(PROJECT / "run_suite.py"), "workload=ncf", f"framework={framework}"),
        *(f"profile={profile}", "rules=v0.7", "device=cpu", f"cpu.cores_per_device={cores}", f"batch={BATCH[profile]}"),
        *(f"stop=steps:{STEPS[profile]}", "seed=1", f"output={output}"),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    folder = next(output.glob("*/run_0"))
    blocks = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timed = blocks[1:] or blocks
    rate = sum(block["samples"] for block in timed) / sum(block["train_seconds"] for block in timed)
    return rate, read_run(folder / "run.json")


def dump_data(run: RunSpec, path: Path) -> None:
    """What the bare loop trains on: under profile=synthetic the suite's own batches, else the positives, to draw from."""
    workload = registry.load_workload("ncf")(run.settings, run.facts)
    if run.settings.profile == "demo":
        positives = {
            name: np.load(Path(run.settings.data_dir) / f"{name}.npy") for name in ("train_user", "train_item")
        }
        np.savez(path, items=run.facts.sizes["items"], batch_size=run.settings.batch_size_global, **positives)
        return
    data = workload.open_data(place_of(run, 0, 1), run.settings.seed)
    arrays: dict[str, Any] = {}
    for number, (batch,) in enumerate(data.train(0, BARE_BATCHES)):
        arrays |= {f"{name}_{number}": batch.arrays[name] for name in ("user", "item", "label")}
    data.close()
    np.savez(path, **arrays)


def bare_run(framework: str, run: RunSpec, batches: Path) -> float:
    """Samples per second of the bare loop."""
    settings = run.settings
    options = {
        **{name: run.facts.sizes[name] for name in ("users", "items")},
        **settings.model,
        "steps": STEPS[settings.profile],
        "warm_up": 3,
        "cores": settings.cores_per_device,
        "learning_rate": settings.hyperparameters["learning_rate"],
    }
    environment = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
    script = PROJECT / "benchmarks" / "bare" / f"ncf_{framework}.py"
    variables = {**os.environ, "OMP_NUM_THREADS": str(settings.cores_per_device), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        environment.command(str(script), str(batches), json.dumps(options)),
        check=True, capture_output=True, text=True, env=variables,
    )  # fmt: skip
    return float(json.loads(done.stdout.strip().splitlines()[-1])["samples_per_second"])


def measure(framework: str, profile: str, cores: int, rounds: int, scratch: Path) -> dict[str, object]:
    """Interleaved A/B of one framework."""
    suite, bare = [], []
    batches = scratch / f"{framework}.npz"
    for number in range(rounds):
        rate, run = suite_run(framework, profile, cores, scratch / f"{framework}-{number}")
        if not batches.exists():
            dump_data(run, batches)
        suite.append(rate)
        bare.append(bare_run(framework, run, batches))
        print(f"{framework} {number}: suite {suite[-1]:,.0f} bare {bare[-1]:,.0f} samples/s", file=sys.stderr)
    ratio = statistics.median(suite) / statistics.median(bare)
    return {
        "framework": framework,
        "framework_version": run.identity["framework_version"],
        "suite_samples_per_second": round(statistics.median(suite)),
        "bare_samples_per_second": round(statistics.median(bare)),
        "ratio": round(ratio, 4),
        "ratios_of_rounds": [round(a / b, 4) for a, b in zip(suite, bare, strict=True)],
        "batch_size_global": run.settings.batch_size_global,
        "git": dict(run.git),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", default="pytorch,tensorflow,mxnet")
    parser.add_argument("--profile", default="synthetic", choices=sorted(STEPS))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        results = [
            measure(name, arguments.profile, arguments.cores, arguments.rounds, Path(scratch))
            for name in arguments.frameworks.split(",")
        ]
    head = {"benchmark": "overhead", "workload": "ncf", "profile": arguments.profile, "device": cpu_model()}
    print(json.dumps({**head, "cores": arguments.cores, "rounds": arguments.rounds, "results": results}, indent=1))


if __name__ == "__main__":
    main()
