"""The Transformer written plainly in float64 PyTorch, sentence by sentence: no padding, no heads
side by side, none of the suite's code.

The reference of the parity tests. Weights by canonical name; d hidden values, S source and T target
words of one sentence. `masks` is a function from a place's label and shape to what is multiplied
there, or None.
"""

import math

import torch

from tests.workloads.common.text.training_plain import pairs

PAD = 0


def norm(weights, name, x):
    """Layer norm, ε 1e-6."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / ((centred**2).mean(-1, keepdim=True) + 1e-6).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def dropped(x, masks, label):
    """X times its mask."""
    return x if masks is None else x * masks(label, x.shape)


def attention(query, key, value, heads, later, masks, label):
    """Queries (T, d), keys and values (S, d), a head after the other; `later`: whether a query sees
    what stands after it.
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
    """X (T, d) after an attention to itself, or to a memory (S, d)."""
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
    """X (T, d) after the feed-forward part."""
    name = f"{layer}.feed_forward"
    inner = (
        norm(weights, f"{name}.norm", x) @ weights[f"{name}.inner.weight"].T
        + weights[f"{name}.inner.bias"]
    )
    inner = dropped(inner.clamp(min=0), masks, f"{layer}/relu")
    y = inner @ weights[f"{name}.outer.weight"].T + weights[f"{name}.outer.bias"]
    return x + dropped(y, masks, f"{layer}/feed_forward")


def placed(weights, words, side, masks):
    """Words to (T, d): embedded, padding as zeros, with their positions."""
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
    """Names of the layers of `encoder` or `decoder`."""
    return sorted(
        {
            name.split(".")[0]
            for name in weights
            if name.startswith(side) and name[len(side)].isdigit()
        }
    )


def encode(weights, source, heads, masks=None):
    """Source words (S,) to the memory (S, d)."""
    x = placed(weights, source, "source", masks)
    for layer in layers(weights, "encoder"):
        x = attended(
            weights, f"{layer}.self_attention", f"{layer}/self", x, None, heads, True, masks
        )
        x = fed_forward(weights, layer, x, masks)
    return norm(weights, "encoder_norm", x)


def decode(weights, memory, target, heads, masks=None):
    """A memory (S, d) and target words (T,) to logits (T, V)."""
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
    """Cross-entropy with soft targets, as the reference writes it (`others`, less its least value)
    or fairseq (`all`).
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
    """Of a batch, over so many tokens; `masks`: a function for each sentence, or None."""
    total = 0
    for row, (source, target, label) in enumerate(pairs(arrays)):
        of_row = None if masks is None else masks[row]
        logits = decode(weights, encode(weights, source, heads, of_row), target, heads, of_row)
        total = total + smoothed(logits, label, smoothing, over)
    return total / tokens
