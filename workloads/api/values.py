"""Types of the values that the runner, workloads, and trainers exchange."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

Json = Any
"""Value that `json.dumps` accepts: None, bool, int, float, str, or a list or dict of such
values.
"""

# NumPy is imported only inside functions, because its import takes longer than `--help` or a tab
# completion.
if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    Array = Any
Arrays = Mapping[str, Array]
