"""Cross-entropy with smoothed labels in PyTorch.

The implementation allocates no array of smoothed labels.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from workloads.frameworks.pytorch import kernels


class _SmoothedEntropy(torch.autograd.Function):
    """Autograd function of `smoothed_entropy`.

    In addition to the logits, the autograd function allocates only one array of R · V elements.

    Without the Triton kernel, the gradient overwrites the log-probabilities. With the Triton
    kernel, the gradient is the only array.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, on_label: float, on_mean: float, padding: int
    ) -> Tensor:
        ctx.shares, ctx.padding = (on_label, on_mean), padding
        ctx.by_kernel = logits.is_cuda and logits.dtype != torch.float64 and kernels.usable()
        if ctx.by_kernel:
            terms, normal = kernels.entropy(logits, labels, on_label, on_mean, padding)
            ctx.save_for_backward(logits, labels, normal)
            return terms.sum()
        wide = logits.dtype if logits.dtype == torch.float64 else torch.float32
        logarithms = F.log_softmax(logits, -1, dtype=wide)
        ctx.dtype, ctx.valid = logits.dtype, labels != padding
        ctx.save_for_backward(logarithms, labels)
        of_label = logarithms.gather(1, labels[:, None])[:, 0]
        terms = on_label * of_label + on_mean * logarithms.mean(-1)
        return -(terms * ctx.valid).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        on_label, on_mean = ctx.shares
        if ctx.by_kernel:
            logits, labels, normal = ctx.saved_tensors
            steep = kernels.entropy_gradient(
                logits, labels, normal, gradient, on_label, on_mean, ctx.padding
            )
            return steep, None, None, None, None
        logarithms, labels = ctx.saved_tensors
        gradient_of_logits = logarithms.exp_()
        gradient_of_logits -= on_mean / gradient_of_logits.shape[1]
        rows = torch.arange(len(labels), device=labels.device)
        gradient_of_logits[rows, labels] -= on_label
        gradient_of_logits *= (ctx.valid * gradient)[:, None]
        return gradient_of_logits.to(ctx.dtype), None, None, None, None


def smoothed_entropy(
    logits: Tensor, labels: Tensor, on_label: float, on_mean: float, padding: int
) -> Tensor:
    """Return the smoothed cross-entropy of logits (R, V) and labels (R,), summed over R.

    The formula is Σ -(on_label · log p of the label + on_mean · mean over V of log p), at least in
    fp32. The weights `on_label` and `on_mean` add up to 1. Rows with the label `padding` contribute
    0.
    """
    return _SmoothedEntropy.apply(logits, labels, on_label, on_mean, padding)
