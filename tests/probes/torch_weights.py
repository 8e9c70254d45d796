"""Run in PyTorch's environment: torchvision's ResNet-34 as torch.save writes it, synthetic files as
torch.load reads them.
"""

from pathlib import Path

import numpy as np
import torch
import torchvision


def arrays(state):
    """Name to NumPy array."""
    return {name: value.detach().numpy() for name, value in state.items()}


def write(folder):
    """Writes resnet34-{pickles,zip,channels_last,parameters}.pth and resnet34.npz; made-NAME.npz of
    each made-NAME.pth.
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
