"""Measures which library multiplies the matrices of linear layers faster on this machine, on one core, within a second.

    python -m workloads.frameworks.pytorch.linear.choice

Prints JSON: `library`, and `gain`, MKL's CPU seconds ÷ oneDNN's (geometric mean over shapes).
"""

from __future__ import annotations

import json
import math
import time

import torch

from workloads.frameworks.pytorch import linear

SHAPES = ((4_096, 256, 256), (768, 128, 512), (512, 1_024, 1_024))
"""Rows, inputs and outputs: a layer of NCF, of the Transformer's demo, and of GNMT and the Transformer (big)."""
BUDGET_SECONDS = 0.8
LEAST_GAIN = 0.95
"""Closer than that to equal, oneDNN is taken: machines of one kind then agree."""


def step_seconds(library: str, x: torch.Tensor, weight: torch.Tensor) -> float:
    """CPU seconds of this thread for a layer's three products, x (rows, inputs), weight (outputs, inputs)."""
    linear.use_library(library)
    begin = time.thread_time()
    y = linear.linear(x, weight, None)
    torch.autograd.grad(y, (x, weight), y.detach())
    return time.thread_time() - begin


def measure() -> dict[str, object]:
    """The faster library and by how much oneDNN is; MKL where this build has no oneDNN operator."""
    torch.set_num_threads(1)
    try:
        linear.use_library("onednn")
    except ValueError:
        return {"library": "mkl", "gain": 0.0}
    layers = [
        (torch.randn(rows, inputs, requires_grad=True), torch.randn(outputs, inputs, requires_grad=True))
        for rows, inputs, outputs in SHAPES
    ]
    cases = [(library, *layer) for library in ("mkl", "onednn") for layer in layers]
    shortest, end = [math.inf] * len(cases), time.monotonic() + BUDGET_SECONDS
    for case in cases:
        step_seconds(*case)
    while math.inf in shortest or time.monotonic() < end:
        shortest = [min(seconds, step_seconds(*case)) for seconds, case in zip(shortest, cases, strict=True)]
    ratios = [mkl / onednn for mkl, onednn in zip(shortest[: len(layers)], shortest[len(layers) :], strict=True)]
    gain = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return {"library": "onednn" if gain >= LEAST_GAIN else "mkl", "gain": round(gain, 2)}


if __name__ == "__main__":
    print(json.dumps(measure()))
