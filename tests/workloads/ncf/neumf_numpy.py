"""NeuMF's forward pass and gradient in plain float64 NumPy.

The frameworks are compared with this reference.
"""

import numpy as np


def logits(weights, user, item):
    """Return logits (B,). The weights have canonical names."""

    def w(name, rows=...):  # convert only the accessed rows to float64
        return weights[name][rows].astype(np.float64)

    hidden = np.concatenate([w("mlp_user", user), w("mlp_item", item)], axis=1)
    layer = 0
    while f"mlp.{layer}.weight" in weights:
        hidden = np.maximum(hidden @ w(f"mlp.{layer}.weight").T + w(f"mlp.{layer}.bias"), 0)
        layer += 1
    both = np.concatenate([w("gmf_user", user) * w("gmf_item", item), hidden], axis=1)
    return (both @ w("output.weight").T + w("output.bias"))[:, 0]


def loss(weights, arrays, global_weight_sum):
    """Return the weighted binary cross-entropy with logits, divided by the global weight sum."""
    z, y = logits(weights, arrays["user"], arrays["item"]), arrays["label"].astype(np.float64)
    terms = np.logaddexp(0, z) - y * z
    return float((terms * arrays["weight"]).sum() / global_weight_sum)


def gradient(weights, arrays, global_weight_sum):
    """Return the gradient of `loss` by canonical name."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    user, item = arrays["user"], arrays["item"]
    activations = [np.concatenate([w["mlp_user"][user], w["mlp_item"][item]], axis=1)]
    layers = sum(name.startswith("mlp.") and name.endswith("weight") for name in w)
    for layer in range(layers):
        activations.append(
            np.maximum(activations[-1] @ w[f"mlp.{layer}.weight"].T + w[f"mlp.{layer}.bias"], 0)
        )
    gmf = w["gmf_user"][user] * w["gmf_item"][item]
    both = np.concatenate([gmf, activations[-1]], axis=1)
    z = (both @ w["output.weight"].T + w["output.bias"])[:, 0]
    d_z = ((1 / (1 + np.exp(-z)) - arrays["label"]) * arrays["weight"] / global_weight_sum)[:, None]
    found = {"output.weight": d_z.T @ both, "output.bias": d_z.sum(0)}
    d_both = d_z @ w["output.weight"]
    factors = gmf.shape[1]
    d_gmf, d_hidden = d_both[:, :factors], d_both[:, factors:]
    for layer in reversed(range(layers)):
        d_hidden = d_hidden * (activations[layer + 1] > 0)
        found[f"mlp.{layer}.weight"] = d_hidden.T @ activations[layer]
        found[f"mlp.{layer}.bias"] = d_hidden.sum(0)
        d_hidden = d_hidden @ w[f"mlp.{layer}.weight"]
    half = d_hidden.shape[1] // 2
    rows = {
        "gmf_user": (user, d_gmf * w["gmf_item"][item]),
        "gmf_item": (item, d_gmf * w["gmf_user"][user]),
        "mlp_user": (user, d_hidden[:, :half]),
        "mlp_item": (item, d_hidden[:, half:]),
    }
    for name, (index, values) in rows.items():
        found[name] = np.zeros_like(w[name])
        np.add.at(found[name], index, values)
    return found
