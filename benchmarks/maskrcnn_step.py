"""Compare Mask R-CNN's training step with torchvision's MaskRCNN or a plain loop.

    python -m benchmarks.maskrcnn_step [--framework pytorch|tensorflow|mxnet] [--precision fp32]
        [--cores 2] [--rounds 3] [--steps 2]

A step processes a single image of 800×1333 pixels on CPU cores.

For PyTorch, the suite is compared with torchvision's MaskRCNN, which has frozen batch norm,
`trainable_layers=3`, and torchvision's conventions. For TensorFlow and MXNet, which lack such a
model, the suite is compared with plain loops (benchmarks/bare/). The plain loops follow the suite's
conventions. All models have the same weights, image, objects, and 512 regions. All models execute
the whole step except reading the image. torchvision matches all anchors within the step. In the
suite and in the plain loops, the data loader matches the anchors. If no core is idle, add
`anchors_in_loader_seconds` (on a single core) to the step time of the suite and the plain loops.

The processes of a round run in turn. The output contains shares of elapsed seconds and of CPU
seconds. A share is the ratio of two models within a round, and the output contains the median over
rounds. On a busy machine, only the shares of CPU seconds are reliable. The output is JSON.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import in_environment, in_turns, median_ratio, parser_with, show
from workloads.maskrcnn import anchors
from workloads.maskrcnn.input import rpn_targets
from workloads.maskrcnn.settings import REFERENCE_MODEL

COMPARED_MODELS = {
    "pytorch": ("torchvision", "MaskRCNN, FrozenBatchNorm2d, trainable_layers=3"),
    "tensorflow": ("bare", "plain loop of TensorFlow's operators"),
    "mxnet": ("bare", "plain loop of MXNet's operators"),
}
"""Maps a framework to the name and description of the model with which the suite is compared."""


def run(args: argparse.Namespace, model: str, inputs: str) -> dict[str, float]:
    """Run a model in a separate process, and return its JSON output."""
    if model == "suite":
        names = ("framework", "precision", "cores", "steps")
        words = [
            "benchmarks.maskrcnn_suite",
            *(f"--{name}={getattr(args, name)}" for name in names),
        ]
    else:
        name = model if model == "torchvision" else args.framework
        words = [f"benchmarks.bare.maskrcnn_{name}", args.cores, args.precision, args.steps, inputs]
    found: dict[str, float] = in_environment(args.framework, words, args.cores)
    return found


def anchor_seconds(inputs: str) -> float:
    """Return the seconds to label and sample the image's anchors on a single core.

    The minimum of five measurements is returned.
    """
    box, levels = np.load(inputs)["box"], anchors.levels(REFERENCE_MODEL, 800, 1344)
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        rpn_targets.sample(
            rpn_targets.label(levels, box, 800, 1333), levels, box, 256, np.uint64(1)
        )
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def measure(args: argparse.Namespace, model: str, inputs: str) -> dict[str, object]:
    """Return the measurements of every round, their medians, and the shares."""
    found = in_turns(
        ["suite", model], args.rounds, lambda name: run(args, name, inputs), "cpu_seconds"
    )
    shares = {
        f"suite_to_{model}_by_{kind}": median_ratio(found[model], found["suite"], kind)
        for kind in ("seconds", "cpu_seconds")
    }
    return {
        **shares,
        "anchors_in_loader_seconds": round(anchor_seconds(inputs), 4),
        "rounds": found,
    }


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, cores=2, rounds=3, steps=2)
    parser.add_argument("--framework", default="pytorch", choices=sorted(COMPARED_MODELS))
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    args = parser.parse_args()
    if args.precision != "fp32" and args.framework != "pytorch":
        parser.error(
            f"--framework {args.framework}: the plain loop has fp32 alone; leave --precision out"
        )
    name, description = COMPARED_MODELS[args.framework]
    models = {"suite": "this suite's trainer", name: description}
    with tempfile.TemporaryDirectory() as folder:
        inputs = str(Path(folder) / "inputs.npz")
        in_environment("pytorch", ["benchmarks.maskrcnn_suite", "--inputs", inputs], args.cores)
        results = measure(args, name, inputs)
    sizes = {"global_batch_size": 1, "image_size": [800, 1333], "steps_of_a_block": args.steps}
    show(
        "maskrcnn_step",
        args.cores,
        framework=args.framework,
        models=models,
        **sizes,
        results=results,
    )


if __name__ == "__main__":
    main()
