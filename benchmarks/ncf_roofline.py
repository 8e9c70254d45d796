"""Compare NCF's training and evaluation with rooflines measured in the same run.

    python -m benchmarks.ncf_roofline [--frameworks pytorch,tensorflow,mxnet] [--cores 1,2]
        [--rounds 5]

The full-size model is trained in fp32 with ML-20M's counts and batch size 65,536, on a single
device of 1 or 2 cores. The roofline is computed as:

    roof seconds = floating-point operations / GEMM rate + bytes / copy bandwidth

Two rooflines are computed. The first roofline uses the framework's GEMM rate at the layers' shapes.
The second roofline uses the highest GEMM rate of all frameworks on this machine. The rates are
measured between the runs (bare/rates.py). The evaluation uses full-size layers, and scores 1,000
candidates for each user of a generated data set with ML-1M's counts. The roofline of the evaluation
uses the operations of the plain forward pass. The output is JSON.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measuring import FRAMEWORKS, blocks, in_environment, parser_with, run_suite, show
from suite.common import registry

BATCH = 65_536
STEPS = 16
FORWARD_OPERATIONS = 2 * (256 * 256 + 256 * 128 + 128 * 64 + 128)
"""Operations of the linear layers per sample in a forward pass. A training step needs three
times as many operations.
"""
PARAMETERS = 31_832_577
ADAM_PASSES = 7
"""Number of passes of Adam over an array of the parameters' size. Adam reads the gradient, the
weight, and two moment estimates, and writes the weight and both moment estimates.
"""
ROW_BYTES = 4 * (64 + 64 + 128 + 128)
"""Size of a sample's embedding rows in bytes."""
EMBEDDING_PASSES = 5
"""Number of passes over a sample's embedding rows. The gather reads the rows and writes them to the
output. The backward pass reads twice and writes once.
"""
USERS, ITEMS, RATINGS = 6_040, 3_706, 60


def last_block(framework: str, cores: int, output: Path, *extra: str) -> dict[str, float]:
    """Run the suite, and return the last line of the run's `metrics.jsonl`."""
    words = [
        "workload=ncf",
        f"framework={framework}",
        "device=cpu",
        f"cpu.cores_per_device={cores}",
        "seed=1",
    ]
    run_suite([*words, f"batch=global:{BATCH}", *extra], output)
    return blocks(output)[-1]


def make_ratings(path: Path) -> None:
    """Write a ratings file with ML-1M's numbers of users and items."""
    generator = np.random.default_rng(1)
    with open(path, "w", encoding="ascii") as out:
        for user in range(USERS):
            for second, item in enumerate(generator.choice(ITEMS, RATINGS, replace=False)):
                out.write(f"{user + 1}::{item + 1}::5::{1_000_000 + second}\n")


def training_roof(gemm_gflops: float, copy_gigabytes: float) -> float:
    """Return the training samples per second at the roofline."""
    operations = 3 * FORWARD_OPERATIONS * BATCH
    bytes_moved = ADAM_PASSES * 4 * PARAMETERS + EMBEDDING_PASSES * ROW_BYTES * BATCH
    return BATCH / (operations / (gemm_gflops * 1e9) + bytes_moved / (copy_gigabytes * 1e9))


def evaluation_roof(gemm_gflops: float, copy_gigabytes: float) -> float:
    """Return the scored (user, item) pairs per second at the roofline.

    A pair requires a forward pass and a gather of its embedding rows.
    """
    return 1 / (FORWARD_OPERATIONS / (gemm_gflops * 1e9) + 2 * ROW_BYTES / (copy_gigabytes * 1e9))


def measure(frameworks: list[str], cores: int, rounds: int, scratch: Path) -> dict[str, object]:
    """Return medians for all frameworks on the given number of cores.

    The frameworks are measured in alternating order.
    """
    found: dict[str, dict[str, list[float]]] = {
        name: {"gemm": [], "copy": [], "train": [], "pairs": []} for name in frameworks
    }
    for number in range(rounds):
        for name in frameworks:
            row = found[name]
            rate = in_environment(
                name, ["benchmarks.bare.rates", name, cores, BATCH], cores, malloc=False
            )
            row["gemm"].append(rate["gemm_gflops"])
            row["copy"].append(rate["copy_gigabytes_per_second"])
            folder = scratch / f"{name}-{cores}-{number}"
            train = last_block(
                name,
                cores,
                folder / "t",
                "profile=synthetic",
                "timing.warmup_steps=3",
                f"stop=steps:{STEPS}",
            )
            row["train"].append(train["samples_per_second"])
            both = last_block(name, cores, folder / "e", "workload.dataset=ml-1m", "stop=epochs:2")
            row["pairs"].append(1000 * USERS / both["evaluation_seconds"])
            print(
                f"{cores} cores {name} {number}:"
                f" { ({key: round(v[-1]) for key, v in row.items()}) }",
                file=sys.stderr,
            )
    best_gemm = max(statistics.median(row["gemm"]) for row in found.values())
    best_copy = max(statistics.median(row["copy"]) for row in found.values())
    return {name: fractions(row, best_gemm, best_copy) for name, row in found.items()}


def fractions(row: dict[str, list[float]], best_gemm: float, copy: float) -> dict[str, float]:
    """Return medians, and each median rate as a fraction of its roofline."""
    gemm, train, pairs = (statistics.median(row[key]) for key in ("gemm", "train", "pairs"))
    return {
        "own_gemm_gflops": round(gemm, 1),
        "best_gemm_gflops": round(best_gemm, 1),
        "copy_gigabytes_per_second": round(copy, 1),
        "samples_per_second": round(train),
        "training_share_of_own_gemm_roof": round(train / training_roof(gemm, copy), 3),
        "training_share_of_best_gemm_roof": round(train / training_roof(best_gemm, copy), 3),
        "scored_pairs_per_second": round(pairs),
        "evaluation_share_of_own_gemm_roof": round(pairs / evaluation_roof(gemm, copy), 3),
        "evaluation_share_of_best_gemm_roof": round(pairs / evaluation_roof(best_gemm, copy), 3),
    }


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, frameworks=FRAMEWORKS, cores="1,2", rounds=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SUITE_DATA_DIR"] = str(Path(scratch) / "data")
        make_ratings(Path(scratch) / "ratings.dat")
        recipe = registry.load_dataset("ml-1m")
        recipe.prepare(Path(scratch) / "ratings.dat", Path(scratch) / "data" / "ml-1m")
        results = {
            f"{cores} cores": measure(
                arguments.frameworks.split(","),
                int(cores),
                arguments.rounds,
                Path(scratch) / "logs",
            )
            for cores in arguments.cores.split(",")
        }
    show("ncf_roofline", global_batch_size=BATCH, rounds=arguments.rounds, results=results)


if __name__ == "__main__":
    main()
