"""Runs in PyTorch's environment: peak memory of the tensors in a training step."""

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from suite.common.registry import load_trainer
from tests.probes.image_trainers import place_here
from tests.workloads.zoo import synthetic_zoo
from workloads.zoo.workload import Zoo


def peak_of_a_step(model, image_size, images):
    """Return the `peak` of a step with `images` images in bytes, and the suite's `estimate`.

    The peak is relative to the memory before the step. Gradients are allocated before the step,
    because they are not activations. The step adds to them. PyTorch's profiler reports every
    allocation of its CPU allocator, but not the scratch memory of oneDNN.
    """
    small = synthetic_zoo.workload(model, "pytorch", image_size)
    workload = Zoo(
        dataclasses.replace(small.settings, global_batch_size=images), small.dataset_info
    )
    trainer = load_trainer("zoo", "pytorch")(workload, place_here())
    trainer.setup(synthetic_zoo.weights(workload).items(), False)
    batch = synthetic_zoo.batch(workload, 0)
    trainer.train([[batch]], 0)
    for parameter in trainer.parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        trainer.train([[batch]], 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    ours = [
        (number, event) for number, event in enumerate(events) if event.get("name") == "[memory]"
    ]  # allocation or release
    changes = sorted((event["ts"], number, event["args"]["Bytes"]) for number, event in ours)
    trainer.close()
    found = {
        "peak": np.cumsum([size for *_, size in changes]).max(),
        "estimate": images * Zoo.activation_bytes(workload.settings),
    }
    return {name: np.int64(value) for name, value in found.items()}
