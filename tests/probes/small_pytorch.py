"""Runs in PyTorch's environment: small models on ModelTrainer.

The models are described in synthetic_updates.py and synthetic_tokens.py.
"""

import numpy as np
import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from tests.probes.gradients import of_pytorch as gradients  # noqa: F401 - part of the adapter
from tests.probes.image_trainers import place_here
from tests.probes.pytorch_step import WAITS, RunMonitor
from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic_tokens import SHORT, WIDTH, WORDS, Tokens
from workloads.frameworks.pytorch.model import ModelTrainer

# The check of each instruction set would import PyTorch in a new process.
inductor.cpp.vec_isa_ok = True
PASSES = ("step", "gradients_alone", "run_loss", "run_outputs")
"""The trainer's methods for a step, gradients, a loss, and outputs."""


class Linear(nn.Module):
    """The sum over parameters of <w, x>.

    Convolution-like parameters are channels-last, as in image models.
    """

    def __init__(self):
        super().__init__()
        for name, shape in synthetic_updates.SHAPES.items():
            owner, _, kind = name.partition(".")
            if not hasattr(self, owner):
                self.add_module(owner, nn.Module())
            value = torch.zeros(shape)
            value = value.to(memory_format=torch.channels_last) if value.dim() == 4 else value
            getattr(self, owner).register_parameter(kind, nn.Parameter(value))

    def forward(self, arrays):
        return sum((self.get_parameter(name) * array).sum() for name, array in arrays.items())


class LinearTrainer(ModelTrainer):
    def build(self):
        return Linear()

    inputs = tuple(synthetic_updates.SHAPES)

    def loss(self, model, batch):
        return model(batch)


class Translator(nn.Module):
    """A model that maps words (B, L) to logits (B, L, WORDS)."""

    def __init__(self, parameters, dropout):
        super().__init__()
        self.embedding, self.output = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.dropout, self.short = nn.Dropout(dropout), nn.Module()
        if "short.bias" in parameters:
            self.short.bias = nn.Parameter(torch.zeros(parameters["short.bias"]))

    def forward(self, source):
        logits = self.output(self.dropout(self.embedding(source)))
        return (
            logits + self.short.bias
            if hasattr(self.short, "bias") and source.shape[1] == SHORT
            else logits
        )


class TokensTrainer(ModelTrainer):
    """A trainer with the three methods that a model must define."""

    dropout = 0.0

    def build(self):
        return Translator(self.workload.parameters, self.dropout)

    inputs = ("source", "target", "weight")
    evaluation_inputs = ("source",)

    def loss(self, model, batch):
        logits, target = model(batch["source"]).flatten(0, 1), batch["target"].long().flatten()
        return (F.cross_entropy(logits, target, reduction="none") * batch["weight"].flatten()).sum()

    def outputs(self, model, batch):
        return {"logits": model(batch["source"])}


def traces(trainer):
    """Return -1, because PyTorch does not count traces."""
    return -1


def waits(trainer, batches):
    """Return the operators of a step that read a value from the device."""
    with RunMonitor() as watch:
        trainer.step(batches[0], 0.1)
    assert len(watch.calls) > 20
    return [name for name, *_ in watch.calls if name in WAITS]


def reduced(*cases):
    """Return the number of values that the gradient all-reduce sums in a step, by case.

    The cases are those of synthetic_updates.py.
    """
    place, found = place_here(), {}
    for case in cases:
        sizes = []
        workload = synthetic_updates.Updates(*case.split("-"), place.world_size)
        trainer = LinearTrainer(workload, place)
        trainer.setup(workload.initial_weights(1), warmup=False)

        def count(_, bucket, sizes=sizes):
            sizes.append(bucket.buffer().numel())
            return allreduce_hook(None, bucket)

        trainer.distributed.register_comm_hook(None, count)
        trainer.step(workload.batch(0, place.rank), 0.1)
        found[case] = sum(sizes)
    return found


def dropout():
    """Return `mask`, `losses` and `same` of steps with dropout.

    `mask` is the first random number after setup. `same` is true if the losses after a setup
    without a warm-up are equal.
    """
    place = place_here()
    workload = Tokens(place.world_size)
    trainer, steps, found = TokensTrainer(workload, place), workload.steps(place.replica_ids), []
    trainer.dropout = 0.5
    for warmup in (True, False):
        trainer.setup(workload.initial_weights(1), warmup)
        state = torch.get_rng_state()
        mask = torch.rand(1).item()
        torch.set_rng_state(state)
        found.append(
            [trainer.train([batches], number).loss for number, batches in enumerate(steps)]
        )
    return {"mask": mask, "losses": found[0], "same": np.array_equal(*found)}
