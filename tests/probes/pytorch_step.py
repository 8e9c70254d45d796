"""Run inside PyTorch's environment: which operators a training step of an image model calls."""

import importlib

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from suite.common.registry import load_trainer
from tests.probes.image_trainers import SYNTHETIC, place_here
from workloads.api import ParameterRule
from workloads.frameworks.pytorch.optimizers import Lars

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
    """Of one training step on the CPU: `waits`, what reads values to the host; `types` of the convolutions, and
    `channels_last`, whether their input, weight and output lie so.
    """
    synthetic = importlib.import_module(SYNTHETIC[workload])
    made = synthetic.workload("uneven", "pytorch", precision=precision)
    trainer = load_trainer(workload, "pytorch")(made, place_here())
    trainer.setup(synthetic.weights(made).items(), warm_up=False)
    batch = synthetic.batch(made, 0)
    with Watch() as watch:
        trainer.step(batch, 0.1)
    trainer.close()
    convolutions = [(*arguments[:2], found) for name, arguments, _, found in watch.calls if name == "aten::convolution"]
    return {
        "waits": [name for name, *_ in watch.calls if name in WAITS],
        "types": [str(tensors[0].dtype) for tensors in convolutions],
        "channels_last": [list(map(channels_last, tensors)) for tensors in convolutions],
    }


def copies_of_lars():
    """`copies`: what brings a value of the host to a synthetic CUDA device in an optimizer's step, and waits for that."""
    with FakeTensorMode():
        parameters = {name: torch.zeros(3, 3, device="cuda") for name in ("weight", "bias")}
        for parameter in parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        optimizer = Lars(parameters, lambda name: ParameterRule(1e-4, name == "weight"), 0.9, 0.001)
        with Watch() as watch:
            optimizer.step(0.1)
    copies = [
        name
        for name, arguments, keywords, found in watch.calls
        if name in ("aten::_to_copy", "aten::copy_")
        and {"cpu", "cuda"}
        == {tensor.device.type for tensor in (*arguments, found) if isinstance(tensor, torch.Tensor)}
        and not keywords.get("non_blocking")
    ]
    return {"copies": copies}
