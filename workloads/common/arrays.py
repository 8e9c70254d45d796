"""Names for array types, and access to memory-mapped files and ragged arrays.

A ragged array stores groups of rows consecutively.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
UInt8s = npt.NDArray[np.uint8]
UInt16s = npt.NDArray[np.uint16]
Integers = npt.NDArray[np.integer]
"""Array of integers of any width."""
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]


def mapped(path: Path, dtype: str | tuple[str, ...], count: int | None = None) -> npt.NDArray[Any]:
    """Map an .npy file into memory.

    Args:
        path: Path of the file.
        dtype: Expected dtype, or several allowed dtypes.
        count: Expected number of elements of a one-dimensional array. With None, any shape is
            allowed.

    Raises:
        ValueError: The file is missing, or contains an array of a different dtype or shape.
    """
    dtypes = (dtype,) if isinstance(dtype, str) else dtype
    try:
        array = np.load(path, mmap_mode="r" if count != 0 else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"{path}: cannot be read as a NumPy array ({error}). Prepare the data again"
        ) from None
    if str(array.dtype) not in dtypes or (count is not None and array.shape != (count,)):
        wanted = " or ".join(dtypes) + ("" if count is None else f" ({count},)")
        raise ValueError(
            f"{path}: expected {wanted}, got {array.dtype} {array.shape}. Prepare the data again"
        )
    return np.asarray(array.view(np.ndarray))


def rows_of(ends: Int64s, groups: Int64s) -> tuple[Int64s, ...]:
    """Return the row indices of groups, and the end offset of each group in the result.

    Group g consists of the rows ends[g - 1] … ends[g] - 1.
    """
    starts = np.where(groups > 0, ends[groups - 1], 0) if len(ends) else np.zeros(0, np.int64)
    counts = ends[groups] - starts
    taken_ends = np.cumsum(counts)
    total = int(taken_ends[-1]) if len(taken_ends) else 0
    return np.arange(total) + np.repeat(starts - (taken_ends - counts), counts), taken_ends
