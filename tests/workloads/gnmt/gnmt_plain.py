"""GNMT in plain float64 PyTorch, without code of the suite.

The parity tests use it as their reference. It processes one sentence and one step at a time,
without padding. Weights have their canonical names. Shapes: h hidden values, S source and T target
words of a sentence.
"""

import torch

from tests.workloads.common.text.training_plain import pairs


def cell(weights, name, x, hidden, state):
    """Compute a step of an LSTM, with gates in the order input, forget, cell, output."""
    part = {
        kind: weights[f"{name}.{kind}_l0"]
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    gates = part["weight_ih"] @ x + part["bias_ih"] + part["weight_hh"] @ hidden + part["bias_hh"]
    i, f, g, o = gates.chunk(4)
    state = f.sigmoid() * state + i.sigmoid() * g.tanh()
    return o.sigmoid() * state.tanh(), state


def run(weights, name, sequence):
    """Return the outputs of an LSTM for a list of inputs, starting from zeros."""
    size = weights[f"{name}.weight_hh_l0"].shape[1]
    hidden = state = torch.zeros(size, dtype=torch.float64)
    found = []
    for x in sequence:
        hidden, state = cell(weights, name, x, hidden, state)
        found.append(hidden)
    return found


def layers(weights, side):
    """Return the number of layers of `encoder` or `decoder`."""
    return max(int(name[len(side)]) for name in weights if name.startswith(side))


def take(sequence, mask, start):
    """Multiply inputs by their part of a mask (L, width).

    Returns:
        The inputs, and the column of the mask at which the part of the next layer begins. Without a
        mask, both are unchanged.
    """
    width = len(sequence[0])
    if mask is None:
        return sequence, start
    return [
        x * mask[place, start : start + width] for place, x in enumerate(sequence)
    ], start + width


def encode(weights, source, mask=None):
    """Encode source words (S,) to outputs (S, h)."""
    x, start = take([weights["embedding.weight"][word] for word in source], mask, 0)
    back = run(weights, "encoder1_reverse", x[::-1])[::-1]
    x = [torch.cat(pair) for pair in zip(run(weights, "encoder1", x), back, strict=True)]
    for number in range(2, layers(weights, "encoder") + 1):
        inputs, start = take(x, mask, start)
        y = run(weights, f"encoder{number}", inputs)
        x = [a + b for a, b in zip(x, y, strict=True)] if number > 2 else y
    return torch.stack(x)


def attend(weights, query, values):
    """Return the context (h,) and the weights (S,) of a query (h,), for encoder outputs (S, h)."""
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
    """Decode encoder outputs (S, h) and target words (T,).

    Returns:
        Logits (T, V) and attention weights (T, S).
    """
    x, start = take([weights["embedding.weight"][word] for word in target], mask, 0)
    x = run(weights, "decoder1", x)
    contexts, shares = zip(*(attend(weights, query, values) for query in x), strict=True)
    for number in range(2, layers(weights, "decoder") + 1):
        inputs, start = take(
            [torch.cat(pair) for pair in zip(x, contexts, strict=True)], mask, start
        )
        y = run(weights, f"decoder{number}", inputs)
        x = [a + b for a, b in zip(x, y, strict=True)] if number > 2 else y
    return torch.stack(x) @ weights["classifier.weight"].T + weights[
        "classifier.bias"
    ], torch.stack(shares)


def sentence_loss(logits, labels, smoothing):
    """Return the smoothed loss of a sentence, summed over its tokens.

    For a smoothing of 0.1, it is 0.9 · NLL + 0.1 · mean over the vocabulary of -log p.
    """
    logarithms = logits - logits.logsumexp(1, keepdim=True)
    wanted = logarithms[torch.arange(len(labels)), torch.tensor(labels)]
    return -((1 - smoothing) * wanted + smoothing * logarithms.mean(1)).sum()


def loss(weights, arrays, smoothing, sentences, masks=None):
    """Return the loss of a batch, divided by `sentences`.

    `masks` are float64 arrays (S, B, width) and (T, B, width), or None.
    """
    total = 0
    for row, (source, target, label) in enumerate(pairs(arrays)):
        of_source, of_target = (None, None) if masks is None else (mask[:, row] for mask in masks)
        logits, _ = decode(weights, encode(weights, source, of_source), target, of_target)
        total = total + sentence_loss(logits, label, smoothing)
    return total / sentences
