"""Count the bytes that operators and Triton kernels read and write on a device.

The module also registers the FLOP formulas of cuDNN's RNNs.
"""

from __future__ import annotations

import collections
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import register_flop_formula

TAKES = ("embedding", "index_select", "gather", "index")
ADDS = ("scatter_add_", "index_add_", "index_copy_", "index_put", "embedding_dense_backward")
"""Operators that write only some rows of a table."""
LEVELS = 4
"""Number of levels of the feature pyramid from which Mask R-CNN pools regions."""


@register_flop_formula(torch.ops.aten._cudnn_rnn)
def _of_rnn(x: Any, weights: Any, *_: Any, **__: Any) -> int:
    """Return the FLOPs of an RNN: two per weight, position, and sentence."""
    return 2 * x[0] * x[1] * sum(weight[0] * weight[1] for weight in weights if len(weight) == 2)


@register_flop_formula(torch.ops.aten._cudnn_rnn_backward)
def _of_rnn_backward(x: Any, weights: Any, *_: Any, **__: Any) -> int:
    return 2 * _of_rnn(x, weights)


class Traffic(TorchDispatchMode):
    """Counts the bytes that each operator and Triton kernel reads and writes.

    The counts are stored by the name of the operator or kernel.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = operator(*args, **(kwargs or {}))
        name = operator.overloadpacket.__name__
        if (
            not operator.is_view
            and "empty" not in name
            and name not in ("detach", "alias", "_unsafe_view")
        ):
            inputs, outputs = _sizes((args, kwargs)), _sizes(found)
            if name in TAKES:
                inputs = sorted(inputs)[:1] + outputs
            elif name in ADDS:
                inputs, outputs = sorted(inputs + outputs)[:2] * 2, []
            self.bytes[name] += sum(inputs) + sum(outputs)
        return found

    def launched(self, name: str, args: Any) -> None:
        """Count the bytes of a Triton kernel, which reads or writes each array once.

        An array that is passed as two arguments is counted once.
        """
        arrays = {tensor.data_ptr(): tensor for tensor in args if isinstance(tensor, torch.Tensor)}
        sizes = _sizes(list(arrays.values()))
        if name == "pool":  # each launch of `pool` writes only the regions of its level
            sizes[-1] //= LEVELS
        self.bytes[f"Triton: {name}"] += sum(sizes)

    def with_triton(self) -> Any:
        """Return a context in which the launches of Triton kernels are counted."""
        from unittest import mock

        from triton.runtime.jit import JITFunction

        run = JITFunction.run

        def counted(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            self.launched(kernel.__name__, args)
            return run(kernel, *args, **kwargs)

        return mock.patch.object(JITFunction, "run", counted)


def _sizes(values: Any) -> list[int]:
    """Return the sizes in bytes of the tensors on the device.

    The size of an expanded tensor is the size of its storage.
    """
    tensors = [
        tensor
        for tensor in tree_leaves(values)
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda
    ]
    return [
        min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
        for tensor in tensors
    ]
