"""Run inside a framework's environment: what the trainers of GNMT and Transformer compute from
synthetic weights.
"""

import functools
import importlib

import numpy as np

from suite.common.registry import load_trainer
from testing.synthetic_sentences import batch, evaluation
from tests.probes import gradients
from tests.probes.image_trainers import digest, place_here, under

STEPS = 4


def made(name, framework, case, devices=1):
    """Trainer and initial weights of the case `case` of a workload's synthetic module."""
    synthetic = importlib.import_module(f"testing.synthetic_{name}")
    workload = synthetic.workload(case, framework, devices)
    return load_trainer(name, framework)(workload, place_here(devices)), synthetic.weights(workload)


def set_up(*case):
    """The trainer of `made`, without warm-up."""
    trainer, weights = made(*case)
    trainer.setup(weights.items(), False)
    return trainer


def trained(name, framework, case):
    """What a trainer computes.

    `tokens`, `token_count` of a batch with the initial weights, `loss` of each sentence;
    `training_loss` of a step's batch; `losses` of steps and `state/…` after them; `gradient/…` of
    the first batch; `digests` of the state after setup without and with warm-up, after the steps,
    and after load_state_dict(state()); `traces`, if counted; `graphs` that MXNet compiled;
    `compiled`, the names of what JAX has.
    """
    of_others = len(of_jax()) if framework == "jax" else 0
    (trainer, weights), digests = made(name, framework, case), []
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
    found["compiled"] = np.array(of_jax()[of_others:] if framework == "jax" else [], str)
    return {**found, **under("state", state)}


def followed(trainer):
    """Losses of the steps, and the state after them."""
    steps = [
        [batch(trainer.workload, step, one) for one in trainer.worker.replica_ids]
        for step in range(STEPS)
    ]
    return np.array(
        [trainer.train([step], number).loss for number, step in enumerate(steps)]
    ), trainer.state_dict()


def stepped(name, framework, case, devices):
    """`losses` of the steps and `state/…` after them, on several devices."""
    trainer = set_up(name, framework, case, devices)
    losses, state = followed(trainer)
    trainer.close()
    return {"losses": losses, **under("state", state)}


def graphs(trainer, training):
    """How many MXNet's Transformer has compiled: to train or for the loss of sentences, then to
    encode and to say a word.
    """
    if not hasattr(trainer, "training_graphs"):
        return []
    graphs = trainer.training_graphs if training else trainer.evaluation_graphs
    return [len(graphs.programs), len(trainer.encoder.programs), len(trainer.stepper.programs)]


@functools.cache
def of_jax():
    """The names of all functions that JAX compiles from now on."""
    import jax

    names = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: (
            names.append(more["fun_name"]) if "backend_compile" in event else None
        )
    )
    return names


def evaluated(trainer):
    """Outputs for both kinds of evaluation batches."""
    found = {}
    for one in evaluation(trainer.workload):
        ((_, outputs),) = trainer.predict([[one]])
        found |= outputs
    return found


def in_double(name, case):
    """`gradient/…` of the first batch by PyTorch's trainer, its model in float64."""
    trainer = set_up(name, "pytorch", case)
    trainer.model.double()
    return under("gradient", gradients.of_pytorch(trainer, batch(trainer.workload, 0)))


def expected(name, case):
    """The same as `trained` gives, by a plain model: `tokens`, `token_count`, `loss`, `gradient/…`,
    `losses`, `state/…`.
    """
    import torch

    from tests.probes.translation_plain import PLAIN, PlainDecoder, scored
    from tests.workloads.common.text import training_plain

    trainer, weights = made(name, "pytorch", case)
    workload, options = trainer.workload, trainer.workload.options
    plain, leaves = PLAIN[name](workload), training_plain.parameters(weights)
    with torch.no_grad():
        translated, labelled = evaluation(workload)
        said = workload.translated(PlainDecoder(plain, leaves, workload.beam.width), translated)
        of_each = list(scored(plain, leaves, labelled.arrays))
    steps = [functools.partial(plain.loss, batch(workload, step)) for step in range(STEPS)]
    rates = [workload.learning_rate(step) for step in range(STEPS)]
    adam = ((options.beta1, options.beta2), options.epsilon, getattr(options, "clip_norm", None))
    losses, gradients, state = training_plain.followed(weights, steps, rates, *adam)
    return {
        **said,
        "loss": of_each,
        "losses": losses,
        **under("gradient", gradients),
        **under("state", state),
    }
