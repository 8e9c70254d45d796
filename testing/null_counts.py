"""What the null device (tests/gpu_paths/null) has counted in this process."""

from __future__ import annotations

import collections
import ctypes
import os
import tempfile
from pathlib import Path

CALLS = ("emm", "Matmul", "Forward", "Backward")
"""Of functions of cuBLAS and cuDNN that launch kernels."""


def _is_there() -> bool:
    return hasattr(ctypes.CDLL(None), "null_reset")


def reset() -> None:
    """Count from 0."""
    if _is_there():
        ctypes.CDLL(None).null_reset()


def counts() -> collections.Counter[str]:
    """What was counted since the last reset; nothing where this process sees no null device."""
    if not _is_there():
        return collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts"
        ctypes.CDLL(None).null_write(os.fsencode(path))
        lines = (line.split("\t") for line in path.read_text().splitlines())
        return collections.Counter({what: int(number) for number, what in lines})


def summed(counted: collections.Counter[str], per: int) -> dict[str, float]:
    """Launches by all kernels and libraries together; copies, waits and bytes; each for one of
    `per`.
    """
    found: collections.Counter[str] = collections.Counter()
    for what, number in counted.items():
        kind, _, name = what.partition(" ")
        launches = kind == "kernel" or (kind == "call" and any(word in name for word in CALLS))
        found["launches" if launches else what] += number
        found["kernels of Triton"] += number * (what == "kernel of Triton")
    return {
        what: number / per
        for what, number in found.items()
        if not what.startswith(("call ", "peak"))
    }
