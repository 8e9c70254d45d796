"""Run inside PyTorch's environment: what a translation-like trainer on ModelTrainer computes (synthetic_tokens.py)."""

import contextlib
import os
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.workloads.frameworks.synthetic_tokens import STEPS, UNUSED, WIDTH, WORDS, Tokens
from workloads.api import Place
from workloads.frameworks.pytorch.model import ModelTrainer

VARIANTS = {
    "plain": {},
    "pieces": {"pieces": 2},
    "unused": {"unused": True},
    "unused pieces": {"unused": True, "pieces": 2},
    "compiled": {"compile": "on"},
    "compiled pieces": {"compile": "on", "pieces": 2},
    "dropout": {},
}
PROCESS, PROCESSES = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Translator(nn.Module):
    """An embedding and a linear layer, words (B, L) to logits (B, L, WORDS)."""

    def __init__(self, unused, dropout):
        super().__init__()
        self.embedding, self.output = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.dropout = nn.Dropout(dropout)
        if unused:
            self.never = nn.Linear(*UNUSED["never.weight"], 1, bias=False)
            self.never.weight = nn.Parameter(torch.zeros(UNUSED["never.weight"]))

    def forward(self, source):
        return self.output(self.dropout(self.embedding(source)))


class TokensTrainer(ModelTrainer):
    """Three methods are all that a model gives."""

    dropout = 0.0

    def build(self):
        return Translator("never.weight" in self.workload.parameters, self.dropout)

    def loss(self, batch):
        source, target, weight = (self.to_device(batch.arrays[name]) for name in ("source", "target", "weight"))
        entropy = F.cross_entropy(self.called(source).flatten(0, 1), target.long().flatten(), reduction="none")
        return (entropy * weight.flatten()).sum() / batch.weight_global

    def outputs(self, batch):
        return {"logits": self.model(self.to_device(batch.arrays["source"]))}


def trainer_of(dropout=0.0, **changes):
    """A trainer of this process."""
    place = Place(PROCESS, PROCESSES, range(PROCESS, PROCESS + 1), PROCESSES, ("cpu",))
    trainer = TokensTrainer(Tokens(PROCESSES, **changes), place)
    trainer.dropout = dropout
    return trainer


def compute(name):
    """One variant."""
    trainer = trainer_of(0.5 if name == "dropout" else 0.0, **VARIANTS[name])
    workload = trainer.workload
    steps = [[workload.batch(step, PROCESS)] for step in range(STEPS)]
    trainer.setup(workload.initial_weights(1))
    before, mask = trainer.state(), torch.rand(1).item()
    forward, forward_backward = trainer.forward(steps[:2]).loss, trainer.forward_backward(steps[:2]).loss
    trainer.backward(steps[0][0])
    gradients = {f"gradient/{key}": value.grad.numpy().copy() for key, value in trainer.parameters.items()}
    trainer.clear_gradients()
    after = trainer.state()
    ((_, outputs),) = trainer.predict(steps[:1])
    trainer.setup(workload.initial_weights(1))
    losses = [trainer.train([batches], number).loss for number, batches in enumerate(steps)]
    state = trainer.state()
    trainer.setup(workload.initial_weights(1), warm_up=False)
    trainer.train(steps, 0)
    return {
        "forward": forward,
        "forward_backward": forward_backward,
        **gradients,
        "untouched": equal(before, after),
        "logits": outputs["logits"],
        "losses": losses,
        **{f"state/{key}": value for key, value in state.items()},
        "mask": mask,
        "same": equal(state, trainer.state()),
    }


def equal(one, other):
    """Same names and bits."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], value) for name, value in other.items())


def warmed_up(mode):
    """How often setup computes a step, gradients, a loss and outputs, and how many values the optimizer then holds."""
    trainer, calls = trainer_of(mode=mode), []
    with contextlib.ExitStack() as stack:
        for name in ("step", "gradients_alone", "loss_alone", "outputs"):
            watched = mock.patch.object(trainer, name, wraps=getattr(trainer, name))
            calls.append(stack.enter_context(watched))
        trainer.setup(trainer.workload.initial_weights(1))
    of_optimizer = trainer.optimizer.state().values() if trainer.optimizer is not None else ()
    return [*(call.call_count for call in calls), sum(value.numel() for value in of_optimizer)]


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
    """By variant `NAME/…`: `losses`, `state/…` after the steps; `forward` and `forward_backward`, the losses of those
    passes over the first two batches before training, `gradient/…` of the first batch, and whether the passes left the
    state `untouched`; `logits` of the first batch; `mask`, the first random number after setup, and whether setup without
    a warm-up gives the `same` steps.
    """
    return {f"{name}/{key}": value for name in names for key, value in compute(name).items()}


def said():
    """`modes/MODE`: training steps, passes with and without gradients and evaluations in setup, and values that the optimizer
    holds; `refused`: what is said of a batch that cannot be cut; `missing`: of a parameter that is not used.
    """
    modes = {f"modes/{mode}": warmed_up(mode) for mode in ("train", "forward_backward", "forward", "inference")}
    return {**modes, "refused": refused(), "missing": missing()}
