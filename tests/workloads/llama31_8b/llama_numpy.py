"""Llama 3.1 in float64 NumPy with hand-written gradients, as the expected values of the trainers.

The formulas follow the reference (NeMo 2.1.0, `Llama31Config8B`), and share no code with the
workload. Shapes: B sequences, S tokens, H values of a token, V words, N heads of size e.
"""

import math
from dataclasses import dataclass

import numpy as np

EPSILON = 1e-5


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model that the shapes of its parameters do not determine."""

    layers: int
    heads: int
    key_value_heads: int
    rope_base: float
    rope_factor: float
    rope_original_length: int


def frequencies(head_size, base, factor, original_length, low=1.0, high=4.0):
    """Return the angular frequencies of the rotary embedding, (e / 2,)."""
    plain = [base ** (-2 * pair / head_size) for pair in range(head_size // 2)]
    scaled = []
    for frequency in plain:
        turns = original_length * frequency / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - low) / (high - low)))
        scaled.append((1 - kept) * frequency / factor + kept * frequency)
    return np.array(plain if factor == 1 else scaled)


def losses_and_gradients(weights, sizes, tokens, labels, scale):
    """Return the loss of each sequence, (B,), and the gradients of `scale` times their sum.

    Args:
        weights: float64 parameters by canonical name.
        sizes: Sizes of the model.
        tokens: (B, S) tokens.
        labels: (B, S) next tokens.
        scale: Factor of the loss.
    """
    count, length = tokens.shape
    x, layers = weights["embedding.weight"][tokens], []
    for number in range(1, sizes.layers + 1):
        x, attention = _attention(weights, sizes, f"layer{number}.attention", x)
        x, feed_forward = _feed_forward(weights, f"layer{number}.feed_forward", x)
        layers += [attention, feed_forward]
    normed, back_norm = _norm(x, weights["norm.weight"])
    logits = normed @ weights["classifier.weight"].T
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_p, labels[..., None], -1)[..., 0].sum(1)

    back = np.exp(log_p)
    back[np.arange(count)[:, None], np.arange(length), labels] -= 1
    back *= scale
    gradients = {"classifier.weight": _outer(back, normed)}
    back, gradients["norm.weight"] = back_norm(back @ weights["classifier.weight"])
    for backward in reversed(layers):
        back, of_layer = backward(back)
        gradients |= of_layer
    table = np.zeros_like(weights["embedding.weight"])
    np.add.at(table, tokens, back)
    return losses, {**gradients, "embedding.weight": table}


def _outer(back, x):
    """Return the gradient of a matrix: the sum over all positions of back ⊗ x."""
    return np.einsum("bso,bsi->oi", back, x)


def _norm(x, weight):
    inverse = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    normal = x * inverse

    def backward(back):
        inner = back * weight
        projected = (inner * normal).mean(-1, keepdims=True)
        return inverse * (inner - normal * projected), (back * normal).sum((0, 1))

    return normal * weight, backward


def _rotation(length, angles):
    """Return the rotation of pairs (i, i + e / 2) by the angles (S, e / 2), as (S, e, e)."""
    half = angles.shape[1]
    pairs = np.arange(half)
    matrix = np.zeros((length, 2 * half, 2 * half))
    matrix[:, pairs, pairs] = matrix[:, pairs + half, pairs + half] = np.cos(angles)
    matrix[:, pairs, pairs + half] = -np.sin(angles)
    matrix[:, pairs + half, pairs] = np.sin(angles)
    return matrix


def _attention(weights, sizes, name, x):
    count, length, hidden = x.shape
    size, shared = hidden // sizes.heads, sizes.heads // sizes.key_value_heads
    stacked, output = weights[f"{name}.query_key_value.weight"], weights[f"{name}.output.weight"]
    normed, back_norm = _norm(x, weights[f"{name}.norm.weight"])
    of_heads = (normed @ stacked.T).reshape(count, length, -1, size)
    query, key, value = np.split(
        of_heads, [sizes.heads, sizes.heads + sizes.key_value_heads], axis=2
    )
    angles = np.arange(length)[:, None] * frequencies(
        size, sizes.rope_base, sizes.rope_factor, sizes.rope_original_length
    )
    rotation = _rotation(length, angles)
    query, key = (np.einsum("sij,bsnj->bsni", rotation, part) for part in (query, key))
    # The query heads n · shared … n · shared + shared - 1 share key and value head n.
    grouped = query.reshape(count, length, sizes.key_value_heads, shared, size)
    scores = np.einsum("bqnge,bkne->bngqk", grouped, key) / math.sqrt(size)
    scores[..., np.triu(np.ones((length, length), bool), 1)] = -np.inf
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    joined = np.einsum("bngqk,bkne->bqnge", chances, value).reshape(count, length, -1)

    def backward(back):
        back_joined = (back @ output).reshape(grouped.shape)
        back_value = np.einsum("bngqk,bqnge->bkne", chances, back_joined)
        back_chances = np.einsum("bqnge,bkne->bngqk", back_joined, value)
        back_scores = chances * (back_chances - (back_chances * chances).sum(-1, keepdims=True))
        back_scores /= math.sqrt(size)
        back_query = np.einsum("bngqk,bkne->bqnge", back_scores, key).reshape(query.shape)
        back_key = np.einsum("bngqk,bqnge->bkne", back_scores, grouped)
        back_query, back_key = (
            np.einsum("sji,bsnj->bsni", rotation, part) for part in (back_query, back_key)
        )
        back_heads = np.concatenate([back_query, back_key, back_value], 2)
        back_heads = back_heads.reshape(count, length, -1)
        back_x, back_weight = back_norm(back_heads @ stacked)
        return back + back_x, {
            f"{name}.norm.weight": back_weight,
            f"{name}.query_key_value.weight": _outer(back_heads, normed),
            f"{name}.output.weight": _outer(back, joined),
        }

    return x + joined @ output.T, backward


def _feed_forward(weights, name, x):
    gate_up, down = weights[f"{name}.gate_up.weight"], weights[f"{name}.down.weight"]
    normed, back_norm = _norm(x, weights[f"{name}.norm.weight"])
    gate, up = np.split(normed @ gate_up.T, 2, axis=-1)
    logistic = 1 / (1 + np.exp(-gate))
    inner = gate * logistic * up

    def backward(back):
        back_inner = back @ down
        back_gate = back_inner * up * logistic * (1 + gate * (1 - logistic))
        back_both = np.concatenate([back_gate, back_inner * gate * logistic], -1)
        back_x, back_weight = back_norm(back_both @ gate_up)
        return back + back_x, {
            f"{name}.norm.weight": back_weight,
            f"{name}.gate_up.weight": _outer(back_both, normed),
            f"{name}.down.weight": _outer(back, inner),
        }

    return x + inner @ down.T, backward
