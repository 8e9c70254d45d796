"""Run inside PyTorch's environment: states after steps of every optimizer and variant (synthetic_updates.py)."""

import numpy as np
import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from tests.probes.image_trainers import place_here
from tests.workloads.frameworks import synthetic_updates
from workloads.frameworks.pytorch.model import ModelTrainer


class Linear(nn.Module):
    """The sum over parameters of <w, x>; convolution-like parameters lie channels-last, as images' do."""

    def __init__(self):
        super().__init__()
        for name, shape in synthetic_updates.SHAPES.items():
            owner, _, kind = name.partition(".")
            if not hasattr(self, owner):
                self.add_module(owner, nn.Module())
            value = torch.zeros(shape)
            value = value.to(memory_format=torch.channels_last) if value.dim() == 4 else value
            getattr(self, owner).register_parameter(kind, nn.Parameter(value))

    def forward(self, arrays):
        return sum((self.get_parameter(name) * array).sum() for name, array in arrays.items())


class LinearTrainer(ModelTrainer):
    def build(self):
        return Linear()

    def loss(self, batch):
        return self.called({name: self.to_device(array) for name, array in batch.arrays.items()}) / batch.weight_global


def states(case):
    """After setup, around the overflow, and after the steps."""
    place = place_here()
    workload = synthetic_updates.Updates(*case.split("-"), place.processes)
    trainer = LinearTrainer(workload, place)
    weights = list(workload.initial_weights(1))
    trainer.setup(weights)
    kept = {"fresh": trainer.state()}
    steps = [[workload.batch(step, place.process)] for step in range(synthetic_updates.STEPS)]
    overflow, half = synthetic_updates.OVERFLOW, synthetic_updates.STEPS // 2
    trainer.train(steps[:overflow], 0)
    kept["before"] = trainer.state()
    trainer.train(steps[overflow:half], overflow)
    kept["skipped"] = trainer.state()
    trainer.setup(weights, warm_up=False)
    trainer.load_state(kept["skipped"])
    trainer.train(steps[half:], half)
    found = {f"{name}/{key}": value for name, state in kept.items() for key, value in state.items()}
    return {**found, **trainer.state()}


def reduced(case):
    """Values summed over replicas in one step."""
    place, sizes = place_here(), []
    workload = synthetic_updates.Updates(*case.split("-"), place.processes)
    trainer = LinearTrainer(workload, place)
    trainer.setup(workload.initial_weights(1), warm_up=False)

    def count(_, bucket):
        sizes.append(bucket.buffer().numel())
        return allreduce_hook(None, bucket)

    trainer.distributed.register_comm_hook(None, count)
    trainer.step(workload.batch(0, place.process), 0.1)
    return sum(sizes)


def computed(*cases):
    """Under `CASE/…` (OPTIMIZER-VARIANT): what `state()` gives after the steps; in the middle the state is saved,
    everything set up again, and the state loaded. `CASE/fresh/…`: the state after setup with warm-up. `CASE/before/…` and
    `CASE/skipped/…`: the state before and after the step that overflows. With several processes `CASE/reduced`: the
    values that an all-reduce of gradients sums in one step.
    """
    found = {f"{case}/{name}": value for case in cases for name, value in states(case).items()}
    if place_here().processes > 1:
        found |= {f"{case}/reduced": np.array(reduced(case)) for case in cases}
    return found
