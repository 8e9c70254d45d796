"""Runs in a framework's environment: results of the trainers of GNMT and the Transformer."""

import functools
import importlib

import numpy as np

from suite.common.registry import load_trainer
from testing.synthetic_sentences import batch, evaluation
from tests.probes import gradients
from tests.probes.image_trainers import digest, place_here, under

STEPS = 4


def build_trainer(name, framework, case, devices=1):
    """Return the trainer and the initial weights for the case `case` of a workload."""
    synthetic = importlib.import_module(f"testing.synthetic_{name}")
    workload = synthetic.workload(case, framework, devices)
    return load_trainer(name, framework)(workload, place_here(devices)), synthetic.weights(workload)


def set_up(*case):
    """Return the trainer of `build_trainer` after setup without warm-up."""
    trainer, weights = build_trainer(*case)
    trainer.setup(weights.items(), False)
    return trainer


def trained(name, framework, case):
    """Return the results of a trainer.

    They are:
    - `tokens` and `token_count` of a batch with the initial weights, and `loss` of each sentence.
    - `training_loss` of a step's batch.
    - `losses` of steps, and `state/…` after them.
    - `gradient/…` of the first batch.
    - `digests` of the state after setup without and with warm-up, after the steps, and after
      load_state_dict(state_dict()).
    - `traces` if the framework counts them, else -1.
    - `graphs`: the number of graphs that MXNet compiled.
    - `compiled`: the names of the functions that JAX compiled.
    """
    compiled_before = len(of_jax()) if framework == "jax" else 0
    (trainer, weights), digests = build_trainer(name, framework, case), []
    for warmup in (False, True):
        trainer.setup(weights.items(), warmup)
        digests.append(digest(trainer.state_dict()))
    first = batch(trainer.workload, 0)
    found = {**evaluated(trainer), "training_loss": np.array(trainer.forward([[first]]).loss)}
    evaluating = graphs(trainer, False)
    found |= under("gradient", gradients.OF[framework](trainer, first))
    trainer.setup(weights.items(), False)
    losses, state = followed(trainer)
    found["graphs"] = np.array([*graphs(trainer, True)[:1], *evaluating])
    trainer.setup(weights.items(), False)
    trainer.load_state_dict(state)
    digests += [digest(state), digest(trainer.state_dict())]
    found |= {
        "losses": losses,
        "digests": np.array(digests),
        "traces": getattr(trainer, "traces", -1),
    }
    trainer.close()
    found["compiled"] = np.array(of_jax()[compiled_before:] if framework == "jax" else [], str)
    return {**found, **under("state", state)}


def followed(trainer):
    """Return the losses of the steps, and the state after them."""
    steps = [
        [batch(trainer.workload, step, replica) for replica in trainer.worker.replica_ids]
        for step in range(STEPS)
    ]
    return np.array(
        [trainer.train([step], number).loss for number, step in enumerate(steps)]
    ), trainer.state_dict()


def stepped(name, framework, case, devices):
    """Return the `losses` of the steps and `state/…` after them, on several devices."""
    trainer = set_up(name, framework, case, devices)
    losses, state = followed(trainer)
    trainer.close()
    return {"losses": losses, **under("state", state)}


def graphs(trainer, training):
    """Return the number of graphs that MXNet's Transformer has compiled.

    The graphs are for training or the loss of sentences, for encoding, and for decoding a token.
    """
    if not hasattr(trainer, "training_graphs"):
        return []
    graphs = trainer.training_graphs if training else trainer.evaluation_graphs
    return [len(graphs.programs), len(trainer.encoder.programs), len(trainer.stepper.programs)]


@functools.cache
def of_jax():
    """Return a list that receives the names of all functions that JAX compiles from now on."""
    import jax

    names = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: (
            names.append(more["fun_name"]) if "backend_compile" in event else None
        )
    )
    return names


def evaluated(trainer):
    """Return the outputs for both kinds of evaluation batches."""
    found = {}
    for evaluation_batch in evaluation(trainer.workload):
        ((_, outputs),) = trainer.predict([[evaluation_batch]])
        found |= outputs
    return found


def in_double(name, case):
    """Return `gradient/…` of the first batch by PyTorch's trainer with a float64 model."""
    trainer = set_up(name, "pytorch", case)
    trainer.model.double()
    return under("gradient", gradients.of_pytorch(trainer, batch(trainer.workload, 0)))


def expected(name, case):
    """Return the results of `trained`, computed by a plain model.

    They are `tokens`, `token_count`, `loss`, `gradient/…`, `losses`, and `state/…`.
    """
    import torch

    from tests.probes.translation_plain import PLAIN, PlainDecoder, scored
    from tests.workloads.common.text import training_plain

    trainer, weights = build_trainer(name, "pytorch", case)
    workload, options = trainer.workload, trainer.workload.options
    plain, leaves = PLAIN[name](workload), training_plain.parameters(weights)
    with torch.no_grad():
        translated, labelled = evaluation(workload)
        translations = workload.translated(
            PlainDecoder(plain, leaves, workload.beam.width), translated
        )
        of_each = list(scored(plain, leaves, labelled.arrays))
    steps = [functools.partial(plain.loss, batch(workload, step)) for step in range(STEPS)]
    rates = [workload.learning_rate(step) for step in range(STEPS)]
    adam = ((options.beta1, options.beta2), options.epsilon, getattr(options, "clip_norm", None))
    losses, gradients, state = training_plain.followed(weights, steps, rates, *adam)
    return {
        **translations,
        "loss": of_each,
        "losses": losses,
        **under("gradient", gradients),
        **under("state", state),
    }
