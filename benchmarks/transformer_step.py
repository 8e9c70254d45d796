"""Compare the Transformer's training step with other models and matrix products.

    python -m benchmarks.transformer_step [--frameworks pytorch] [--precisions fp32,bf16]
        [--size full|demo] [--models suite,bare,bare_onednn,stock] [--batch 128] [--length 32]
        [--cores 2] [--rounds 3] [--steps 2]

The benchmark runs on CPU cores. The suite is compared with a plain training loop and with `stock`,
which is torch.nn.Transformer with the same layer sizes. The attention layers of `stock` have
biases, unlike those of the suite. The file translation_step.py describes the metrics in the output.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bare.rates import Case
from benchmarks.translation_step import Kind, main
from workloads.transformer import network
from workloads.transformer.workload import REFERENCE_VOCABULARY, Transformer


def products(sizes: Any, batch: int, length: int) -> list[Case]:
    """Return the matrix products of a forward pass.

    The list includes the product of the tied output layer and excludes the products inside
    attention.
    """
    return [
        (batch * length, shape[1], shape[0])
        for shape in network.shapes(sizes).values()
        if len(shape) == 2
    ]


KIND = Kind(
    workload=Transformer,
    dataset="wmt17-en-de",
    sizes={
        "full": ("synthetic", "reference", REFERENCE_VOCABULARY),
        "demo": ("demo", "demo", 1_253),
    },
    changed=lambda length: {"max_sequence_length": length, "bucket_first": length},
    tokens=True,
    products=products,
    models={
        "pytorch": ("bare", "bare_onednn", "stock"),
        "tensorflow": ("bare",),
        "mxnet": ("bare",),
    },
)

if __name__ == "__main__":
    main(KIND, __doc__.splitlines()[0], batch=128, length=32)
