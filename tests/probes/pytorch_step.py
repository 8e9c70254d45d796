"""Run inside PyTorch's environment: which operators a training step of an image model calls."""

import importlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suite.common.registry import load_trainer
from tests.probes.image_trainers import SYNTHETIC, place_here

WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::is_nonzero")


class RunMonitor(TorchDispatchMode):
    """Keeps every operator called with its arguments and its result."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        found = function(*arguments, **(keywords or {}))
        self.calls.append((function._schema.name, arguments, keywords or {}, found))
        return found


def step(workload, precision):
    """Of one training step on the CPU: `waits`, what reads values to the host; `types` of the
    convolutions, and `channels_last`, whether their input, weight and output lie so.
    """
    synthetic = importlib.import_module(SYNTHETIC[workload])
    made = synthetic.workload("uneven", "pytorch", precision=precision)
    trainer = load_trainer(workload, "pytorch")(made, place_here())
    trainer.setup(synthetic.weights(made).items(), warmup=False)
    batch = synthetic.batch(made, 0)
    with RunMonitor() as watch:
        trainer.step(batch, 0.1)
    trainer.close()
    convolutions = [
        (*arguments[:2], found)
        for name, arguments, _, found in watch.calls
        if name == "aten::convolution"
    ]
    return {
        "waits": [name for name, *_ in watch.calls if name in WAITS],
        "types": [str(tensors[0].dtype) for tensors in convolutions],
        "channels_last": [
            [tensor.is_contiguous(memory_format=torch.channels_last) for tensor in tensors]
            for tensors in convolutions
        ],
    }
