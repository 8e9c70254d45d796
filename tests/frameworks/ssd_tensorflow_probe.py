"""Run inside TensorFlow's environment: SSD's `uneven` case in every way that the trainer can compute it, as .npz.

    RANK=0 WORLD_SIZE=1 python ssd_tensorflow_probe.py OUT.npz

By variant `NAME/…`: `losses` of three steps, `offsets` and `logits` before them, `traces`, `narrow` (whether a parameter is
used in a narrower type), `fp32` (whether the state is in fp32), `empty` (the loss of a fourth step, whose images have no
positives), `behind_empty` (that of the next). `equals/STATIC`: the loss's gradient where all logits are equal.
"""

import dataclasses
import sys

import numpy as np
import tensorflow as tf

from tests.workloads.ssd import synthetic_ssd
from workloads.api import Place
from workloads.ssd.tensorflow import SSDTrainer, detection_loss

VARIANTS = {
    "fp32": ("fp32", "off"),
    "compiled": ("fp32", "on"),
    "bf16": ("bf16", "off"),
    "fp16": ("fp16", "off"),
}


def compute(precision, compiled):
    """One variant."""
    workload = synthetic_ssd.workload("uneven", "tensorflow", compile=compiled, precision=precision)
    trainer = SSDTrainer(workload, Place(0, 1, range(1), 1, ("cpu",)))
    trainer.setup(synthetic_ssd.weights(workload).items())
    batches = [synthetic_ssd.batch(workload, number) for number in range(3)]
    outputs = next(trainer.predict([batches[:1]]))[1]
    losses = [trainer.train([[batch]], number).loss for number, batch in enumerate(batches)]
    nothing = {"offset": np.zeros_like(batches[0].arrays["offset"]), "label": np.zeros_like(batches[0].arrays["label"])}
    empty = dataclasses.replace(batches[0], arrays={**batches[0].arrays, **nothing})
    losses += [trainer.train([[one]], 3).loss for one in (empty, batches[0])]
    used = trainer.model.parameter("conv1.weight").dtype
    state = trainer.state()
    trainer.close()
    return {
        **outputs, "losses": losses[:3], "empty": losses[3], "behind_empty": losses[4], "traces": trainer.traces,
        "narrow": used.size < 4, "fp32": all(value.dtype == np.float32 for value in state.values()),
    }  # fmt: skip


def gradient_of_equals(static):
    """By logits (B, C + 1, P), all of them 0."""
    made = synthetic_ssd.outputs()
    offsets, wanted, labels = (tf.constant(made[name]) for name in ("offsets", "wanted", "labels"))
    logits = tf.zeros_like(tf.transpose(made["logits"], [0, 2, 1]))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = detection_loss(offsets, logits, wanted, labels, static) / len(labels)
    return tf.transpose(tape.gradient(loss, logits), [0, 2, 1]).numpy()


if __name__ == "__main__":
    found = {f"{name}/{key}": value for name, how in VARIANTS.items() for key, value in compute(*how).items()}
    equals = {f"equals/{static}": gradient_of_equals(static) for static in (False, True)}
    np.savez(sys.argv[1], **found, **equals)
