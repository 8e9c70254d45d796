"""Parse the output of srun and salloc.

Only the text that these programs print shows that the scheduler ended a step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ENDED_BY_SCHEDULER = re.compile(r"CANCELLED|DUE TO|[Rr]evoked")
"""Pattern of srun's message when SLURM ends a step, such as `*** STEP 1.0 ON node1 CANCELLED AT
… DUE TO TIME LIMIT ***`.
"""


def find_scheduler_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines that report that a scheduler ended a step or an allocation."""
    return [message for message in lines if _ENDED_BY_SCHEDULER.search(message)]
