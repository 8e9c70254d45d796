"""The values that pass between runner, workload and trainer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

Json = Any
"""A value that `json.dumps` writes: None, bool, int, float, str, list or dict of such."""

# `--help` and the Tab key do without NumPy, whose import takes longer than they do: this package imports it where it computes.
if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    Array = Any
Arrays = Mapping[str, Array]
