"""What the plain float64 models of translation share: sentences without padding, leaves, Adam's
steps. None of our code.

The reference of the parity tests.
"""

import math

import torch


def pairs(arrays):
    """(source, target, label) without padding of each sentence of a batch."""
    for row, length, target_length in zip(
        range(len(arrays["source"])), arrays["source_length"], arrays["target_length"], strict=True
    ):
        yield (
            arrays["source"][row, :length].tolist(),
            arrays["target"][row, :target_length].tolist(),
            arrays["label"][row, :target_length].tolist(),
        )


def parameters(weights):
    """Weights as float64 leaves."""
    return {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in weights.items()
    }


def followed(weights, losses_of, rates, betas, epsilon, clip_norm=None):
    """Losses of Adam's steps, the first step's gradients before clipping, and the weights after
    all.

    `losses_of`: a function of the leaves for each step.
    """
    values = parameters(weights)
    optimizer = torch.optim.Adam(values.values(), lr=0.0, betas=betas, eps=epsilon)
    losses, first = [], {}
    for loss_of, rate in zip(losses_of, rates, strict=True):
        optimizer.zero_grad()
        found = loss_of(values)
        found.backward()
        first = first or {name: value.grad.numpy().copy() for name, value in values.items()}
        norm = math.sqrt(sum(float(value.grad.square().sum()) for value in values.values()))
        for value in values.values():
            value.grad *= min(1.0, (clip_norm or math.inf) / norm)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        losses.append(found.item())
    return losses, first, {name: value.detach().numpy() for name, value in values.items()}
