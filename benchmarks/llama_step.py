"""Compare the training step of Llama's demo with a plain loop and with transformers.

    python -m benchmarks.llama_step [--frameworks pytorch,jax] [--rounds 5] [--steps 40]
        [--packages FOLDER]

The benchmark runs on one CPU core in fp32. `bare` is a plain PyTorch loop (bare/llama_pytorch.py).
`transformers` is the same loop with `LlamaForCausalLM`, and runs if FOLDER contains the installed
library. The time of a step is the least time in a process, and the ratio is the median over rounds
of the time of the comparison divided by the time of the suite in the same round. The output is
JSON. It also contains the predicted rate of the full-size model for some utilizations of a GPU.
These predictions are not measurements.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from typing import Any

from benchmarks.measuring import (
    in_environment,
    in_turns,
    median_ratio,
    parser_with,
    show,
    trainer_of,
)
from testing import synthetic, synthetic_llama
from workloads.llama31_8b.network import Network
from workloads.llama31_8b.settings import DEMO_MODEL, REFERENCE_MODEL

BATCH = 8
SIZES = {
    **{name: DEMO_MODEL[name] for name in ("vocabulary", "layers", "hidden", "feed_forward")},
    **{name: DEMO_MODEL[name] for name in ("heads", "key_value_heads")},
    "length": DEMO_MODEL["sequence_length"],
    "batch": BATCH,
}
PEAK_TERAFLOPS = {"H100 SXM": 989, "H200 SXM": 989, "B200": 2_250}
"""Dense bf16 peak of a GPU in TFLOP/s (data sheets of NVIDIA)."""
UTILIZATIONS = (0.4, 0.5, 0.6)


def step_gigaflops(model: dict[str, Any]) -> float:
    """Return the operations of a token in forward and backward pass, in GFLOP.

    Each weight of a matrix product needs 6 operations. Causal attention needs 6 · layers · hidden ·
    length operations, because half of the scores are computed.
    """
    network = Network.of(model)
    products = sum(
        shape[0] * shape[1]
        for name, shape in network.shapes().items()
        if len(shape) == 2 and name != "embedding.weight"
    )
    attention = network.layers * network.hidden * network.sequence_length
    return 6 * (products + attention) / 1e9


def predictions() -> dict[str, dict[str, float]]:
    """Return tokens/s of a GPU for the full-size model, by GPU and utilization."""
    per_token = step_gigaflops(dict(REFERENCE_MODEL)) * 1e9
    return {
        gpu: {f"{share:.0%}": round(share * peak * 1e12 / per_token) for share in UTILIZATIONS}
        for gpu, peak in PEAK_TERAFLOPS.items()
    }


def suite_step(framework: str, steps: int) -> dict[str, float]:
    """Return the least time of a step of the suite, in this process."""
    from workloads.api import DatasetInfo
    from workloads.llama31_8b.workload import Llama

    settings = synthetic.settings(
        "llama31_8b", framework=framework, dataset="llama-demo", global_batch_size=BATCH,
        model=dict(DEMO_MODEL), hyperparameters={**synthetic_llama.ADAMW, "clip_norm": 1.0},
    )  # fmt: skip
    trainer = trainer_of(Llama(settings, DatasetInfo(8_192, 128, {}, "synthetic")))
    data = trainer.workload.open_data(trainer.worker, 1)
    batches = list(data.train(0, 4))
    data.close()
    least = [float("inf"), float("inf")]
    for step in range(steps):
        start, cpu = time.perf_counter(), time.process_time()
        trainer.train([batches[step % len(batches)]], step)
        spent = time.perf_counter() - start, time.process_time() - cpu
        least = [min(pair) for pair in zip(least, spent, strict=True)]
    trainer.close()
    return {"step_seconds": least[0], "step_cpu_seconds": least[1]}


def run(args: argparse.Namespace, name: str) -> dict[str, float]:
    """Return the time of a step, measured in a new process."""
    if name in ("bare", "transformers"):
        sizes = json.dumps({**SIZES, "steps": args.steps, "packages": args.packages})
        words = ["benchmarks.bare.llama_pytorch", name, sizes]
        return dict(in_environment("pytorch", words, 1))
    words = ["benchmarks.llama_step", "--measure", name, "--steps", args.steps]
    return dict(in_environment(name, words, 1))


def main() -> None:
    """Print the results as JSON."""
    parser = parser_with(
        __doc__, frameworks="pytorch,jax", rounds=5, steps=40, packages="", measure=""
    )
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(suite_step(args.measure, args.steps)))
        return
    frameworks = args.frameworks.split(",")
    names = [*frameworks, "bare", *(["transformers"] if args.packages else [])]
    found = in_turns(names, args.rounds, functools.partial(run, args), "step_cpu_seconds", "llama")
    ratios = {
        f"{other} / {framework}": median_ratio(found[other], found[framework], "step_cpu_seconds")
        for framework in frameworks
        for other in names[len(frameworks) :]
    }
    least = {
        name: {key: round(min(row[key] for row in rows), 5) for key in rows[0]}
        for name, rows in found.items()
    }
    show(
        "llama_step", 1, model=SIZES, rounds=args.rounds, steps=args.steps, least=least,
        ratios_of_cpu_seconds=ratios,
        gigaflops_per_token=round(step_gigaflops(dict(REFERENCE_MODEL)), 2),
        predicted_tokens_per_second_per_gpu=predictions(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
