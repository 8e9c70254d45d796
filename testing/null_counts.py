"""Read the counters of the stub CUDA driver (tests/gpu_paths/null) in this process."""

from __future__ import annotations

import collections
import ctypes
import os
import tempfile
from pathlib import Path

CALLS = ("emm", "Matmul", "Forward", "Backward")
"""Substrings in the names of all cuBLAS and cuDNN functions that launch kernels."""


def _is_loaded() -> bool:
    return hasattr(ctypes.CDLL(None), "null_reset")


def reset() -> None:
    """Reset the counters of the stub CUDA driver."""
    if _is_loaded():
        ctypes.CDLL(None).null_reset()


def counts() -> collections.Counter[str]:
    """Return the counters of the stub CUDA driver since the last reset.

    The Counter is empty if the stub driver is not loaded.
    """
    if not _is_loaded():
        return collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts"
        ctypes.CDLL(None).null_write(os.fsencode(path))
        lines = (line.split("\t") for line in path.read_text().splitlines())
        return collections.Counter({name: int(number) for number, name in lines})


def summed(counted: collections.Counter[str], per: int) -> dict[str, float]:
    """Return the numbers of launches, copies, and waits, and the number of copied bytes.

    Launches include kernel launches and library calls. All numbers are divided by `per`.
    """
    found: collections.Counter[str] = collections.Counter()
    for event, number in counted.items():
        kind, _, detail = event.partition(" ")
        launches = kind == "kernel" or (kind == "call" and any(word in detail for word in CALLS))
        found["launches" if launches else event] += number
        found["kernels of Triton"] += number * (event == "kernel of Triton")
    return {
        event: number / per
        for event, number in found.items()
        if not event.startswith(("call ", "peak"))
    }
