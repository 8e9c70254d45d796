"""Runs in PyTorch's environment: plain float64 models of GNMT and the Transformer."""

import functools

import numpy as np
import torch

from tests.workloads.common.text.training_plain import pairs
from tests.workloads.gnmt import gnmt_plain
from tests.workloads.transformer import transformer_plain
from workloads.common import dropout
from workloads.common.text.beam import Candidates


class PlainGNMT:
    """gnmt_plain with a workload's sizes and dropout."""

    def __init__(self, workload):
        self.smoothing, self.rate, self.widths = (
            workload.options.label_smoothing, workload.network.dropout,
            workload.network.mask_widths,
        )  # fmt: skip

    encode, decode = staticmethod(gnmt_plain.encode), staticmethod(gnmt_plain.decode)

    def sentence_loss(self, logits, label):
        """Return the loss without smoothing."""
        return gnmt_plain.sentence_loss(logits, label, 0.0)

    def loss(self, batch, weights):
        masks = [
            self.masks(batch, *side) for side in zip(("source", "target"), self.widths, strict=True)
        ]
        return gnmt_plain.loss(
            weights,
            batch.arrays,
            self.smoothing,
            batch.global_weight_sum,
            masks if self.rate else None,
        )

    def masks(self, batch, side, width):
        keys, places = batch.arrays["dropout_key"], batch.arrays[side].shape[1]
        return torch.from_numpy(dropout.multipliers(keys, side, places, width, self.rate)).double()


class PlainTransformer:
    """transformer_plain with a workload's sizes and dropout."""

    def __init__(self, workload):
        self.heads, self.rate = workload.network.heads, workload.network.dropout
        self.form = (workload.options.label_smoothing, workload.options.smoothed_over)

    def encode(self, weights, source):
        return transformer_plain.encode(weights, source, self.heads)

    def decode(self, weights, memory, target):
        """Return logits, and None instead of attention, which this model's search does not need."""
        return transformer_plain.decode(weights, memory, target, self.heads), None

    def sentence_loss(self, logits, label):
        """Return the loss without smoothing."""
        return transformer_plain.smoothed(logits, label, 0.0, "all")

    def loss(self, batch, weights):
        masks = (
            [functools.partial(self.mask, key) for key in batch.arrays["dropout_key"]]
            if self.rate
            else None
        )
        return transformer_plain.loss(
            weights, batch.arrays, self.heads, *self.form, batch.global_weight_sum, masks
        )

    def mask(self, key, label, shape):
        found = dropout.multipliers(key[None], label, shape[0], int(np.prod(shape[1:])), self.rate)
        return torch.from_numpy(found[:, 0].reshape(shape)).double()


PLAIN = {"gnmt": PlainGNMT, "transformer": PlainTransformer}


def scored(plain, weights, arrays):
    """Yield the loss of each sentence of a batch, without smoothing."""
    for source, target, label in pairs(arrays):
        logits, _ = plain.decode(weights, plain.encode(weights, source), target)
        yield plain.sentence_loss(logits, label).item()


class PlainDecoder:
    """A `beam.Decoder` on a plain model that decodes each row's whole translation in every step."""

    def __init__(self, plain, weights, width):
        self.plain, self.weights, self.width = plain, weights, width

    def start(self, batch):
        sources = zip(batch.arrays["source"], batch.arrays["source_length"], strict=True)
        memories = [
            self.plain.encode(self.weights, source[:length].tolist()) for source, length in sources
        ]
        self.places = batch.arrays["source"].shape[1]
        return [(memory, []) for memory in memories for _ in range(self.width)]

    def step(self, state, tokens, parents):
        state = [
            (state[parent][0], [*state[parent][1], token])
            for parent, token in zip(parents, tokens.tolist(), strict=True)
        ]
        found = [self.plain.decode(self.weights, *row) for row in state]
        scores = np.stack([logits[-1].log_softmax(0).numpy() for logits, _ in found])
        attention = np.zeros((len(state), self.places))
        for row, (_, shares) in zip(attention, found, strict=True):
            if shares is not None:
                row[: shares.shape[1]] = shares[-1]
        return (
            Candidates(scores, np.tile(np.arange(scores.shape[1]), (len(state), 1)), attention),
            state,
        )
