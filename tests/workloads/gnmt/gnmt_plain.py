"""GNMT written plainly in float64 PyTorch, sentence by sentence and step by step: no padding, no
masks, no code of the suite's.

The reference of the parity tests. Weights by canonical name; h hidden values, S source and T target
words of one sentence.
"""

import torch

from tests.workloads.common.text.training_plain import pairs


def cell(weights, name, x, hidden, state):
    """One step of an LSTM: gates input, forget, cell, output."""
    part = {
        kind: weights[f"{name}.{kind}_l0"]
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    gates = part["weight_ih"] @ x + part["bias_ih"] + part["weight_hh"] @ hidden + part["bias_hh"]
    i, f, g, o = gates.chunk(4)
    state = f.sigmoid() * state + i.sigmoid() * g.tanh()
    return o.sigmoid() * state.tanh(), state


def run(weights, name, sequence):
    """An LSTM over a list of inputs, from zeros: the list of its outputs."""
    size = weights[f"{name}.weight_hh_l0"].shape[1]
    hidden = state = torch.zeros(size, dtype=torch.float64)
    found = []
    for x in sequence:
        hidden, state = cell(weights, name, x, hidden, state)
        found.append(hidden)
    return found


def layers(weights, side):
    """Number of layers of `encoder` or `decoder`."""
    return max(int(name[len(side)]) for name in weights if name.startswith(side))


def take(sequence, mask, start):
    """Inputs times their part of a mask (L, width), and where the next layer's part begins; no
    mask, no change.
    """
    width = len(sequence[0])
    if mask is None:
        return sequence, start
    return [
        x * mask[place, start : start + width] for place, x in enumerate(sequence)
    ], start + width


def encode(weights, source, mask=None):
    """Source words (S,) to outputs (S, h)."""
    x, start = take([weights["embedding.weight"][word] for word in source], mask, 0)
    back = run(weights, "encoder1_reverse", x[::-1])[::-1]
    x = [torch.cat(pair) for pair in zip(run(weights, "encoder1", x), back, strict=True)]
    for number in range(2, layers(weights, "encoder") + 1):
        given, start = take(x, mask, start)
        y = run(weights, f"encoder{number}", given)
        x = [a + b for a, b in zip(x, y, strict=True)] if number > 2 else y
    return torch.stack(x)


def attend(weights, query, values):
    """A query (h,) and encoder outputs (S, h) to the context (h,) and the weights (S,)."""
    vector = (
        weights["attention.scale"]
        * weights["attention.vector"]
        / weights["attention.vector"].norm()
    )
    keys = values @ weights["attention.key.weight"].T
    scores = (
        weights["attention.query.weight"] @ query + keys + weights["attention.bias"]
    ).tanh() @ vector
    shares = scores.softmax(0)
    return shares @ values, shares


def decode(weights, values, target, mask=None):
    """Encoder outputs (S, h) and target words (T,) to logits (T, V) and attention weights (T, S)."""
    x, start = take([weights["embedding.weight"][word] for word in target], mask, 0)
    x = run(weights, "decoder1", x)
    contexts, shares = zip(*(attend(weights, query, values) for query in x), strict=True)
    for number in range(2, layers(weights, "decoder") + 1):
        given, start = take(
            [torch.cat(pair) for pair in zip(x, contexts, strict=True)], mask, start
        )
        y = run(weights, f"decoder{number}", given)
        x = [a + b for a, b in zip(x, y, strict=True)] if number > 2 else y
    return torch.stack(x) @ weights["classifier.weight"].T + weights[
        "classifier.bias"
    ], torch.stack(shares)


def sentence_loss(logits, labels, smoothing):
    """0.9 · NLL + 0.1 · mean over the vocabulary of -log p, summed over the sentence's tokens (for
    a smoothing of 0.1).
    """
    logarithms = logits - logits.logsumexp(1, keepdim=True)
    wanted = logarithms[torch.arange(len(labels)), torch.tensor(labels)]
    return -((1 - smoothing) * wanted + smoothing * logarithms.mean(1)).sum()


def loss(weights, arrays, smoothing, sentences, masks=None):
    """Of a batch, over `sentences`; `masks`: (S, B, width), (T, B, width) float64 or None."""
    total = 0
    for row, (source, target, label) in enumerate(pairs(arrays)):
        of_source, of_target = (None, None) if masks is None else (mask[:, row] for mask in masks)
        logits, _ = decode(weights, encode(weights, source, of_source), target, of_target)
        total = total + sentence_loss(logits, label, smoothing)
    return total / sentences
