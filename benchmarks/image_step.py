"""Training steps of image workloads against a bare loop and the framework's own stock model, on CPU cores.

    python benchmarks/image_step.py [--workload resnet50] [--frameworks pytorch,tensorflow,mxnet] [--precisions fp32,bf16]
                                    [--batch 0] [--pixels 0] [--cores 2] [--rounds 3] [--steps 4]

Workloads: resnet50, ssd, and of the zoo zoo:vgg16, zoo:inception_v3, zoo:resnet50.

Images of the reference's size (or --pixels), synthetic, lying ready. The processes of a round follow each other, in another
order each round; shares are medians over rounds of ratios within a round, and `..._cpu` those of images per second of
processor time, which other work on the machine disturbs less. A block of steps is timed. Models: `bare`, a plain loop;
`bare_malloc` (PyTorch, MXNet), the same with the malloc tunables that the launcher gives the suite's workers; `stock` and
`stock_v2` (ResNet-50), the framework's own in a plain loop; `stock` of the zoo, the framework's own in the suite's trainer
where it is the same network, else (ResNet-50 in TensorFlow and MXNet) in a plain loop. `gigaflops_per_image`: of a forward
pass, counted in the model, two per multiply-add. `..._per_operation`: the share of floating-point operations per second, for
models that do not compute as much as the suite's. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from project import PROJECT

from suite.common import registry
from suite.common.git_state import git_state
from suite.environments.environment import resolve
from suite.launch import mxnet, pytorch
from suite.launch.base import thread_variables
from suite.machine.devices import cpu_model
from testing.python_path import with_yaml
from workloads.zoo.stock import STOCK as ZOO_STOCK

MALLOC_TUNABLES = {"pytorch": pytorch.MALLOC_TUNABLES, "mxnet": mxnet.MALLOC_TUNABLES}
BENCHMARKS = PROJECT / "benchmarks"
BATCHES = {"resnet50": 32, "ssd": 8, "zoo:vgg16": 8, "zoo:inception_v3": 16, "zoo:resnet50": 32}
"""Images of a step. SSD: 8 images take two cores about as long as 32 of ResNet-50; 32 would take four times as long."""
IMAGE_SIZES = {
    "resnet50": 224,
    "ssd": 300,
    "maskrcnn": 800,
    "zoo:vgg16": 224,
    "zoo:inception_v3": 299,
    "zoo:resnet50": 224,
}
STOCK = {
    "pytorch": {"stock": "torchvision resnet50: stride on the 3x3, as here"},
    "tensorflow": {"stock": "Keras applications ResNet50: stride on the 1x1, biases"},
    "mxnet": {"stock": "zoo resnet50_v1: stride on the 1x1", "stock_v2": "zoo resnet50_v2: stride on the 3x3, as here"},
}
"""Framework to its own ResNet-50 models. SSD on a ResNet-34 trunk is in none of them."""


def models(workload: str, framework: str) -> dict[str, str]:
    """Name to description of what a framework measures; `suite` first, `bare` second."""
    kind, _, model = workload.partition(":")
    if kind == "zoo":
        same = {"stock": "the framework's own network in the suite's trainer"}
        other = STOCK[framework] if model == "resnet50" else {}
        return {"suite": "this suite's list of layers", **(same if model in ZOO_STOCK[framework] else other)}
    found = {"suite": "this suite's trainer", "bare": "plain loop"}
    if framework in MALLOC_TUNABLES:
        found["bare_malloc"] = "plain loop under the suite's malloc tunables"
    return found | (STOCK[framework] if workload == "resnet50" else {})


def run(args: argparse.Namespace, framework: str, precision: str, model: str, data: str = "") -> dict[str, float]:
    """One process in the framework's environment, pinned to its cores; its JSON. `data`: prepared ones, of our trainers."""
    sizes = [precision, str(args.batch), str(args.steps)]
    kind, _, zoo_model = args.workload.rpartition(":")
    pixels = [str(args.pixels)] if args.pixels else []
    if model == "suite" or (kind == "zoo" and zoo_model in ZOO_STOCK[framework]):
        given = [data, model if kind == "zoo" else "", *pixels]
        words = [str(BENCHMARKS / "image_suite.py"), args.workload, framework, str(args.cores), *sizes, *given]
    else:
        script = f"{zoo_model.removesuffix('50')}_{framework}.py"
        words = [str(BENCHMARKS / "bare" / script), str(args.cores), model.removesuffix("_malloc"), *sizes, *pixels]
    variables = {**os.environ, **thread_variables(args.cores), "PYTHONPATH": with_yaml()}
    if framework in MALLOC_TUNABLES and (model in ("suite", "bare_malloc") or args.workload.startswith("zoo:")):
        variables["GLIBC_TUNABLES"] = MALLOC_TUNABLES[framework]  # as the launcher does
    pin = ["taskset", "-c", ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[: args.cores])]
    command = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"]).command(*words)
    done = subprocess.run([*pin, *command], capture_output=True, text=True, env=variables)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure(args: argparse.Namespace, framework: str, precision: str) -> dict[str, object]:
    """Rates of every round, medians, and the suite's shares."""
    names = list(models(args.workload, framework))
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(args.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(run(args, framework, precision, name))
        rates = {name: round(rounds[-1]["images_per_second"], 2) for name, rounds in found.items()}
        print(f"{framework} {precision} {number}: {rates}", file=sys.stderr)
    return {"models": models(args.workload, framework), **summary(found)}


def summary(found: dict[str, list[dict[str, float]]]) -> dict[str, object]:
    """From what processes printed in every round: rates, medians, the suite's shares, and forward GFLOPs of each model.

    The suite's network is the bare loop's.
    """
    rates = {name: [one["images_per_second"] for one in rounds] for name, rounds in found.items()}
    gigaflops = {name: _gigaflops(found, name) for name in found}
    shares = {}
    for name in list(found)[1:]:
        share = _share(found, name, "images_per_second")
        shares[f"suite_to_{name}"] = share
        if all("images_per_cpu_second" in one for one in (*found["suite"], *found[name])):
            shares[f"suite_to_{name}_cpu"] = _share(found, name, "images_per_cpu_second")
        if gigaflops[name] != gigaflops["suite"]:
            shares[f"suite_to_{name}_per_operation"] = round(share * gigaflops["suite"] / gigaflops[name], 3)
    return {
        "images_per_second": {name: round(statistics.median(rounds), 2) for name, rounds in rates.items()},
        "rounds": {name: [round(rate, 2) for rate in rounds] for name, rounds in rates.items()},
        "gigaflops_per_image": gigaflops,
        **shares,
    }


def _share(found: dict[str, list[dict[str, float]]], name: str, key: str) -> float:
    """Median over rounds of the suite's rate over another model's."""
    pairs = zip(found["suite"], found[name], strict=True)
    return round(statistics.median(ours[key] / other[key] for ours, other in pairs), 3)


def _gigaflops(found: dict[str, list[dict[str, float]]], name: str) -> float:
    """Of a model, as its own process or the bare loop's counted them."""
    own = found[name][0]
    return own["gigaflops_per_image"] if "gigaflops_per_image" in own else found["bare"][0]["gigaflops_per_image"]


def options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What this benchmark and image_feeding.py can be told."""
    parser.add_argument("--workload", default="resnet50", choices=sorted(BATCHES))
    parser.add_argument("--frameworks", default="pytorch,tensorflow,mxnet")
    parser.add_argument("--precisions", default="fp32", help="fp32,bf16 (MXNet has no bf16 on CPUs: left out there)")
    parser.add_argument("--batch", type=int, default=0, help="0: the workload's of this benchmark")
    parser.add_argument("--pixels", type=int, default=0, help="of a side (not of ssd); 0: the reference's")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="of a block")
    args = parser.parse_args()
    args.batch = args.batch or BATCHES[args.workload]
    if args.pixels and args.workload == "ssd":
        parser.error(f"--pixels {args.pixels}: SSD's priors are those of 300 pixels; leave it out")
    return args


def main() -> None:
    """Measure and print."""
    args = options(argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None))
    begin, load = time.time(), os.getloadavg()[0]
    results = {
        precision: {
            framework: measure(args, framework, precision)
            for framework in args.frameworks.split(",")
            if (framework, precision) != ("mxnet", "bf16")
        }
        for precision in args.precisions.split(",")
    }
    print(json.dumps({"benchmark": "image_step", **conditions(args, begin, load), "results": results}, indent=1))


def conditions(args: argparse.Namespace, begin: float, load: float) -> dict[str, object]:
    """What a reader of the figures must know; `begin` in seconds of the epoch, and the load average then."""
    return {
        "workload": args.workload,
        "device": f"{args.cores} cores of {cpu_model()}",
        "batch_size_global": args.batch,
        "image_size": vars(args).get("pixels") or IMAGE_SIZES[args.workload],
        "steps_of_a_block": args.steps,
        "date": time.strftime("%Y-%m-%d", time.gmtime(begin)),
        "minutes": round((time.time() - begin) / 60, 1),
        "load_average": {"before": round(load, 2), "after": round(os.getloadavg()[0], 2)},
        "git": git_state(),
    }


if __name__ == "__main__":
    main()
