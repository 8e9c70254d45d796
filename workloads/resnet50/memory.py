"""Whether the activations of a step fit the memory of a machine that trains on CPU cores: known before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from workloads.api import Json, Settings
from workloads.resnet50 import network

_BYTES = {"bf16": 2, "fp16": 2}
_TAKEN = 2.0
"""What a proposed batch may take, over the least: 1.6 in PyTorch, 1.1 in TensorFlow and MXNet (89 MB an image at least; 140
and 100 measured at 224 pixels), and room for the framework."""


def activation_bytes(model: Mapping[str, Json], precision: str) -> int:
    """Bytes that one image leaves for the backward pass, at least: what each convolution gives, before and behind batch norm.

    22.2 million values for 50 layers at 224 pixels.
    """
    layers = network.build(model)
    size = int(model["image_size"])
    side = _half(size)  # behind the stem
    values = layers.stem.outputs * side**2
    side = _half(side)  # behind the max pool
    for block in layers.blocks:
        narrow, spatial, wide = block.convolutions
        values += narrow.outputs * side**2
        side = _half(side) if spatial.stride == 2 else side
        values += (spatial.outputs + wide.outputs + (block.shortcut.outputs if block.shortcut else 0)) * side**2
    return 2 * values * _BYTES.get(precision, 4)


def check_memory(settings: Settings, available: int | None) -> None:
    """Raise ValueError, one line, if a step on CPU cores cannot fit into `available` bytes (None: not known)."""
    if settings.device != "cpu" or settings.mode != "train" or not available:
        return
    image = activation_bytes(settings.model, settings.precision)
    if image * settings.batch_size_global <= available:
        return
    count = settings.devices_total
    fits = max(1, int(available / (_TAKEN * image)) // count) * count
    raise ValueError(
        f"batch size {settings.batch_size_global} on CPU cores: its activations take at least "
        f"{image * settings.batch_size_global / 2**30:.0f} GiB, {available / 2**30:.1f} GiB of memory are available; "
        f"type batch=global:{fits}"
    )


def available_bytes(path: Path = Path("/proc/meminfo")) -> int | None:
    """Memory that the machine can still hand out; None where the kernel does not say."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found and found[0].isdigit() else None


def _half(side: int) -> int:
    """Rows behind a layer of stride 2 that pads evenly."""
    return (side + 1) // 2
