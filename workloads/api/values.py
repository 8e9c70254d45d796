"""The values that pass between runner, workload and trainer."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

Json = Any
"""A value that `json.dumps` writes: None, bool, int, float, str, list or dict of such."""

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
