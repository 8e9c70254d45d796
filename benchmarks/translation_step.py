"""Shared benchmark code of gnmt_step.py and transformer_step.py.

The benchmark compares implementations of a training step on CPU cores. All batches are synthetic,
contain only full-length sentences, and are generated in advance. The suite's process first runs
training steps. The same process then runs the three matrix products of every layer (forward,
gradient of the input, gradient of the weight) for all sequence positions at once.
* gemm_share: seconds of the matrix products divided by seconds of a step. The metric
  `gemm_share_cpu` is the ratio of CPU seconds, which concurrent load on the machine affects less
  than elapsed time.
* bare: a plain training loop (benchmarks/bare/). `bare_onednn` is the same loop with linear layers
  through oneDNN.
* stock: the framework's model.
* suite_to_MODEL: steps per second of the suite divided by steps per second of MODEL.

In each round, the shortest of `--steps` steps is measured. The output is JSON with medians over
rounds.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bare.block import shortest
from benchmarks.bare.rates import Case, mxnet_products, tensorflow_products
from benchmarks.measuring import (
    FRAMEWORKS,
    in_environment,
    in_turns,
    median_ratio,
    parser_with,
    show,
    trainer_of,
)
from suite.catalog.rounds import get_round
from suite.catalog.sets import named_sets
from testing import synthetic
from workloads.api import Batch, DatasetInfo
from workloads.common.text.workload import TranslationWorkload

SUITE = "suite"
NO_BF16 = ("tensorflow", "mxnet")
"""Frameworks whose trainer supports only fp32 on CPUs."""
SIZES = ("batch", "length", "cores", "steps")
"""Command-line options that are passed to every benchmark process."""
Figures = dict[str, float]


@dataclass(frozen=True)
class Kind:
    """Settings of a translation workload that the benchmark measures."""

    workload: type[TranslationWorkload]
    dataset: str
    sizes: Mapping[str, tuple[str, str, int]]
    """Map a value of `--size` to a profile, a hyperparameter set, and a vocabulary size."""
    changed: Callable[[int], Mapping[str, Any]]
    """Function that returns the hyperparameters for a single bucket of the given sequence
    length.
    """
    tokens: bool
    """True if the workload's batch size is a number of tokens, not of sentences."""
    products: Callable[[Any, int, int], list[Case]]
    """Map (network, number of sentences, length) to the matrix products of the forward pass."""
    models: Mapping[str, tuple[str, ...]]
    """Map a framework to the names of the models in benchmarks/bare/NAME_FRAMEWORK.py."""

    def build(
        self, framework: str, precision: str, args: argparse.Namespace
    ) -> TranslationWorkload:
        """Return the workload on a CPU device, with a single bucket of length `args.length`."""
        profile, chosen, words = self.sizes[args.size]
        values = named_sets(self.workload)[chosen].plain
        model = self.workload.defaults(profile, get_round("v0.7", self.workload), {}).model
        settings = synthetic.settings(
            self.workload.name, framework=framework, profile=profile,
            cores_per_device=args.cores, precision=precision,
            global_batch_size=args.batch * (args.length if self.tokens else 1), stop="steps:10",
            dataset=self.dataset, model=model, hyperparameter_set=chosen,
            hyperparameters={**values, **self.changed(args.length)},
            linear_backend=args.linear if framework == "pytorch" else "",
        )  # fmt: skip
        sizes = {
            "vocabulary": words,
            "dev": 200,
            "pairs": 100_000,
            "dev_longest": 100,
            "test_longest": 100,
        }
        return self.workload(settings, DatasetInfo(100_000, 200, sizes, "synthetic"))


def batches(workload: TranslationWorkload) -> Iterator[list[Batch]]:
    """Yield the same batch of random words repeatedly."""
    (specs,) = workload.shapes()
    batch = workload.dummy_batch(specs)
    generator = np.random.default_rng(1)
    for name in ("source", "target", "label"):
        batch.arrays[name][:] = generator.integers(
            4, workload.vocabulary_size, batch.arrays[name].shape
        )
    while True:
        yield [batch]


def pytorch_products(cases: list[Case], precision: str) -> Callable[[], object]:
    """Return a function that computes all three matrix products of each layer.

    The matrix products use the linear backend (oneDNN or MKL) that the workload selects.
    """
    import torch

    from workloads.frameworks.pytorch.linear import linear

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    pairs = []
    for (rows, inputs, outputs), count in Counter(cases).items():
        x, y, w = (
            torch.randn(rows, inputs),
            torch.randn(rows, outputs),
            torch.randn(outputs, inputs),
        )
        of_case = [(x, w), (y, w.t().contiguous()), (y.t().contiguous(), x.t().contiguous())]
        pairs += [(a.to(dtype), b.to(dtype)) for a, b in of_case] * count

    def run() -> None:
        with torch.no_grad():
            for a, b in pairs:
                linear(a, b, None)

    return run


