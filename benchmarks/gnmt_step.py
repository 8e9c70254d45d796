"""GNMT's training step against the framework's own matrix products of the same sizes, on CPU cores.

    python benchmarks/gnmt_step.py [--frameworks pytorch,tensorflow,mxnet] [--precisions fp32,bf16] [--size full|demo]
                                   [--batch 32] [--length 25] [--cores 2] [--rounds 3] [--steps 2]

Synthetic batches of full sentences, lying ready. A process steps, then multiplies: of every layer the three products of a step
(forward, gradient by the input, gradient by the weight), all positions at once, recurrent weights too, which a step can only
multiply position by position. `gemm_share` is products' seconds ÷ step's seconds; `..._cpu` the same of the process's CPU
seconds, which a busy machine disturbs less. Medians over rounds; the shortest of `--steps`. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from suite.common import registry
from suite.common.git_state import git_state
from suite.launch import mxnet, pytorch
from suite.launch.base import free_ports, thread_variables
from suite.machine.devices import cpu_model
from workloads.api import Batch, Facts, Place, Settings
from workloads.gnmt import network
from workloads.gnmt.settings import SETS
from workloads.gnmt.workload import GNMT

MALLOC_TUNABLES = {"pytorch": pytorch.MALLOC_TUNABLES, "mxnet": mxnet.MALLOC_TUNABLES}
PROJECT = Path(__file__).resolve().parent.parent
SIZES = {"full": ("synthetic", "reference", 32_317), "demo": ("demo", "demo", 1_253)}
"""Size to profile, hyperparameter set and words."""
NO_BF16 = ("tensorflow", "mxnet")
"""Frameworks whose trainer has fp32 alone on a CPU."""
Case = tuple[int, int, int]
"""Rows, inputs and outputs of a product."""


def workload(framework: str, precision: str, size: str, batch: int, length: int, cores: int) -> GNMT:
    """Of one CPU device, with a bucket that is `length` long."""
    profile, chosen, words = SIZES[size]
    values = {
        name: value.value for name, value in SETS[chosen].items() if name not in ("batch_size_global", "lr_scaling")
    }
    settings = Settings(
        workload="gnmt", framework=framework, profile=profile, rules="v0.7", clock="v0.7", device="cpu", devices=1, nodes=1,
        cores_per_device=cores, precision=precision, batch_size_global=batch, batch_rule="set", lr_scaling="none",
        stop="steps:10", dataset="wmt16-en-de", model=GNMT.defaults(profile, "v0.7", {}).model,
        hyperparameter_set=chosen, hyperparameters={**values, "max_sequence_length": length, "buckets": 1},
    )  # fmt: skip
    sizes = {"vocabulary": words, "dev": 200, "pairs": 100_000, "dev_longest": 100, "test_longest": 100}
    return GNMT(settings, Facts(100_000, 200, sizes, "synthetic"))


def batches(made: GNMT) -> Iterator[list[Batch]]:
    """The same random words again and again."""
    (specs,) = made.shapes()
    batch = made.dummy_batch(specs)
    generator = np.random.default_rng(1)
    for name in ("source", "target", "label"):
        batch.arrays[name][:] = generator.integers(4, made.vocabulary_size, batch.arrays[name].shape)
    while True:
        yield [batch]


def products(layers: network.Network, batch: int, length: int) -> list[Case]:
    """The matrix products of a forward pass; attention's scores and contexts, which are no products of weights, left out."""
    rows = batch * length
    sizes = network.shapes(layers)
    matrices = [(name, shape) for name, shape in sizes.items() if len(shape) == 2 and not name.startswith("embedding")]
    return [(rows, shape[1], shape[0]) for _, shape in matrices]


def shortest(run: Callable[[], object], times: int) -> tuple[float, float]:
    """Seconds and CPU seconds of the shortest of `times`, after one that does not count."""
    run()
    found = []
    for _ in range(times):
        begin, used = time.perf_counter(), time.process_time()
        run()
        found.append((time.perf_counter() - begin, time.process_time() - used))
    return min(one for one, _ in found), min(other for _, other in found)


def pytorch_products(cases: list[Case], precision: str) -> Callable[[], object]:
    """All three of each; in fp32 through oneDNN, as linear layers go here."""
    import torch

    from workloads.frameworks.pytorch.linear import linear

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    pairs = []
    for rows, inputs, outputs in cases:
        x, y, w = torch.randn(rows, inputs), torch.randn(rows, outputs), torch.randn(outputs, inputs)
        pairs += [(x, w), (y, w.t().contiguous()), (y.t().contiguous(), x.t().contiguous())]
    pairs = [(a.to(dtype), b.to(dtype)) for a, b in pairs]

    def run() -> None:
        with torch.no_grad():
            for a, b in pairs:
                linear(a, b, None)

    return run


def tensorflow_products(cases: list[Case], precision: str) -> Callable[[], object]:
    """The same by tf.matmul, waited for."""
    import tensorflow as tf

    pairs = []
    for rows, inputs, outputs in cases:
        x, y, w = (
            tf.random.normal((rows, inputs)),
            tf.random.normal((rows, outputs)),
            tf.random.normal((outputs, inputs)),
        )
        pairs += [(x, w, False, True), (y, w, False, False), (y, x, True, False)]

    def run() -> None:
        for a, b, first, second in pairs:
            tf.matmul(a, b, transpose_a=first, transpose_b=second)[0, 0].numpy()

    return run


