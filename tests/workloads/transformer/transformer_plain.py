"""The Transformer in plain float64 PyTorch, without code of the suite.

The parity tests use it as their reference. It processes one sentence and one head at a time,
without padding. Weights have their canonical names. Shapes: d hidden values, S source and T target
words of a sentence. `masks` is a function from the label and the shape of a dropout layer to its
multipliers, or None.
"""

import math

import torch

from tests.workloads.common.text.training_plain import pairs

PAD = 0


def norm(weights, name, x):
    """Apply layer norm with ε = 1e-6."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / ((centred**2).mean(-1, keepdim=True) + 1e-6).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def dropped(x, masks, label):
    """Return x times its mask."""
    return x if masks is None else x * masks(label, x.shape)


def attention(query, key, value, heads, later, masks, label):
    """Return the attention of queries (T, d) to keys and values (S, d), head by head.

    If `later` is set, a query attends to later positions too.
    """
    size, found = query.shape[1] // heads, []
    for head in range(heads):
        q, k, v = (x[:, head * size : (head + 1) * size] for x in (query, key, value))
        scores = q @ k.T / math.sqrt(size)
        if not later:
            scores = scores + torch.full_like(scores, -1e9).triu(1)
        shares = scores.softmax(1)
        if masks is not None:
            shares = shares * masks(f"{label}/weights", (len(q), len(k), heads))[:, :, head]
        found.append(shares @ v)
    return torch.cat(found, 1)


def attended(weights, name, label, x, memory, heads, later, masks):
    """Return x (T, d) after attention to itself, or to a memory (S, d)."""
    normed = norm(weights, f"{name}.norm", x)
    if memory is None:
        query, key, value = (normed @ weights[f"{name}.query_key_value.weight"].T).chunk(3, 1)
    else:
        query = normed @ weights[f"{name}.query.weight"].T
        key, value = (memory @ weights[f"{name}.key_value.weight"].T).chunk(2, 1)
    y = (
        attention(query, key, value, heads, later, masks, label)
        @ weights[f"{name}.output.weight"].T
    )
    return x + dropped(y, masks, label)


def fed_forward(weights, layer, x, masks):
    """Return x (T, d) after the feed-forward part."""
    name = f"{layer}.feed_forward"
    inner = (
        norm(weights, f"{name}.norm", x) @ weights[f"{name}.inner.weight"].T
        + weights[f"{name}.inner.bias"]
    )
    inner = dropped(inner.clamp(min=0), masks, f"{layer}/relu")
    y = inner @ weights[f"{name}.outer.weight"].T + weights[f"{name}.outer.bias"]
    return x + dropped(y, masks, f"{layer}/feed_forward")


def placed(weights, words, side, masks):
    """Return embedded words with positions (T, d). Padding is embedded as zeros."""
    d = weights["embedding.weight"].shape[1]
    rows = [weights["embedding.weight"][word] * math.sqrt(d) * (word != PAD) for word in words]
    waves = [
        [
            turn(place / 10_000 ** (k / (d // 2 - 1)))
            for turn in (math.sin, math.cos)
            for k in range(d // 2)
        ]
        for place in range(len(words))
    ]
    return dropped(
        torch.stack(rows) + torch.tensor(waves, dtype=torch.float64), masks, f"{side}/embedding"
    )


def layers(weights, side):
    """Return the names of the layers of `encoder` or `decoder`."""
    return sorted(
        {
            name.split(".")[0]
            for name in weights
            if name.startswith(side) and name[len(side)].isdigit()
        }
    )


def encode(weights, source, heads, masks=None):
    """Encode source words (S,) to a memory (S, d)."""
    x = placed(weights, source, "source", masks)
    for layer in layers(weights, "encoder"):
        x = attended(
            weights, f"{layer}.self_attention", f"{layer}/self", x, None, heads, True, masks
        )
        x = fed_forward(weights, layer, x, masks)
    return norm(weights, "encoder_norm", x)


def decode(weights, memory, target, heads, masks=None):
    """Decode a memory (S, d) and target words (T,) to logits (T, V)."""
    x = placed(weights, target, "target", masks)
    for layer in layers(weights, "decoder"):
        x = attended(
            weights, f"{layer}.self_attention", f"{layer}/self", x, None, heads, False, masks
        )
        x = attended(
            weights, f"{layer}.cross_attention", f"{layer}/cross", x, memory, heads, True, masks
        )
        x = fed_forward(weights, layer, x, masks)
    return norm(weights, "decoder_norm", x) @ weights["embedding.weight"].T


def smoothed(logits, labels, smoothing, over):
    """Return the cross-entropy with soft targets.

    `over` selects the formula: `others` is the reference's, reduced by its least value. `all` is
    the formula of fairseq.
    """
    words = logits.shape[1]
    logarithms = logits - logits.logsumexp(1, keepdim=True)
    if over == "all":
        wanted = logarithms[torch.arange(len(labels)), torch.tensor(labels)]
        return -((1 - smoothing) * wanted + smoothing / words * logarithms.sum(1)).sum()
    low = smoothing / (words - 1)
    soft = torch.full_like(logits, low)
    soft[torch.arange(len(labels)), torch.tensor(labels)] = 1 - smoothing
    least = -((1 - smoothing) * math.log(1 - smoothing) + (words - 1) * low * math.log(low + 1e-20))
    return -(soft * logarithms).sum() - least * len(labels)


def loss(weights, arrays, heads, smoothing, over, tokens, masks=None):
    """Return the loss of a batch, divided by `tokens`.

    `masks` contains a function for each sentence, or is None.
    """
    total = 0
    for row, (source, target, label) in enumerate(pairs(arrays)):
        of_row = None if masks is None else masks[row]
        logits = decode(weights, encode(weights, source, heads, of_row), target, heads, of_row)
        total = total + smoothed(logits, label, smoothing, over)
    return total / tokens
