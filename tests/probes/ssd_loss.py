"""Runs in a framework's environment: SSD's loss of synthetic outputs, and its gradients.

Some outputs have equal logits.
"""

import functools

import numpy as np

from suite.common.registry import load_trainer
from testing import synthetic_ssd
from tests.probes.image_trainers import place_here
from workloads.ssd.settings import SSDOptions


def of_pytorch(equal, negatives):
    """Return `loss` and its gradients `by_logits` and `by_offsets`."""
    import torch

    from workloads.ssd.pytorch import detection_loss

    options = SSDOptions(negatives_per_positive=negatives)
    outputs = synthetic_ssd.outputs(equal)
    logits, offsets = (
        torch.from_numpy(outputs[name]).requires_grad_() for name in ("logits", "offsets")
    )
    labels = torch.from_numpy(outputs["labels"]).long()
    loss = detection_loss(
        offsets, logits, torch.from_numpy(outputs["wanted"]), labels, options
    ) / len(labels)
    loss.backward()
    return {
        "loss": loss.item(),
        "by_logits": logits.grad.numpy(),
        "by_offsets": offsets.grad.numpy(),
    }


def of_tensorflow(equal, negatives):
    """Return the same as `of_pytorch`.

    Sorting all priors must have the same result as sorting only the required number of priors.
    """
    import tensorflow as tf

    from workloads.ssd.tensorflow import detection_loss

    # The trainer sets these too, which is too late if tensors exist.
    for kind in ("intra", "inter"):
        getattr(tf.config.threading, f"set_{kind}_op_parallelism_threads")(1)
    options = SSDOptions(negatives_per_positive=negatives)
    outputs = synthetic_ssd.outputs(equal)
    offsets, wanted, labels = (
        tf.constant(outputs[name]) for name in ("offsets", "wanted", "labels")
    )
    logits = tf.transpose(tf.constant(outputs["logits"]), [0, 2, 1])
    found = []
    for static in (False, True):
        with tf.GradientTape() as tape:
            tape.watch([logits, offsets])
            loss = detection_loss(offsets, logits, wanted, labels, options, static) / len(labels)
        by_logits, by_offsets = tape.gradient(loss, [logits, offsets])
        found.append([loss.numpy(), tf.transpose(by_logits, [0, 2, 1]).numpy(), by_offsets.numpy()])
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-9)
    return dict(zip(("loss", "by_logits", "by_offsets"), found[0], strict=True))


def of_jax(equal, negatives):
    """Return the same as `of_pytorch`, compiled."""
    import jax

    from workloads.ssd.jax import detection_loss

    options = SSDOptions(negatives_per_positive=negatives)
    outputs = synthetic_ssd.outputs(equal)
    offsets, logits, *targets = (
        outputs[name] for name in ("offsets", "logits", "wanted", "labels")
    )
    of_arrays = functools.partial(detection_loss, options=options)
    loss, (by_offsets, by_logits) = jax.jit(jax.value_and_grad(of_arrays, (0, 1)))(
        offsets, logits, *targets
    )
    found = {"loss": loss, "by_logits": by_logits, "by_offsets": by_offsets}
    return {name: jax.device_get(value) / len(logits) for name, value in found.items()}


def of_mxnet(equal, negatives):
    """Return the same as `of_pytorch`."""
    import mxnet as mx

    from workloads.ssd.mxnet import detection_loss

    options = SSDOptions(negatives_per_positive=negatives)
    outputs = synthetic_ssd.outputs(equal)
    logits, offsets, wanted, labels = (
        mx.nd.array(outputs[name], dtype=outputs[name].dtype)
        for name in ("logits", "offsets", "wanted", "labels")
    )
    for array in (logits, offsets):
        array.attach_grad()
    with mx.autograd.record():
        loss = detection_loss(
            mx.nd, offsets, logits, wanted, labels, options, labels.shape[1]
        ) / len(labels)
    loss.backward()
    return {
        "loss": loss.asscalar(),
        "by_logits": logits.grad.asnumpy(),
        "by_offsets": offsets.grad.asnumpy(),
    }


def of_trainer(framework, negatives):
    """Return the `loss` of a batch by a trainer with this `negatives_per_positive`.

    For PyTorch, the result also has the inputs of the loss: `offsets`, `logits`, `wanted`,
    `labels`.
    """
    plain = synthetic_ssd.workload("uneven", framework).settings.hyperparameters
    changed = {**plain, "negatives_per_positive": negatives}
    workload = synthetic_ssd.workload("uneven", framework, hyperparameters=changed)
    trainer = load_trainer("ssd", framework)(workload, place_here(1))
    trainer.setup(synthetic_ssd.weights(workload).items(), False)
    batch = synthetic_ssd.batch(workload, 0)
    found = {"loss": trainer.forward([[batch]]).loss}
    if framework == "pytorch":
        arrays = trainer.device_arrays(batch, training=True)
        outputs = trainer.training_model(arrays["image"])
        found |= {
            name: value.detach().numpy()
            for name, value in zip(("offsets", "logits"), outputs, strict=True)
        }
        found |= {"wanted": batch.arrays["offset"], "labels": batch.arrays["label"]}
    trainer.close()
    return found
