"""Runs in PyTorch's environment: linear layers with either library."""

from unittest import mock

import torch
import torch.nn.functional as F

from suite.common.registry import load_trainer
from testing import synthetic_transformer
from tests.probes.image_trainers import place_here
from workloads.frameworks.pytorch import linear


def both():
    """Return values and gradients of a linear layer with ReLU, and the calls of oneDNN.

    `plain/…` is computed by PyTorch, `mkl/…` and `onednn/…` with a selected library. `calls` has
    the number of calls of oneDNN's operator for each library.
    """
    torch.manual_seed(1)
    x, weight, bias = (
        torch.randn(size, requires_grad=True) for size in ((3, 5, 24), (16, 24), (16,))
    )
    found, calls = {}, []

    def keep(name, y):
        parts = (y, *torch.autograd.grad(y.sum(), (x, weight, bias)))
        for part, value in zip(("y", "x", "weight", "bias"), parts, strict=True):
            found[f"{name}/{part}"] = value.detach().numpy()

    keep("plain", F.relu(F.linear(x, weight, bias)))
    for library in ("mkl", "onednn"):
        with mock.patch.object(linear, "_FUSED", mock.Mock(wraps=linear._FUSED)) as operator:
            linear.use_library(library)
            keep(library, linear.linear(x, weight, bias, relu=True))
            calls.append(operator.call_count)
    linear.use_library("")
    return {**found, "calls": calls}


def of_trainers():
    """Return oneDNN's calls in a step of trainers without a library, `mkl`, and `onednn`."""
    calls = []
    for library in ("", "mkl", "onednn"):
        workload = synthetic_transformer.workload("steps", "pytorch", linear_backend=library)
        trainer = load_trainer("transformer", "pytorch")(workload, place_here(1))
        trainer.setup(synthetic_transformer.weights(workload).items(), False)
        with mock.patch.object(linear, "_FUSED", mock.Mock(wraps=linear._FUSED)) as operator:
            trainer._loss(synthetic_transformer.batch(workload, 0))
            calls.append(operator.call_count)
    linear.use_library("")
    return {"calls": calls}
