"""Runs in PyTorch's environment: GNMT's dropout masks as a GPU computes them."""

import numpy as np

from workloads.common import dropout


def masks_on_device():
    """Return masks computed with PyTorch's integers (`found`) and with NumPy's (`wanted`).

    A GPU uses PyTorch's integers.
    """
    import torch

    from workloads.frameworks.pytorch.dropout import hashed

    keys = dropout.keys(5, 2, np.arange(7))
    found = hashed(torch.from_numpy(keys)[None, :], torch.arange(11)[:, None], "source", 24, 0.2)
    return {"found": found.numpy(), "wanted": dropout.multipliers(keys, "source", 11, 24, 0.2)}


def narrowed():
    """Check that weights cast into cuDNN's buffer, and their gradients, equal separate casts."""
    import torch

    from workloads.gnmt.pytorch import _Narrowed

    weights = [
        torch.randn(shape, generator=torch.Generator().manual_seed(4))
        for shape in ((8, 3), (8, 2), (8,))
    ]
    slopes = [torch.randn_like(weight).bfloat16() for weight in weights]
    results = []
    for side_by_side in (True, False):
        leaves = [weight.clone().requires_grad_() for weight in weights]
        buffers = [torch.empty_like(weight, dtype=torch.bfloat16) for weight in weights]
        cast = (
            _Narrowed.apply(buffers, *leaves)
            if side_by_side
            else [leaf.bfloat16() for leaf in leaves]
        )
        results.append([*cast, *torch.autograd.grad(cast, leaves, slopes)])
    return {
        "same": np.array([torch.equal(ours, plain) for ours, plain in zip(*results, strict=True)])
    }
