"""Measure a framework's GEMM rate at NeuMF's shapes, and its copy bandwidth.

    python -m benchmarks.bare.rates pytorch|tensorflow|mxnet CORES SAMPLES

For each layer of NeuMF, the program times the three matrix products of a training step (forward,
input gradient, weight gradient) with a batch of SAMPLES. The program also times a copy of 256 MiB
(bytes read plus bytes written). The output is JSON with gemm_gflops and copy_gigabytes_per_second.
This program does not import the suite.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence

LAYERS = [(256, 256), (256, 128), (128, 64)]
REPEATS = 5
Case = tuple[int, int, int]
"""Shape of a layer's matrix product: batch size, number of inputs, number of outputs."""


def tensorflow_products(cases: Sequence[Case]) -> Callable[[], None]:
    """Return a function that computes all three products of each layer with tf.matmul.

    The returned function waits until all products are computed.
    """
    import tensorflow as tf

    pairs = []
    for (rows, inputs, outputs), count in Counter(cases).items():
        x, y, w = (
            tf.random.normal(size) for size in ((rows, inputs), (rows, outputs), (outputs, inputs))
        )
        pairs += [(x, w, False, True), (y, w, False, False), (y, x, True, False)] * count

    def run() -> None:
        for a, b, first, second in pairs:
            tf.matmul(a, b, transpose_a=first, transpose_b=second)[0, 0].numpy()

    return run


def mxnet_products(cases: Sequence[Case]) -> Callable[[], None]:
    """Return a function that computes all products with FullyConnected(a, b) = a · bᵀ.

    MXNet's FullyConnected uses oneDNN. In contrast, mx.nd.dot does not use oneDNN and is half as
    fast.
    """
    import mxnet as mx

    pairs = []
    for (rows, inputs, outputs), count in Counter(cases).items():
        x, y, w = (rows, inputs), (rows, outputs), (outputs, inputs)
        shapes = (x, w), (y, w[::-1]), (y[::-1], x[::-1])
        pairs += [
            tuple(mx.nd.random.normal(shape=shape) for shape in pair) for pair in shapes
        ] * count

    def run() -> None:
        for a, b in pairs:
            mx.nd.FullyConnected(a, b, num_hidden=b.shape[0], no_bias=True)
        mx.nd.waitall()

    return run


def pytorch(cores, samples):
    import torch

    torch.set_num_threads(cores)
    cases = []
    for inputs, outputs in LAYERS:
        x, g, w = (
            torch.randn(samples, inputs),
            torch.randn(samples, outputs),
            torch.randn(outputs, inputs),
        )
        y, dx, dw = torch.empty_like(g), torch.empty_like(x), torch.empty_like(w)
        cases += [(x, w.t(), y), (g, w, dx), (g.t(), x, dw)]
    source, target = torch.randn(1 << 26), torch.empty(1 << 26)
    return (
        lambda: [torch.mm(a, b, out=c) for a, b, c in cases],
        lambda: target.copy_(source),
    )


def tensorflow(cores, samples):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    source = tf.random.normal((1 << 26,))
    return tensorflow_products(
        [(samples, *layer) for layer in LAYERS]
    ), lambda: tf.identity(source) + 0


def mxnet(cores, samples):
    import mxnet as mx

    source, target = mx.nd.random.normal(shape=(1 << 26,)), mx.nd.zeros((1 << 26,))

    def copy():
        source.copyto(target)
        mx.nd.waitall()

    return mxnet_products([(samples, *layer) for layer in LAYERS]), copy


def main():
    from benchmarks.bare.block import shortest

    name, cores, samples = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ.update({"OMP_NUM_THREADS": sys.argv[2], "TF_CPP_MIN_LOG_LEVEL": "2"})
    products, copy = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet}[name](
        cores, samples
    )
    operations = 3 * 2 * samples * sum(inputs * outputs for inputs, outputs in LAYERS)
    gemm_gflops = operations / shortest(products, REPEATS)[0] / 1e9
    copied = 2 * 4 * (1 << 26) / shortest(copy, REPEATS)[0] / 1e9
    print(json.dumps({"gemm_gflops": gemm_gflops, "copy_gigabytes_per_second": copied}))


if __name__ == "__main__":
    main()
