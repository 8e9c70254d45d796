"""Runs in PyTorch's environment: operators of an image model's training step."""

import importlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suite.common.registry import load_trainer
from tests.probes.image_trainers import SYNTHETIC, place_here

WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::is_nonzero")


class RunMonitor(TorchDispatchMode):
    """Records every operator with its arguments and its result."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        found = function(*arguments, **(keywords or {}))
        self.calls.append((function._schema.name, arguments, keywords or {}, found))
        return found


def step(workload, precision):
    """Return facts about the operators of a training step on the CPU.

    `waits` has the operators that copy values to the host, `types` the data types of the
    convolutions, and `channels_last` whether their input, weight and output have this memory
    format.
    """
    synthetic = importlib.import_module(SYNTHETIC[workload])
    task = synthetic.workload("uneven", "pytorch", precision=precision)
    trainer = load_trainer(workload, "pytorch")(task, place_here())
    trainer.setup(synthetic.weights(task).items(), warmup=False)
    batch = synthetic.batch(task, 0)
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
