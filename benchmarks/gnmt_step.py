"""Compare GNMT's training step with matrix products and a plain loop, on CPU cores.

    python -m benchmarks.gnmt_step [--frameworks pytorch,tensorflow,mxnet] [--precisions fp32,bf16]
        [--size full|demo] [--models suite,bare,bare_onednn,bare_keras] [--batch 32] [--length 25]
        [--cores 2] [--rounds 3] [--steps 2]

The file translation_step.py describes the metrics. The matrix products have the same sizes as in
the training step. For recurrent weights, the benchmark computes a single product for all positions,
whereas a training step must compute a product for each position.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bare.rates import Case
from benchmarks.translation_step import Kind, main
from workloads.gnmt import network
from workloads.gnmt.workload import GNMT


def products(layers: Any, batch: int, length: int) -> list[Case]:
    """Return the matrix products of a forward pass.

    Attention scores and contexts are excluded, because their products involve no weights.
    """
    sizes = network.shapes(layers)
    matrices = [
        (name, shape)
        for name, shape in sizes.items()
        if len(shape) == 2 and not name.startswith("embedding")
    ]
    return [(batch * length, shape[1], shape[0]) for _, shape in matrices]


KIND = Kind(
    workload=GNMT,
    dataset="wmt16-en-de",
    sizes={"full": ("synthetic", "reference", 32_317), "demo": ("demo", "demo", 1_253)},
    changed=lambda length: {"max_sequence_length": length, "buckets": 1},
    tokens=False,
    products=products,
    models={
        "pytorch": ("bare", "bare_onednn"),
        "tensorflow": ("bare", "bare_keras"),
        "mxnet": ("bare",),
    },
)

if __name__ == "__main__":
    main(KIND, __doc__.splitlines()[0], batch=32, length=25)
