"""Run inside a framework's environment: what an SSD trainer computes from made-up weights and batches, as .npz.

    python ssd_probe.py FRAMEWORK CASE OUT.npz [DEVICES [COMPILE]]

Holds: `offsets` and `logits` in evaluation mode with made-up running statistics; `detections/…`, what `measure` makes of them;
`losses` of ten steps (one of `full`); `training_loss` of a step's batch without an update; every entry of `state()` after the
first step under `first/…` and after the steps under `state/…`; `loss`, `by_logits` and `by_offsets` of made-up outputs;
`gradient/…` of a batch by the trainer's model and loss in float64, where the framework can; `digests` of the state after
setup without and with warm-up, and after load_state(state()). With several processes (RANK, WORLD_SIZE set by the caller) every
process writes.
"""

import hashlib
import importlib
import os
import sys

import numpy as np

from tests.workloads.ssd import synthetic_ssd
from workloads.api import Place


def digest(state):
    """SHA-256 over names and bytes."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + np.ascontiguousarray(state[name]).tobytes())
    return found.hexdigest()


def loss_of_pytorch(outputs):
    """The trainer's loss of made-up outputs, and its gradients; the images' mean."""
    import torch

    from workloads.ssd.pytorch import detection_loss

    logits, offsets = (torch.from_numpy(outputs[name]).requires_grad_() for name in ("logits", "offsets"))
    labels = torch.from_numpy(outputs["labels"]).long()
    loss = detection_loss(offsets, logits, torch.from_numpy(outputs["wanted"]), labels) / len(labels)
    loss.backward()
    return {"loss": loss.item(), "by_logits": logits.grad.numpy(), "by_offsets": offsets.grad.numpy()}


def loss_of_tensorflow(outputs):
    """The same; sorting all priors or only as many as are wanted must not matter."""
    import tensorflow as tf

    from workloads.ssd.tensorflow import detection_loss

    offsets, wanted, labels = (tf.constant(outputs[name]) for name in ("offsets", "wanted", "labels"))
    logits = tf.transpose(tf.constant(outputs["logits"]), [0, 2, 1])
    found = []
    for static in (False, True):
        with tf.GradientTape() as tape:
            tape.watch([logits, offsets])
            loss = detection_loss(offsets, logits, wanted, labels, static) / len(labels)
        by_logits, by_offsets = tape.gradient(loss, [logits, offsets])
        found.append([loss.numpy(), tf.transpose(by_logits, [0, 2, 1]).numpy(), by_offsets.numpy()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    return dict(zip(("loss", "by_logits", "by_offsets"), found[0], strict=True))


def loss_of_mxnet(outputs):
    """The same."""
    import mxnet as mx

    from workloads.ssd.mxnet import detection_loss

    logits, offsets, wanted, labels = (
        mx.nd.array(outputs[name], dtype=outputs[name].dtype) for name in ("logits", "offsets", "wanted", "labels")
    )
    for array in (logits, offsets):
        array.attach_grad()
    with mx.autograd.record():
        loss = detection_loss(mx.nd, offsets, logits, wanted, labels, labels.shape[1]) / len(labels)
    loss.backward()
    return {"loss": loss.asscalar(), "by_logits": logits.grad.asnumpy(), "by_offsets": offsets.grad.asnumpy()}


def gradients_of_pytorch(trainer, batch):
    """Of every parameter: rounding moves no ReLU and no mined negative to the other side."""
    trainer.model.double()
    trainer.loss(batch).backward()
    return {f"gradient/{name}": value.grad.numpy() for name, value in trainer.parameters.items()}


LOSSES = {"pytorch": loss_of_pytorch, "tensorflow": loss_of_tensorflow, "mxnet": loss_of_mxnet}
GRADIENTS = {"pytorch": gradients_of_pytorch}


def main():
    framework, case, out = sys.argv[1:4]
    devices = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    process, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    replicas = range(process, process + 1) if processes > 1 else range(devices)
    place = Place(process, processes, replicas, devices, ("cpu",) * len(replicas))
    compiled = {"compile": sys.argv[5]} if len(sys.argv) > 5 else {}
    workload = synthetic_ssd.workload(case, framework, devices, **compiled)
    trainer = importlib.import_module(f"workloads.ssd.{framework}").SSDTrainer(workload, place)
    weights = synthetic_ssd.weights(workload)
    found, digests = LOSSES[framework](synthetic_ssd.outputs()), []
    for warm_up in (False, True):
        trainer.setup(weights.items(), warm_up)
        digests.append(digest(trainer.state()))
    count = 1 if case == "full" else synthetic_ssd.STEPS
    steps = [[synthetic_ssd.batch(workload, step, replica) for replica in replicas] for step in range(count)]
    initial = trainer.state()
    trainer.load_state({**initial, **synthetic_ssd.statistics(workload)})
    seen = list(trainer.predict(steps[:1]))
    found |= {name: np.concatenate([outputs[name] for _, outputs in seen]) for name in ("offsets", "logits")}
    measured = workload.measure(*seen[0])
    found |= {f"detections/{name}": value for name, value in measured.items()}
    trainer.load_state(initial)
    found["training_loss"] = np.array(trainer.forward(steps[:1]).loss)
    trainer.load_state(initial)  # a forward pass in training mode moves the running statistics
    losses = [trainer.train(steps[:1], 0).loss]
    found |= {f"first/{name}": value for name, value in trainer.state().items()}
    losses += [trainer.train([batches], number).loss for number, batches in enumerate(steps[1:], start=1)]
    state = trainer.state()
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    digests += [digest(state), digest(trainer.state())]
    found |= {f"state/{name}": value for name, value in state.items()}
    if framework in GRADIENTS and devices == 1:
        trainer.load_state(initial)
        found |= GRADIENTS[framework](trainer, steps[0][0])
    np.savez(out, **found, losses=np.array(losses), digests=np.array(digests))
    trainer.close()


if __name__ == "__main__":
    main()
