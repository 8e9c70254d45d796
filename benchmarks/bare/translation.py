"""Training and timing of the bare translation loops.

Each program has the arguments MODEL fp32|bf16 SIZE BATCH LENGTH CORES STEPS. All sentences consist
of random words and have the full LENGTH. The loops use the framework's dropout and Adam. After a
warm-up step, the program times STEPS steps. The output is JSON with the seconds and CPU seconds of
the shortest step, and the loss. A framework's model is built by `make(MODEL, *sizes of SIZE)`. This
module does not import the suite.
"""

import contextlib
import sys

from benchmarks.bare.block import print_shortest

GNMT = {"full": (32_320, 1_024, 4), "demo": (1_256, 128, 3)}
"""Vocabulary size, hidden size, and number of layers in the encoder and in the decoder."""
GNMT_PARAMETERS = {"full": 160_671_297, "demo": 1_477_097}
"""Number of parameters of GNMT. The number for `full` is that of the published runs (MLPerf v0.6,
v0.7).
"""
GNMT_CLIP = 5.0
TRANSFORMER = {"full": (33_708, 1_024, 4_096, 6, 16), "demo": (1_253, 128, 512, 2, 4)}
"""Vocabulary size, hidden size, feed-forward size, number of layers, and number of heads."""
SMOOTHING, RATE = 0.1, 1e-4

MODEL, PRECISION, SIZE, *numbers = sys.argv[1:]
BATCH, LENGTH, CORES, STEPS = map(int, numbers)


def pytorch(make, sizes):
    """Train a PyTorch module that maps (source, target) to logits, and print the step time."""
    import torch
    from torch.nn import functional

    from benchmarks.bare.linear import Linear

    torch.set_num_threads(CORES)
    torch.manual_seed(1)
    Linear.onednn = MODEL == "bare_onednn"
    model = make(MODEL, *sizes[SIZE])
    adam = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    source, target, label = (torch.randint(4, sizes[SIZE][0], (BATCH, LENGTH)) for _ in range(3))
    narrow = (
        torch.autocast("cpu", torch.bfloat16) if PRECISION == "bf16" else contextlib.nullcontext()
    )

    def step():
        adam.zero_grad(set_to_none=True)
        with narrow:
            logits = model(source, target)
        loss = functional.cross_entropy(
            logits.flatten(0, 1).float(), label.flatten(), label_smoothing=SMOOTHING
        )
        loss.backward()
        adam.step()
        return float(loss.detach())

    print_shortest(step, STEPS)


def tensorflow(make, sizes, beta2, epsilon, clip=None):
    """Train a TensorFlow model, and print its step time.

    The model creates its `variables` in the first call of `loss(source, target, label)`. For
    `bare_xla`, XLA compiles the training step.
    """
    import tensorflow as tf

    assert PRECISION == "fp32", PRECISION
    tf.config.threading.set_intra_op_parallelism_threads(CORES)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    words = [tf.random.uniform((BATCH, LENGTH), 4, sizes[SIZE][0], tf.int32) for _ in range(3)]
    model = make(MODEL, *sizes[SIZE])
    model.loss(*words)
    variables = model.all_variables()
    moments = [[tf.Variable(tf.zeros_like(variable)) for variable in variables] for _ in range(2)]
    rates = {
        "lr": RATE,
        "beta1": 0.9,
        "beta2": beta2,
        "epsilon": epsilon,
        "beta1_power": 0.0,
        "beta2_power": 0.0,
    }

    @tf.function(jit_compile=MODEL == "bare_xla")
    def train(*batch):
        with tf.GradientTape() as tape:
            loss = model.loss(*batch)
        gradients = tape.gradient(loss, variables)
        if clip:
            gradients, _ = tf.clip_by_global_norm(gradients, clip)
        for x, m, v, g in zip(variables, *moments, gradients):
            tf.raw_ops.ResourceApplyAdam(
                var=x.handle, m=m.handle, v=v.handle, grad=tf.convert_to_tensor(g), **rates
            )
        return loss

    print_shortest(lambda: float(train(*words)), STEPS)


def mxnet(make, sizes, clip=None, **of_adam):
    """Train an initialized MXNet block that maps (source, target, label) to the loss.

    The additional arrays that `make` returns are also passed to the block.
    """
    import mxnet as mx

    assert PRECISION == "fp32", PRECISION
    model, *more = make(MODEL, *sizes[SIZE])
    model.hybridize(static_alloc=True, static_shape=True)
    words = [
        mx.nd.random.randint(4, sizes[SIZE][0], (BATCH, LENGTH), dtype="int32") for _ in range(3)
    ]
    parameters = model.collect_params()
    adam = mx.gluon.Trainer(parameters, "adam", {"learning_rate": RATE, **of_adam})

    def step():
        with mx.autograd.record():
            loss = model(*words, *more)
        loss.backward()
        if clip:
            gradients = [parameter.grad() for parameter in parameters.values()]
            mx.gluon.utils.clip_global_norm(gradients, clip, check_isfinite=False)
        adam.step(1)
        value = float(loss.asscalar())
        mx.nd.waitall()
        return value

    print_shortest(step, STEPS)
