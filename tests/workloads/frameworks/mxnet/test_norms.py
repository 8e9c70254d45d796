"""Layer norm of MXNet, compared with NumPy in float64."""

import numpy as np
import pytest

from tests.frameworks_probe import probe, relative

CLOSE = 1e-5


def wanted(x, weight, bias, gradient):
    centred = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-6)
    normed, scaled = centred * scale, gradient * weight
    of_x = (
        scaled - scaled.mean(1, keepdims=True) - normed * (scaled * normed).mean(1, keepdims=True)
    )
    of_parameters = {"weight": (gradient * normed).sum(0), "bias": gradient.sum(0)}
    return {"value": normed * weight + bias, "x": of_x * scale, **of_parameters}


@pytest.mark.parametrize("folder", ["", "graph/"])
def test_value_and_gradients(folder):
    """Check rows far from 0, and a row of values so small that epsilon matters."""
    found = probe("mxnet", "probes.mxnet_norms.computed")
    arrays = [np.float64(found[f"given/{name}"]) for name in ("x", "weight", "bias", "gradient")]
    for name, expected in wanted(*arrays).items():
        assert relative(found[f"{folder}{name}"], expected) <= CLOSE, name
