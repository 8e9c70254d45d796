"""Training of translation models in plain float64 PyTorch, without code of the suite.

The parity tests use it as their reference. Sentences have no padding.
"""

import math

import torch


def pairs(arrays):
    """Yield (source, target, label) of each sentence of a batch, without padding."""
    for row, length, target_length in zip(
        range(len(arrays["source"])), arrays["source_length"], arrays["target_length"], strict=True
    ):
        yield (
            arrays["source"][row, :length].tolist(),
            arrays["target"][row, :target_length].tolist(),
            arrays["label"][row, :target_length].tolist(),
        )


def parameters(weights):
    """Return weights as float64 leaf tensors."""
    return {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in weights.items()
    }


def followed(weights, losses_of, rates, betas, epsilon, clip_norm=None):
    """Train with Adam.

    Args:
        weights: Initial weights by name.
        losses_of: A function per step, from the leaf tensors to the loss.
        rates: Learning rate of each step.
        betas: Adam's betas.
        epsilon: Adam's epsilon.
        clip_norm: Largest norm of all gradients, or None.

    Returns:
        Losses of the steps, gradients of the first step before clipping, and the final weights.
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
