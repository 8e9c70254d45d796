"""How the bare translation loops of TensorFlow train and are timed. Imports nothing of the suite."""

import sys

import tensorflow as tf
from block import print_shortest


def main(make, sizes, beta2, epsilon, clip=None):
    """argv: MODEL fp32 SIZE BATCH LENGTH CORES STEPS. `make(MODEL, words, *sizes[SIZE])`: (loss's function, variables).

    Full sentences of random words, fixed shapes, Adam. Under the MODEL `bare_xla` XLA compiles.
    """
    name, precision, size, *numbers = sys.argv[1:]
    assert precision == "fp32", precision
    batch, length, cores, steps = map(int, numbers)
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    words = [tf.random.uniform((batch, length), 4, sizes[size][0], tf.int32) for _ in range(3)]
    loss_of, variables = make(name, words, *sizes[size])
    moments = [[tf.Variable(tf.zeros_like(variable)) for variable in variables] for _ in range(2)]
    rates = {"lr": 1e-4, "beta1": 0.9, "beta2": beta2, "epsilon": epsilon, "beta1_power": 0.0, "beta2_power": 0.0}

    @tf.function(jit_compile=name == "bare_xla")
    def train(*batch):
        with tf.GradientTape() as tape:
            loss = loss_of(*batch)
        gradients = tape.gradient(loss, variables)
        if clip:
            gradients, _ = tf.clip_by_global_norm(gradients, clip)
        for x, m, v, g in zip(variables, *moments, gradients):
            tf.raw_ops.ResourceApplyAdam(var=x.handle, m=m.handle, v=v.handle, grad=tf.convert_to_tensor(g), **rates)
        return loss

    print_shortest(lambda: float(train(*words)), steps)
