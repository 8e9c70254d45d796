"""Run inside PyTorch's environment: GNMT's masks of dropout as a GPU computes them."""

import numpy as np

from workloads.common import dropout


def masks_on_device():
    """`found`, `wanted`: masks by PyTorch's integers, as a GPU computes them, and by NumPy's."""
    import torch

    from workloads.frameworks.pytorch.dropout import hashed

    keys = dropout.keys(5, 2, np.arange(7))
    found = hashed(torch.from_numpy(keys)[None, :], torch.arange(11)[:, None], "source", 24, 0.2)
    return {"found": found.numpy(), "wanted": dropout.multipliers(keys, "source", 11, 24, 0.2)}
