"""What a framework and this machine can do at best: GEMM rate at NeuMF's shapes, copy bandwidth. Imports nothing of the suite.

    python rates.py pytorch|tensorflow|mxnet CORES SAMPLES

Times the three products of a training step of each of NeuMF's layers (forward, input gradient, weight gradient) on SAMPLES
rows, and a copy of 256 MiB (bytes read plus bytes written). Prints JSON: gemm_gflops, copy_gigabytes_per_second.
"""

import json
import os
import sys
import time

LAYERS = [(256, 256), (256, 128), (128, 64)]
REPEATS = 5


def best(run):
    """Shortest of REPEATS times, in seconds."""
    run()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def pytorch(cores, samples):
    import torch

    torch.set_num_threads(cores)
    cases = []
    for inputs, outputs in LAYERS:
        x, g, w = torch.randn(samples, inputs), torch.randn(samples, outputs), torch.randn(outputs, inputs)
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
    cases = []
    for inputs, outputs in LAYERS:
        x, g = tf.random.normal((samples, inputs)), tf.random.normal((samples, outputs))
        w = tf.random.normal((outputs, inputs))
        cases += [(x, w, False, True), (g, w, False, False), (g, x, True, False)]
    source = tf.random.normal((1 << 26,))

    def products():
        for a, b, ta, tb in cases:
            tf.linalg.matmul(a, b, transpose_a=ta, transpose_b=tb)

    return products, lambda: tf.identity(source) + 0


def mxnet(cores, samples):
    import mxnet as mx

    # FullyConnected(a, b) = a · bᵀ goes through oneDNN; mx.nd.dot does not and is half as fast.
    cases = []
    for inputs, outputs in LAYERS:
        shapes = ((samples, inputs), (outputs, inputs)), ((samples, outputs), (inputs, outputs))
        shapes += (((outputs, samples), (inputs, samples)),)
        cases += [tuple(mx.nd.random.normal(shape=shape) for shape in pair) for pair in shapes]
    source, target = mx.nd.random.normal(shape=(1 << 26,)), mx.nd.zeros((1 << 26,))

    def products():
        for a, b in cases:
            mx.nd.FullyConnected(a, b, num_hidden=b.shape[0], no_bias=True)
        mx.nd.waitall()

    def copy():
        source.copyto(target)
        mx.nd.waitall()

    return products, copy


def main():
    name, cores, samples = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ.update({"OMP_NUM_THREADS": sys.argv[2], "TF_CPP_MIN_LOG_LEVEL": "2"})
    products, copy = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet}[name](cores, samples)
    operations = 3 * 2 * samples * sum(inputs * outputs for inputs, outputs in LAYERS)
    print(
        json.dumps(
            {
                "gemm_gflops": operations / best(products) / 1e9,
                "copy_gigabytes_per_second": 2 * 4 * (1 << 26) / best(copy) / 1e9,
            }
        )
    )


if __name__ == "__main__":
    main()
