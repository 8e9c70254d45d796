"""Arrays out of pickles of Python 2 (Detectron's `R-50.pkl`, CIFAR-10's batches), without executing anything.

Such a file is one pickle of Python 2: a dictionary of names and NumPy arrays, or one that has it under `blobs`. It is
untrusted: names and opcodes are held against an allow-list (torch_pickle.py), and NumPy's own functions are never called
by it.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from workloads.api import Array
from workloads.common.networks import torch_pickle

DTYPES = {b"f4": "<f4", b"f8": "<f8", b"i4": "<i4", b"i8": "<i8", b"u1": "u1"}
DIMENSIONS_MAXIMUM = 8


class _Type:
    """Stands for `numpy.dtype`, which a pickle calls with (kind, align, copy)."""

    def __init__(self, kind: object = None, *unused: object) -> None:
        if not isinstance(kind, bytes) or kind not in DTYPES:
            raise ValueError(f"an array of type {str(kind)[:20]}")
        self.dtype = DTYPES[kind]

    def __setstate__(self, state: object) -> None:
        """(version, byte order, …)"""
        order = b"|" if self.dtype == "u1" else b"<"  # a byte has none
        if not isinstance(state, tuple) or len(state) < 2 or state[1] != order:
            raise ValueError("an array that is not little-endian")


class _Array:
    """Stands for `numpy.ndarray`; its state is (version, shape, type, is Fortran, content)."""

    value: Array | None = None

    def __setstate__(self, state: object) -> None:
        """The values, a copy in C order. Raises ValueError where sizes do not fit."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("an array without state")
        _, shape, kind, is_fortran, content = state
        is_shape = isinstance(shape, tuple) and all(isinstance(side, int) and side >= 0 for side in shape)
        if not is_shape or not isinstance(kind, _Type) or not isinstance(content, bytes):
            raise ValueError("an array without shape, type or content")
        if len(shape) > DIMENSIONS_MAXIMUM or math.prod(shape) * np.dtype(kind.dtype).itemsize != len(content):
            raise ValueError("an array that does not fit its content")
        flat = np.frombuffer(content, kind.dtype)
        self.value = np.array(flat.reshape(shape, order="F" if is_fortran else "C"), order="C")


def _reconstruct(*unused: object) -> _Array:
    """Stands for NumPy's function of this name: an array that its state fills."""
    return _Array()


ALLOWED: torch_pickle.Allowed = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


def is_dictionary(data: bytes) -> bool:
    """Whether a pickle begins with a dictionary, as these files do; PyTorch's begin with a number or are archives."""
    return data[:1] == b"\x80" and data[2:3] == b"}"


def decode(data: bytes) -> dict[str, Array]:
    """Name to array; what is no array (a configuration) is dropped.

    Raises ValueError, in one line without a file name, for whatever is no such file, damaged, or not allowed.
    """
    loaded = dictionary(data)
    blobs = loaded.get(b"blobs", loaded)
    if not isinstance(blobs, dict):
        raise ValueError("holds no dictionary of weights")
    arrays = {name: _plain(value) for name, value in blobs.items() if isinstance(name, bytes)}
    return {name.decode("ascii", "replace"): value for name, value in arrays.items() if isinstance(value, np.ndarray)}


def dictionary(data: bytes) -> dict[object, Any]:
    """The dictionary of any such pickle, strings as bytes, arrays as arrays where they are its values.

    Raises ValueError, in one line without a file name, for whatever is no such file, damaged, or not allowed.
    """
    loaded = torch_pickle.load(io.BytesIO(data), allowed=ALLOWED, encoding="bytes")
    if not isinstance(loaded, dict):
        raise ValueError("holds no dictionary of weights")
    return {name: _plain(value) for name, value in loaded.items()}


def _plain(value: object) -> object:
    return value.value if isinstance(value, _Array) else value
