"""Measure the suite's overhead: its training rate divided by that of a bare loop.

    python -m benchmarks.overhead [--frameworks pytorch,tensorflow,mxnet]
        [--profile synthetic|demo] [--cores 2] [--rounds 7]

The suite and the bare loop use the same model, data, and batch size.

* `synthetic`: ML-20M's counts, batch size 65,536. Both programs get batches that were generated in
  advance, so that only the training loops differ.
* `demo`: small steps. Both programs sample new negatives in every epoch (the bare loop without
  rejection).

The two programs run in turn for `--rounds` rounds. The output is JSON with the median rate of each
program and the ratio of the two medians. The bare loops are in benchmarks/bare/ and do not import
the suite.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import FRAMEWORKS, blocks, in_environment, parser_with, run_suite, show
from suite.common import registry
from suite.common.runspec import RunSpec, read_run
from suite.launch.base import worker_context_for

STEPS = {"synthetic": 30, "demo": 306}
"""Number of timed steps: 30 steps of 65,536 samples for `synthetic`, and six epochs of 51 steps for
`demo`.
"""
BATCH = {"synthetic": "global:65536", "demo": "set"}
BARE_BATCHES = 8


def suite_run(framework: str, profile: str, cores: int, output: Path) -> tuple[float, RunSpec]:
    """Run the suite, and return its training samples per second and the run's `RunSpec`.

    The rate excludes the first block of steps if the run has several blocks.
    """
    words = [
        "workload=ncf",
        f"framework={framework}",
        f"profile={profile}",
        "timing.warmup_steps=3",
        "device=cpu",
        "seed=1",
    ]
    words += [
        f"cpu.cores_per_device={cores}",
        f"batch={BATCH[profile]}",
        f"stop=steps:{STEPS[profile]}",
    ]
    run_suite(words, output)
    found = blocks(output)
    timed = found[1:] or found
    rate = sum(block["samples"] for block in timed) / sum(block["train_seconds"] for block in timed)
    (spec,) = output.glob("*/run_0/run.json")
    return rate, read_run(spec)


def dump_data(run: RunSpec, path: Path) -> None:
    """Write the data for the bare loop.

    With profile=synthetic, the data are batches from the suite. Otherwise, the data are the
    positives, for which the bare loop samples negatives.
    """
    workload = registry.load_workload("ncf")(run.settings, run.dataset_info)
    if run.settings.profile == "demo":
        positives = {
            name: np.load(Path(run.settings.data_dir) / f"{name}.npy")
            for name in ("train_user", "train_item")
        }
        np.savez(
            path,
            items=run.dataset_info.sizes["items"],
            batch_size=run.settings.global_batch_size,
            **positives,
        )
        return
    data = workload.open_data(worker_context_for(run, 0, 1), run.settings.seed)
    arrays: dict[str, Any] = {}
    for number, (batch,) in enumerate(data.train(0, BARE_BATCHES)):
        arrays |= {f"{name}_{number}": batch.arrays[name] for name in ("user", "item", "label")}
    data.close()
    np.savez(path, **arrays)


def bare_run(framework: str, run: RunSpec, batches: Path) -> float:
    """Run the bare loop, and return its samples per second."""
    settings = run.settings
    options = {
        **{name: run.dataset_info.sizes[name] for name in ("users", "items")},
        **settings.model,
        "steps": STEPS[settings.profile],
        "warmup": 3,
        "cores": settings.cores_per_device,
        "learning_rate": settings.hyperparameters["learning_rate"],
    }
    words = [f"benchmarks.bare.ncf_{framework}", batches, json.dumps(options)]
    return float(
        in_environment(framework, words, settings.cores_per_device, malloc=False)[
            "samples_per_second"
        ]
    )


def measure(
    framework: str, profile: str, cores: int, rounds: int, scratch: Path
) -> dict[str, object]:
    """Measure the suite and the bare loop of a framework in turn."""
    suite, bare = [], []
    batches = scratch / f"{framework}.npz"
    for number in range(rounds):
        rate, run = suite_run(framework, profile, cores, scratch / f"{framework}-{number}")
        if not batches.exists():
            dump_data(run, batches)
        suite.append(rate)
        bare.append(bare_run(framework, run, batches))
        print(
            f"{framework} {number}: suite {suite[-1]:,.0f} bare {bare[-1]:,.0f} samples/s",
            file=sys.stderr,
        )
    ratio = statistics.median(suite) / statistics.median(bare)
    return {
        "framework": framework,
        "framework_version": run.identity["framework_version"],
        "suite_samples_per_second": round(statistics.median(suite)),
        "bare_samples_per_second": round(statistics.median(bare)),
        "ratio": round(ratio, 4),
        "ratios_of_rounds": [round(a / b, 4) for a, b in zip(suite, bare, strict=True)],
        "global_batch_size": run.settings.global_batch_size,
        "git": dict(run.git),
    }


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, frameworks=FRAMEWORKS, cores=2, rounds=7)
    parser.add_argument("--profile", default="synthetic", choices=sorted(STEPS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        results = [
            measure(name, arguments.profile, arguments.cores, arguments.rounds, Path(scratch))
            for name in arguments.frameworks.split(",")
        ]
    show(
        "overhead", arguments.cores,
        workload="ncf", profile=arguments.profile, rounds=arguments.rounds, results=results,
    )  # fmt: skip


if __name__ == "__main__":
    main()
