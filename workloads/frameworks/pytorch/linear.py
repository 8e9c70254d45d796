"""Linear layer through MKL or oneDNN, with or without ReLU.

Select the library that is faster on the CPU.

PyTorch multiplies fp32 matrices with MKL, which does not use AVX-512 on AMD processors. On AMD
processors, MKL is 2 to 4 times slower than oneDNN, which PyTorch also includes (for convolutions
and bf16). On Intel processors, MKL may be faster than oneDNN. Both libraries compute the same sums
in different orders, so their results agree to about 1e-7.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def _find() -> Any:
    """Return oneDNN's fused linear operator, which torch.compile also uses.

    The function returns None if this PyTorch build lacks the operator.
    """
    try:
        return torch.ops.mkldnn._linear_pointwise.default
    except (AttributeError, RuntimeError):
        return None


_FUSED = _find()
_library = "onednn" if _FUSED is not None else "mkl"


def use_library(library: str) -> None:
    """Select `mkl` or `onednn` for linear layers in this process.

    The empty string selects oneDNN if this PyTorch build includes it.

    Raises:
        ValueError: This PyTorch build lacks the library.
    """
    # The library is a global variable, because layers are nested deeply in models, and a process
    # has only one trainer.
    global _library
    if library == "onednn" and _FUSED is None:
        raise ValueError(
            "framework.linear_backend=onednn: this build of PyTorch has no such operator. Set"
            " framework.linear_backend=mkl"
        )
    assert library in ("", "mkl", "onednn"), library
    _library = library or ("onednn" if _FUSED is not None else "mkl")


class _Linear(torch.autograd.Function):
    """Autograd function: product of x (B, inputs) and weight (outputs, inputs), plus bias.

    The bias is (outputs,) or None. The output is (B, outputs).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        y: Tensor = _FUSED(x, weight, bias, "relu" if relu else "none", [], "")
        ctx.save_for_backward(x, weight, y)
        ctx.relu = relu
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        if ctx.relu:
            gradient = torch.ops.aten.threshold_backward(gradient, y, 0)
        x_gradient = (
            _FUSED(gradient, weight.t(), None, "none", [], "") if ctx.needs_input_grad[0] else None
        )
        weight_gradient = _FUSED(gradient.t(), x.t(), None, "none", [], "")
        return (
            x_gradient,
            weight_gradient,
            gradient.sum(0) if ctx.needs_input_grad[2] else None,
            None,
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Tensor:
    """Return x (…, inputs) · weightᵀ plus the bias, if any.

    With `relu`, ReLU is applied to the sum. `weight` is (outputs, inputs).
    """
    if (
        _library == "mkl"
        or x.device.type != "cpu"
        or x.dtype != torch.float32
        or torch.is_autocast_enabled("cpu")
    ):
        y = F.linear(x, weight, bias)
        return F.relu(y) if relu else y
    flat = x.reshape(-1, x.shape[-1])
    y = _Linear.apply(flat, weight, bias, relu)
    return y.view(*x.shape[:-1], weight.shape[0])