def mxnet_products(cases: list[Case], precision: str) -> Callable[[], object]:
    """The same by FullyConnected, which goes through oneDNN."""
    import mxnet as mx

    pairs = []
    for rows, inputs, outputs in cases:
        for one, other in (((rows, inputs), (outputs, inputs)), ((rows, outputs), (inputs, outputs))):
            pairs.append((mx.nd.random.normal(shape=one), mx.nd.random.normal(shape=other)))
        pairs.append((mx.nd.random.normal(shape=(outputs, rows)), mx.nd.random.normal(shape=(inputs, rows))))

    def run() -> None:
        for a, b in pairs:
            mx.nd.FullyConnected(a, b, num_hidden=b.shape[0], no_bias=True)
        mx.nd.waitall()

    return run


PRODUCTS = {"pytorch": pytorch_products, "tensorflow": tensorflow_products, "mxnet": mxnet_products}


def measure(args: argparse.Namespace, framework: str, precision: str) -> dict[str, float]:
    """In the framework's environment: a step, and the products."""
    os.environ.update({"MASTER_PORT": str(free_ports(1)[0]), "RANK": "0", "WORLD_SIZE": "1"})
    made = workload(framework, precision, args.size, args.batch, args.length, args.cores)
    place = Place(0, 1, range(1), 1, ("cpu",), cores_per_device=args.cores)
    trainer = registry.load_trainer("gnmt", framework)(made, place)
    trainer.setup(made.initial_weights(1), warm_up=False)
    ready = batches(made)
    step, step_cpu = shortest(lambda: trainer.train([next(ready)], 1_000), args.steps)
    trainer.close()
    cases = products(made.network, args.batch, args.length)
    gemm, gemm_cpu = shortest(PRODUCTS[framework](cases, precision), args.steps)
    tokens, operations = 2 * args.batch * args.length, 6 * sum(math.prod(case) for case in cases)
    return {
        "step_seconds": step, "step_cpu_seconds": step_cpu, "gemm_seconds": gemm, "gemm_cpu_seconds": gemm_cpu,
        "gemm_share": gemm / step, "gemm_share_cpu": gemm_cpu / step_cpu, "tokens_per_second": tokens / step,
        "sentences_per_second": args.batch / step, "step_gflops": operations / step / 1e9,
        "gemm_gflops": operations / gemm / 1e9,
    }  # fmt: skip


def run(framework: str, precision: str, args: argparse.Namespace) -> dict[str, float]:
    """One process in the framework's environment, pinned to its cores."""
    from suite.environments.environment import resolve  # not in a framework's environment

    words = [str(Path(__file__)), "--worker", framework, "--precisions", precision, "--size", args.size]
    for name in ("batch", "length", "cores", "steps"):
        words += [f"--{name}", str(getattr(args, name))]
    variables = {**os.environ, **thread_variables(args.cores), "PYTHONPATH": str(PROJECT)}
    if framework in MALLOC_TUNABLES:
        variables["GLIBC_TUNABLES"] = MALLOC_TUNABLES[framework]  # as the launcher does
    pin = ["taskset", "-c", ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[: args.cores])]
    command = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"]).command(*words)
    done = subprocess.run([*pin, *command], capture_output=True, text=True, env=variables)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Of each figure."""
    return {name: round(statistics.median(one[name] for one in rounds), 4) for name in rounds[0]}


def options() -> argparse.Namespace:
    """What can be told."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--frameworks", default="pytorch,tensorflow,mxnet")
    parser.add_argument("--precisions", default="fp32", help="fp32,bf16 (PyTorch alone has bf16)")
    parser.add_argument("--size", default="full", choices=sorted(SIZES))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    args = options()
    if args.worker:
        print(json.dumps(measure(args, args.worker, args.precisions)))
        return
    begin, load = time.time(), os.getloadavg()[0]
    pairs = [(one, other) for other in args.precisions.split(",") for one in args.frameworks.split(",")]
    pairs = [
        (framework, precision) for framework, precision in pairs if precision == "fp32" or framework not in NO_BF16
    ]
    found: dict[tuple[str, str], list[dict[str, float]]] = {pair: [] for pair in pairs}
    for number in range(args.rounds):
        for framework, precision in pairs:
            found[framework, precision].append(run(framework, precision, args))
            last = found[framework, precision][-1]
            print(f"{framework} {precision} {number}: share {last['gemm_share']:.2f}", file=sys.stderr)
    told = {name: getattr(args, name) for name in ("size", "batch", "length", "cores", "rounds", "steps")}
    results = {f"{framework} {precision}": medians(rounds) for (framework, precision), rounds in found.items()}
    machine = {"device": f"{args.cores} cores of {cpu_model()}", "load_average_before": load, "git": git_state()}
    seconds = round(time.time() - begin)
    print(json.dumps({"benchmark": "gnmt_step", **told, **machine, "seconds": seconds, "results": results}, indent=1))


if __name__ == "__main__":
    main()
