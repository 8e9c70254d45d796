"""Runs in PyTorch's environment: weight files written by torch.save and read by torch.load."""

from pathlib import Path

import numpy as np
import torch
import torchvision


def arrays(state):
    """Map each name to a NumPy array."""
    return {name: value.detach().numpy() for name, value in state.items()}


def write(folder):
    """Write torchvision's ResNet-34 in all formats, and read synthetic files.

    The written files are resnet34-{pickles,zip,channels_last,parameters}.pth and resnet34.npz. Each
    made-NAME.pth is read and written as made-NAME.npz.
    """
    folder = Path(folder)
    torch.manual_seed(1)
    model = torchvision.models.resnet34()
    for name, value in model.named_buffers():
        if "running" in name:
            value.add_(torch.rand_like(value))
    state = model.state_dict()
    torch.save(state, folder / "resnet34-pickles.pth", _use_new_zipfile_serialization=False)
    torch.save(state, folder / "resnet34-zip.pth")
    last = {
        name: value.to(memory_format=torch.channels_last) if value.ndim == 4 else value
        for name, value in state.items()
    }
    torch.save(last, folder / "resnet34-channels_last.pth")
    floats = {
        name: torch.nn.Parameter(value)
        for name, value in state.items()
        if value.is_floating_point()
    }
    torch.save(floats, folder / "resnet34-parameters.pth")
    np.savez(folder / "resnet34.npz", **arrays(state))
    for path in folder.glob("made-*.pth"):
        found = torch.load(path, weights_only=False)
        np.savez(path.with_suffix(".npz"), **arrays(found))
    return {}
