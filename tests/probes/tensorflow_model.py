"""Run inside TensorFlow's environment: what a translation-like trainer on ModelTrainer computes (synthetic_tokens.py)."""

import contextlib
import os
from unittest import mock

import numpy as np
import tensorflow as tf

from tests.workloads.frameworks.synthetic_tokens import STEPS, Tokens
from workloads.api import Place
from workloads.frameworks.tensorflow.model import ModelTrainer
from workloads.frameworks.tensorflow.variables import Model

VARIANTS = {
    "plain": {},
    "compiled": {"compile": "on"},
    "pieces": {"pieces": 2},
    "pieces compiled": {"pieces": 2, "compile": "on"},
    "unused": {"unused": True},
    "any shape": {"any_shape": True},
    "any shape in pieces": {"any_shape": True, "pieces": 2},
    "any shape compiled": {"any_shape": True, "compile": "on"},
}
PROCESS, PROCESSES = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class TokensTrainer(ModelTrainer):
    """An embedding and a linear layer."""

    inputs = ("source", "target", "weight")
    evaluation_inputs = ("source",)

    def build_model(self):
        return Model(self.workload.parameters)

    def loss_of(self, *inputs):
        source, target, weight = inputs
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(target, self.logits(source))
        return tf.reduce_sum(weight * entropy)

    def outputs_of(self, *inputs):
        return {"logits": self.logits(*inputs)}

    def logits(self, source):
        values = self.model.parameters
        words = tf.gather(values["embedding.weight"], source)
        return tf.matmul(words, values["output.weight"], transpose_b=True) + values["output.bias"]


class AnyTokensTrainer(TokensTrainer):
    """The same, whose sizes need not be known."""

    takes_any_shape = True


def trainer_of(any_shape=False, **changes):
    """A trainer of this process."""
    place = Place(PROCESS, PROCESSES, range(PROCESS, PROCESS + 1), PROCESSES, ("cpu",))
    return (AnyTokensTrainer if any_shape else TokensTrainer)(Tokens(PROCESSES, **changes), place)


def compute(**changes):
    """One variant."""
    trainer = trainer_of(**changes)
    workload = trainer.workload
    steps = [[workload.batch(step, PROCESS)] for step in range(STEPS)]
    trainer.setup(workload.initial_weights(1))
    before = trainer.state()
    found = {
        "forward": trainer.forward(steps[:2]).loss,
        "forward_backward": trainer.forward_backward(steps[:2]).loss,
        **{f"gradient/{name}": value.numpy() for name, value in trainer.backward(steps[0][0]).items()},
        "logits": next(trainer.predict(steps[:1]))[1]["logits"],
    }
    after = trainer.state()
    found["untouched"] = all(np.array_equal(after[name], value) for name, value in before.items())
    found["losses"] = [trainer.train([batches], number).loss for number, batches in enumerate(steps)]
    found |= {f"state/{name}": value for name, value in trainer.state().items()}
    return {**found, "traces": trainer.traces}


def warmed_up(mode):
    """How often setup computes a step, gradients, a loss and outputs."""
    trainer, calls = trainer_of(mode=mode), []
    with contextlib.ExitStack() as stack:
        for name in ("step", "backward", "loss", "outputs"):
            watched = mock.patch.object(trainer, name, wraps=getattr(trainer, name))
            calls.append(stack.enter_context(watched))
        trainer.setup(trainer.workload.initial_weights(1))
    return [call.call_count for call in calls]


def refused():
    """What the constructor says of a batch that cannot be cut."""
    try:
        trainer_of(pieces=3)
    except ValueError as error:
        return str(error)
    return ""


def missing():
    """What setup says of a parameter that the loss does not depend on, where every step is to use every one."""
    trainer = trainer_of(unused=True)
    trainer.workload.every_step_uses_every_parameter = True
    try:
        trainer.setup(trainer.workload.initial_weights(1))
    except AssertionError as error:
        return str(error)
    return ""


def computed(*names):
    """By variant `NAME/…`: `losses`, `state/…` after the steps, `traces`; `forward` and `forward_backward`, the losses of those
    passes over the first two batches before training, `gradient/…` of the first batch, and whether the passes left the state
    `untouched`; `logits` of the first batch.
    """
    return {f"{name}/{key}": value for name in names for key, value in compute(**VARIANTS[name]).items()}


def said():
    """`modes/MODE`: training steps, passes with and without gradients and evaluations in setup; `refused`: what is said of a
    batch that cannot be cut; `missing`: of a parameter that is not used.
    """
    modes = {f"modes/{mode}": warmed_up(mode) for mode in ("train", "forward_backward", "forward", "inference")}
    return {**modes, "refused": refused(), "missing": missing()}
