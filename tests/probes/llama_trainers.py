"""Runs in a framework's environment: results of Llama's trainers on random tokens."""

import os
import re
import tempfile
from pathlib import Path

import numpy as np

from suite.common.registry import load_trainer
from testing import synthetic_llama as synthetic
from testing.synthetic import shaken
from tests.probes.image_trainers import digest, place_here, under
from tests.workloads.llama31_8b import golden

STEPS = 10


def _trainer(framework, devices, precision, changes, options):
    worker = place_here(devices)
    workload = synthetic.workload(framework, devices, precision, dict(changes), **dict(options))
    return load_trainer("llama31_8b", framework)(workload, worker)


def trained(framework, devices=1, precision="fp32", changes=(), options=()):
    """Train ten steps, and return the results.

    `changes` and `options` are items of hyperparameters and of options. The results are:
    - `losses` of the steps, and `state/…` after them, which is empty on all ranks except 0 in
      PyTorch with sharded parameters.
    - `evaluation`: the losses of the sequences of this replica with the initial weights.
    - `forward`: the loss of the first step without an update.
    - `digests` of the state after setup without and with warm-up, after training, and after
      load_state_dict(state_dict()).
    - `local`: the number of values of parameters that this process holds.
    - `traces` if the framework counts them, else -1.
    - `collectives/…`: the collective operations of JAX's compiled step on several devices.
    """
    trainer = _trainer(framework, devices, precision, changes, options)
    workload, worker = trainer.workload, trainer.worker
    weights, digests = list(workload.initial_weights(synthetic.SEED)), []
    for warmup in (False, True):
        trainer.setup(weights, warmup)
        digests.append(digest(trainer.state_dict()))
    data = workload.open_data(worker, synthetic.SEED)
    evaluation = [
        (batch.arrays["number"], outputs["loss"])
        for batch, outputs in trainer.predict(data.evaluation())
    ]
    data.close()
    (replica,) = worker.replica_ids
    steps = [[synthetic.step_batch(workload, step, replica)] for step in range(STEPS)]
    forward = trainer.forward(steps[:1]).loss
    losses = [trainer.train([step], number).loss for number, step in enumerate(steps)]
    state = trainer.state_dict()
    whole = _on_all(trainer, state)
    trainer.setup(weights, False)
    trainer.load_state_dict(whole)
    digests += [digest(state), digest(trainer.state_dict())]
    found = {
        "losses": losses, "forward": forward, "digests": np.array(digests),
        "number": np.concatenate([number for number, _ in evaluation]),
        "evaluation": np.concatenate([loss for _, loss in evaluation]),
        "local": local_values(trainer, framework), "traces": getattr(trainer, "traces", -1),
        **under("state", state),
    }  # fmt: skip
    if framework == "jax" and worker.world_size > 1:
        found |= under("collectives", collectives(trainer, steps[0][0]))
    trainer.close()
    return found


def collectives(trainer, batch):
    """Return the number of collective operations of each kind in JAX's compiled step."""
    program = trainer._step.lower(*trainer._arguments(batch)).compile().as_text()
    kinds = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all")
    return {kind: len(re.findall(rf"\b{kind}\(", program)) for kind in kinds}


def _on_all(trainer, state):
    """Return the state of rank 0 on all ranks, which a checkpoint file does in a run."""
    if trainer.worker.world_size == 1:
        return state
    path = Path(tempfile.gettempdir()) / f"llama-state-{os.environ['MASTER_PORT']}.npz"
    if trainer.worker.rank == 0:
        np.savez(path, **state)
    trainer.broadcast(0.0)
    with np.load(path) as arrays:
        whole = dict(arrays)
    trainer.broadcast(0.0)
    if trainer.worker.rank == 0:
        path.unlink()
    return whole


def local_values(trainer, framework):
    """Return the number of values of parameters that this process holds."""
    if framework == "jax":
        return sum(value.addressable_shards[0].data.size for value in trainer.values.values())
    values = [value.detach() for value in trainer.parameters.values()]
    return sum(
        value.to_local().numel() if hasattr(value, "to_local") else value.numel()
        for value in values
    )


def gradients(framework, options=()):
    """Return `gradient/…` of a batch and `loss`, with norms that are not 1."""
    trainer = _trainer(framework, 1, "fp32", (), options)
    trainer.setup(shaken(trainer.workload.initial_weights(synthetic.SEED)).items(), False)
    batch = synthetic.step_batch(trainer.workload, 0, 0)
    loss = trainer.forward([[batch]]).loss
    trainer.backward(batch)
    if framework == "pytorch":
        found = {name: value.grad.numpy().copy() for name, value in trainer.parameters.items()}
    else:
        found = trainer.canonical(trainer.gradients)
    trainer.close()
    return {"loss": loss, **under("gradient", found)}


def predicted(framework):
    """Return the mean loss of each sequence of golden.py."""
    worker = place_here(1)
    trainer = load_trainer("llama31_8b", framework)(golden.workload(framework), worker)
    trainer.setup(golden.weights().items(), False)
    ((_, outputs),) = trainer.predict([[golden.batch()]])
    trainer.close()
    return {"loss": outputs["loss"]}
