"""Compare training steps of image workloads with a bare loop and the stock model.

    python -m benchmarks.image_step [--workload resnet50] [--frameworks pytorch,tensorflow,mxnet]
        [--precisions fp32,bf16] [--batch 0] [--pixels 0] [--cores 2] [--rounds 3] [--steps 4]

The workloads are resnet50, ssd, and the networks zoo:vgg16, zoo:inception_v3, and zoo:resnet50 of
the zoo workload.

The steps run on CPU cores. The images are synthetic, are generated in advance, and have the
reference's size (or --pixels). The processes of a round run in sequence, and their order changes
from round to round. Each process times a block of steps. A share is the suite's rate divided by the
rate of another model within a round, and the output contains the median over rounds. Shares whose
names end in `_cpu` compare images per second of CPU time, because CPU time is less affected by
concurrent load than elapsed time. Models:
* bare: a plain loop. `bare_malloc` (PyTorch, MXNet) is the same loop with the malloc tunables that
  the launcher sets for the suite's workers.
* stock, stock_v2 (ResNet-50): the framework's models in a plain loop.
* stock (zoo): the framework's model. If the suite's zoo workload has the same network, the model
  runs in the suite's trainer. Otherwise (ResNet-50 in TensorFlow and MXNet), the model runs in a
  plain loop.

`gigaflops_per_image` is the number of operations in a model's forward pass, with two operations per
multiply-add. Shares whose names end in `_per_operation` compare floating-point operations per
second. They are given for models whose number of operations differs from that of the suite's model.
The output is JSON.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

from benchmarks.measuring import (
    FRAMEWORKS,
    MALLOC_TUNABLES,
    in_environment,
    in_turns,
    median_ratio,
    parser_with,
    show,
)
from workloads.zoo.stock import STOCK as ZOO_STOCK

BATCHES = {"resnet50": 32, "ssd": 8, "zoo:vgg16": 8, "zoo:inception_v3": 16, "zoo:resnet50": 32}
"""Number of images per step.

On two cores, a step of SSD with 8 images takes about as long as a step of ResNet-50 with 32 images.
"""
IMAGE_SIZES = {
    "resnet50": 224,
    "ssd": 300,
    "zoo:vgg16": 224,
    "zoo:inception_v3": 299,
    "zoo:resnet50": 224,
}
STOCK = {
    "pytorch": {"stock": "torchvision resnet50: stride on the 3x3, as here"},
    "tensorflow": {"stock": "Keras applications ResNet50: stride on the 1x1, biases"},
    "mxnet": {
        "stock": "zoo resnet50_v1: stride on the 1x1",
        "stock_v2": "zoo resnet50_v2: stride on the 3x3, as here",
    },
}
"""Maps a framework to its stock ResNet-50 models. No framework has a stock SSD with a ResNet-34
trunk.
"""


def models(workload: str, framework: str) -> dict[str, str]:
    """Map the name of each measured model of a framework to its description.

    The first name is `suite`, the second `bare`.
    """
    kind, _, model = workload.partition(":")
    if kind == "zoo":
        same = {"stock": "the framework's network in the suite's trainer"}
        stock = STOCK[framework] if model == "resnet50" else {}
        return {
            "suite": "this suite's list of layers",
            **(same if model in ZOO_STOCK[framework] else stock),
        }
    found = {"suite": "this suite's trainer", "bare": "plain loop"}
    if framework in MALLOC_TUNABLES:
        found["bare_malloc"] = "plain loop under the suite's malloc tunables"
    return found | (STOCK[framework] if workload == "resnet50" else {})


def run(
    args: argparse.Namespace, framework: str, precision: str, model: str, data: str = ""
) -> dict[str, float]:
    """Run a model in the framework's environment, and return its JSON output.

    `data` is the folder of prepared data for the suite's trainer.
    """
    kind, _, zoo_model = args.workload.rpartition(":")
    options = {
        name: getattr(args, name) for name in ("workload", "batch", "cores", "steps", "pixels")
    }
    if model == "suite" or (kind == "zoo" and zoo_model in ZOO_STOCK[framework]):
        options |= {
            "framework": framework,
            "precision": precision,
            "data": data,
            "implementation": model,
        }
        words = [
            "benchmarks.image_suite",
            *(f"--{name}={value}" for name, value in options.items()),
        ]
    else:
        module = f"benchmarks.bare.{zoo_model.removesuffix('50')}_{framework}"
        sizes = [args.batch, args.steps, *([args.pixels] if args.pixels else [])]
        words = [module, args.cores, model.removesuffix("_malloc"), precision, *sizes]
    found: dict[str, float] = in_environment(
        framework, words, args.cores, kind == "zoo" or model in ("suite", "bare_malloc")
    )
    return found


def measure(args: argparse.Namespace, framework: str, precision: str) -> dict[str, object]:
    """Return the rates of every round, their medians, and the suite's shares."""
    described = models(args.workload, framework)
    found = in_turns(
        list(described), args.rounds, lambda name: run(args, framework, precision, name),
        "images_per_second", f"{framework} {precision}",
    )  # fmt: skip
    return {"models": described, **summary(found)}