def suite_step(workload: TranslationWorkload, args: argparse.Namespace) -> tuple[float, float]:
    """Return the wall-clock seconds and the CPU seconds of a step."""
    trainer, items = trainer_of(workload, warmup=False), batches(workload)
    seconds, cpu, _ = shortest(lambda: trainer.train([next(items)], 1_000), args.steps)
    trainer.close()
    return seconds, cpu


def measure(kind: Kind, args: argparse.Namespace, framework: str, precision: str) -> Figures:
    """Measure a training step of the suite and the step's matrix products.

    This function runs in the framework's environment.
    """
    workload: Any = kind.build(framework, precision, args)
    step, step_cpu = suite_step(workload, args)
    cases = kind.products(workload.network, args.batch, args.length)
    products = {"tensorflow": tensorflow_products, "mxnet": mxnet_products}
    multiply = (
        pytorch_products(cases, precision) if framework == "pytorch" else products[framework](cases)
    )
    gemm, gemm_cpu, _ = shortest(multiply, args.steps)
    operations = 6 * sum(math.prod(case) for case in cases)
    return {
        "step_seconds": step, "step_cpu_seconds": step_cpu,
        "gemm_seconds": gemm, "gemm_cpu_seconds": gemm_cpu,
        "gemm_share": gemm / step, "gemm_share_cpu": gemm_cpu / step_cpu,
        "tokens_per_second": 2 * args.batch * args.length / step,
        "sentences_per_second": args.batch / step,
        "step_gflops": operations / step / 1e9, "gemm_gflops": operations / gemm / 1e9,
        "step_gflops_per_cpu_second": operations / step_cpu / 1e9,
        "gemm_gflops_per_cpu_second": operations / gemm_cpu / 1e9,
    }  # fmt: skip


def run(
    kind: Kind, args: argparse.Namespace, framework: str, precision: str, model: str
) -> Figures:
    """Measure one model in a separate process, and return its metrics."""
    if model == SUITE:
        words = [
            f"benchmarks.{kind.workload.name}_step",
            "--worker",
            framework,
            "--precisions",
            precision,
        ]
        for part in ("size", "linear", *SIZES):
            words += [f"--{part}", getattr(args, part)]
    else:
        module = f"benchmarks.bare.{kind.workload.name}_{framework}"
        words = [module, model, precision, args.size, *(getattr(args, part) for part in SIZES)]
    found: Figures = in_environment(framework, words, args.cores)
    return found


def summary(rounds: Mapping[str, list[Figures]]) -> dict[str, Figures]:
    """Return the median of each metric for each model.

    A ratio between the suite and another model is the median of the ratios of the individual
    rounds.
    """
    found = {
        model: {
            name: round(statistics.median(row[name] for row in of_model), 4) for name in of_model[0]
        }
        for model, of_model in rounds.items()
    }
    for model in list(rounds)[1:]:
        for name, short in (("step_seconds", ""), ("step_cpu_seconds", "_cpu")):
            found[SUITE][f"suite_to_{model}{short}"] = median_ratio(
                rounds[model], rounds[SUITE], name
            )
    return found


def options(kind: Kind, description: str, batch: int, length: int) -> argparse.Namespace:
    """Parse the command line."""
    parser = parser_with(
        description, frameworks=FRAMEWORKS, batch=batch, length=length, cores=2, rounds=3, steps=2
    )
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--precisions", default="fp32", help="fp32,bf16 (PyTorch alone has bf16)")
    parser.add_argument(
        "--models",
        default="",
        help="suite, and of bare, bare_onednn, stock those wanted; all by default",
    )
    parser.add_argument(
        "--linear",
        default="onednn",
        choices=("mkl", "onednn"),
        help="library of the suite in PyTorch",
    )
    parser.add_argument("--size", default="full", choices=sorted(kind.sizes))
    return parser.parse_args()


def main(kind: Kind, description: str, batch: int, length: int) -> None:
    """Run the benchmark and print its results."""
    args = options(kind, description, batch, length)
    if args.worker:
        print(json.dumps(measure(kind, args, args.worker, args.precisions)))
        return
    results = {}
    for precision in args.precisions.split(","):
        for framework in args.frameworks.split(","):
            if precision != "fp32" and framework in NO_BF16:
                continue
            models = [SUITE, *kind.models.get(framework, ())]
            models = [
                model for model in models if not args.models or model in args.models.split(",")
            ]
            case = f"{framework} {precision}"
            run_model = functools.partial(run, kind, args, framework, precision)
            results[case] = summary(
                in_turns(models, args.rounds, run_model, "step_cpu_seconds", case)
            )
    context = {
        name: getattr(args, name)
        for name in ("size", "batch", "length", "cores", "rounds", "steps", "linear")
    }
    show(f"{kind.workload.name}_step", args.cores, **context, results=results)
