"""Read arrays safely from pickles of Python 2.

Examples are Detectron's `R-50.pkl` and CIFAR-10's batches. Each of these files is a single Python 2
pickle. The pickle contains a dictionary of NumPy arrays by name, either at the top level or under
the key `blobs`. The files are untrusted. Names and opcodes are checked against an allow-list
(torch_pickle.py), and unpickling never calls NumPy's functions.
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
    """Safe replacement for `numpy.dtype`.

    A pickle calls `numpy.dtype` with the arguments (kind, align, copy).
    """

    def __init__(self, kind: object = None, *unused: object) -> None:
        if not isinstance(kind, bytes) or kind not in DTYPES:
            raise ValueError(f"an array has the unsupported type {str(kind)[:20]}")
        self.dtype = DTYPES[kind]

    def __setstate__(self, state: object) -> None:
        """Check the byte order in the pickled attributes of a NumPy dtype."""
        order = b"|" if self.dtype == "u1" else b"<"  # Single-byte types have no byte order.
        if not isinstance(state, tuple) or len(state) < 2 or state[1] != order:
            raise ValueError("an array is not little-endian")


class _Array:
    """Safe replacement for `numpy.ndarray`.

    A pickled array is the tuple (version, shape, type, is Fortran, content).
    """

    value: Array | None = None

    def __setstate__(self, state: object) -> None:
        """Copy the values of a pickled array to an array in C order.

        The method raises ValueError if the size of the content does not match the shape.
        """
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("an array has no state")
        _, shape, kind, is_fortran, content = state
        is_shape = isinstance(shape, tuple) and all(
            isinstance(side, int) and side >= 0 for side in shape
        )
        if not is_shape or not isinstance(kind, _Type) or not isinstance(content, bytes):
            raise ValueError("an array lacks a shape, type or content")
        if len(shape) > DIMENSIONS_MAXIMUM or math.prod(shape) * np.dtype(
            kind.dtype
        ).itemsize != len(content):
            raise ValueError("the size of an array does not match its content")
        flat = np.frombuffer(content, kind.dtype)
        self.value = np.array(flat.reshape(shape, order="F" if is_fortran else "C"), order="C")


def _reconstruct(*unused: object) -> _Array:
    """Return an array without values. `__setstate__` fills the array later.

    When a pickle is read, this function replaces NumPy's `_reconstruct`.
    """
    return _Array()


ALLOWED: torch_pickle.Allowed = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


def is_dictionary(data: bytes) -> bool:
    """Return whether a pickle begins with a dictionary.

    Pickles of Detectron and CIFAR-10 begin with a dictionary. PyTorch's weight files begin with a
    number or are archives.
    """
    return data[:1] == b"\x80" and data[2:3] == b"}"


def decode(data: bytes) -> dict[str, Array]:
    """Return the arrays of a weight file by name. Objects that are not arrays are skipped.

    The function raises ValueError if the file has a different format, is damaged, or contains names
    or opcodes that are not allowed. The error message is one line and does not contain the file
    name.
    """
    loaded = dictionary(data)
    blobs = loaded.get(b"blobs", loaded)
    if not isinstance(blobs, dict):
        raise ValueError("the file contains no dictionary of weights")
    arrays = {name: _plain(value) for name, value in blobs.items() if isinstance(name, bytes)}
    return {
        name.decode("ascii", "replace"): value
        for name, value in arrays.items()
        if isinstance(value, np.ndarray)
    }


def dictionary(data: bytes) -> dict[object, Any]:
    """Return the dictionary in a pickle.

    Strings of Python 2 become bytes, and top-level arrays become NumPy arrays.

    The function raises ValueError if the file has a different format, is damaged, or contains names
    or opcodes that are not allowed. The error message is one line and does not contain the file
    name.
    """
    loaded = torch_pickle.load(io.BytesIO(data), allowed=ALLOWED, encoding="bytes")
    if not isinstance(loaded, dict):
        raise ValueError("the file contains no dictionary of weights")
    return {name: _plain(value) for name, value in loaded.items()}


def _plain(value: object) -> object:
    return value.value if isinstance(value, _Array) else value