def summary(found: dict[str, list[dict[str, float]]]) -> dict[str, object]:
    """Return rates, medians, the suite's shares, and forward GFLOPs of each model.

    `found` contains the output of each model in every round. The suite and the bare loop train the
    same network.
    """
    rates = {
        name: [figures["images_per_second"] for figures in rounds] for name, rounds in found.items()
    }
    gigaflops = {name: _gigaflops(found, name) for name in found}
    shares = {}
    for name in list(found)[1:]:
        share = median_ratio(found["suite"], found[name], "images_per_second")
        shares[f"suite_to_{name}"] = share
        if all("images_per_cpu_second" in figures for figures in (*found["suite"], *found[name])):
            shares[f"suite_to_{name}_cpu"] = median_ratio(
                found["suite"], found[name], "images_per_cpu_second"
            )
        if gigaflops[name] != gigaflops["suite"]:
            shares[f"suite_to_{name}_per_operation"] = round(
                share * gigaflops["suite"] / gigaflops[name], 3
            )
    return {
        "images_per_second": {
            name: round(statistics.median(rounds), 2) for name, rounds in rates.items()
        },
        "rounds": {name: [round(rate, 2) for rate in rounds] for name, rounds in rates.items()},
        "gigaflops_per_image": gigaflops,
        **shares,
    }


def _gigaflops(found: dict[str, list[dict[str, float]]], name: str) -> float:
    """Return the forward GFLOPs of a model.

    If the output of the model does not contain GFLOPs, the GFLOPs of the bare loop are returned.
    """
    figures = found[name][0]
    return (
        figures["gigaflops_per_image"]
        if "gigaflops_per_image" in figures
        else found["bare"][0]["gigaflops_per_image"]
    )


def options(doc: str | None) -> argparse.Namespace:
    """Parse the options of this benchmark and of image_feeding.

    `--batch 0` selects the default batch size, and `--pixels 0` the reference's image size.
    """
    parser = parser_with(doc, frameworks=FRAMEWORKS, batch=0, pixels=0, cores=2, rounds=3, steps=4)
    parser.add_argument("--workload", default="resnet50", choices=sorted(BATCHES))
    parser.add_argument(
        "--precisions", default="fp32", help="fp32,bf16 (MXNet has no bf16 on CPUs: left out there)"
    )
    args = parser.parse_args()
    args.batch = args.batch or BATCHES[args.workload]
    if args.pixels and args.workload == "ssd":
        parser.error(f"--pixels {args.pixels}: SSD's priors require 300 pixels; leave --pixels out")
    return args


def show_all(
    benchmark: str,
    args: argparse.Namespace,
    measured: Callable[[str, str], object],
    **context: object,
) -> None:
    """Print the results of `measured` for every requested framework and precision."""
    results = {
        precision: {
            framework: measured(framework, precision)
            for framework in args.frameworks.split(",")
            if (framework, precision) != ("mxnet", "bf16")
        }
        for precision in args.precisions.split(",")
    }
    options = {
        "workload": args.workload,
        "global_batch_size": args.batch,
        "steps_of_a_block": args.steps,
    }
    size = args.pixels or IMAGE_SIZES[args.workload]
    show(benchmark, args.cores, **options, image_size=size, **context, results=results)


def main() -> None:
    """Run the benchmark and print its results."""
    args = options(__doc__)
    show_all("image_step", args, lambda framework, precision: measure(args, framework, precision))


if __name__ == "__main__":
    main()
