"""Run inside PyTorch's environment: which operators a training step of an image model calls, as JSON on standard output.

    python pytorch_step.py WORKLOAD PRECISION

`waits`: how often a value is read by the host; `convolutions`: type of each, and whether input, weight and output lie
channels-last.
"""

import importlib
import json
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suite.common.registry import load_trainer
from workloads.api import Place

SYNTHETIC = {"resnet50": "resnet50.synthetic_resnet", "ssd": "ssd.synthetic_ssd"}
WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::is_nonzero")


class Watch(TorchDispatchMode):
    """Keeps every operator called with its arguments and its result."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        found = function(*arguments, **(keywords or {}))
        self.calls.append((function._schema.name, arguments, keywords or {}, found))
        return found


def channels_last(tensor):
    return tensor.is_contiguous(memory_format=torch.channels_last)


def step(workload, precision):
    """Of one training step on the CPU."""
    synthetic = importlib.import_module(f"tests.workloads.{SYNTHETIC[workload]}")
    made = synthetic.workload("uneven", "pytorch", precision=precision)
    trainer = load_trainer(workload, "pytorch")(made, Place(0, 1, range(1), 1, ("cpu",)))
    trainer.setup(synthetic.weights(made).items(), warm_up=False)
    batch = synthetic.batch(made, 0)
    with Watch() as watch:
        trainer.step(batch, 0.1)
    trainer.close()
    convolutions = [(*arguments[:2], found) for name, arguments, _, found in watch.calls if name == "aten::convolution"]
    return {
        "waits": [name for name, *_ in watch.calls if name in WAITS],
        "convolutions": [[str(tensors[0].dtype), *map(channels_last, tensors)] for tensors in convolutions],
    }


if __name__ == "__main__":
    print(json.dumps(step(*sys.argv[1:3])))
