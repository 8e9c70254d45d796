"""Train LittleCNN to its target in three frameworks, on generated or real images.

    python -m benchmarks.little_cnn [--dataset cifar-demo]
        [--frameworks pytorch,tensorflow,mxnet] [--cores 1] [--epochs 0]

Debian's package dataset-fashion-mnist contains real images:

    suite data prepare fashion-mnist --from /usr/share/datasets/fashion-mnist
    python -m benchmarks.little_cnn --dataset fashion-mnist --epochs 3

A run uses a single device with --cores cores, seed 1, and the hyperparameters of profile=demo. With
--epochs N, training ends after N epochs instead of at the target. The output is JSON. For each
framework, the output contains the top-1 accuracy and validation loss after each epoch, the seconds
that the run logged, and the seconds and CPU seconds of the whole command. The number others_share
is the share of the run's cores that unrelated processes used. If others_share is above 0.1, the
machine was busy, and the seconds are too long by about this share.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import FRAMEWORKS, blocks, parser_with, run_suite, show
from suite.results.logs.collect import collect
from workloads.zoo.settings import TARGETS_TOP1


def measure(arguments: argparse.Namespace, framework: str, output: Path) -> dict[str, object]:
    """Train once, and return the measurements of the run."""
    words = [
        "workload=zoo",
        f"framework={framework}",
        "device=cpu",
        f"cpu.cores_per_device={arguments.cores}",
    ]
    words += ["gpus=1", "seed=1"]
    words += (
        ["profile=demo"]
        if arguments.dataset == "cifar-demo"
        else [f"workload.dataset={arguments.dataset}"]
    )
    words += [f"stop=epochs:{arguments.epochs}"] if arguments.epochs else []
    spent = run_suite(words, output)
    epochs = blocks(output)
    (record,) = [record for record in collect([output]) if record.has_log]
    condition = record.condition
    top1 = [round(block["quality"]["top1"], 4) for block in epochs]
    reached = [
        number
        for number, value in enumerate(top1, start=1)
        if value >= TARGETS_TOP1[arguments.dataset]
    ]
    trained = sum(block["train_seconds"] for block in epochs)
    return {
        "settings": words,
        "top1": top1,
        "eval_loss": [round(block["quality"]["eval_loss"], 4) for block in epochs],
        "epochs_to_target": reached[0] if reached else None,
        "clock_seconds": round(record.seconds or 0.0, 1),
        "samples_per_second": round(sum(block["samples"] for block in epochs) / trained),
        "command": spent.figures(),
        "others_share": condition.figures.get("others_share") if condition is not None else None,
    }


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, frameworks=FRAMEWORKS, cores=1, epochs=0)
    parser.add_argument("--dataset", default="cifar-demo", choices=sorted(TARGETS_TOP1))
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for framework in arguments.frameworks.split(","):
            results[framework] = measure(arguments, framework, Path(scratch) / framework)
            print(json.dumps({framework: results[framework]}), file=sys.stderr, flush=True)
    settings = {
        "dataset": arguments.dataset,
        "cores": arguments.cores,
        "target_top1": TARGETS_TOP1[arguments.dataset],
    }
    show("little_cnn", **settings, results=results)


if __name__ == "__main__":
    main()
