"""Layer norms in MXNet."""

from __future__ import annotations

from types import ModuleType

from workloads.frameworks.mxnet.graphs import Tensor


def layer_norm(
    F: ModuleType, x: Tensor, weight: Tensor, bias: Tensor, size: int, epsilon: float
) -> Tensor:
    """Normalize x (R, size) along its last axis, then apply `weight` and `bias` (size,).

    Sums and copies along an axis are computed as matrix products with ones. The gradients of these
    products are matrix products, too. On a CPU, the gradient of MXNet's `LayerNorm` is four times
    as slow as these matrix products.
    """
    copy = F.ones_like(F.reshape(weight, (-1, 1)))
    mean = F.reshape(copy, (1, -1)) / size
    centred = x - _product(F, _product(F, x, mean, 1), copy, size)
    scale = F.rsqrt(_product(F, F.square(centred), mean, 1) + epsilon)
    ones = F.ones_like(F.slice_axis(x, axis=1, begin=0, end=1))
    weights, biases = (
        _product(F, ones, F.reshape(array, (-1, 1)), size) for array in (weight, bias)
    )
    return centred * _product(F, scale, copy, size) * weights + biases


def _product(F: ModuleType, x: Tensor, weight: Tensor, outputs: int) -> Tensor:
    """Return x (R, inputs) · weightᵀ."""
    return F.FullyConnected(x, weight, num_hidden=outputs, no_bias=True)
