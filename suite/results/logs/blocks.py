"""Setup time and block time of a log.

The setup time is the time from `run_start` to the first block. The block time is the total time of
all blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from suite.results.logs.events import Event


class BlockTimes(NamedTuple):
    """Setup and block times of a run.

    The times are computed from the `block_start` and `block_stop` records.
    """

    setup_seconds: float
    """Seconds from `run_start` to the first block. Under the v0.5 clock rule, the setup time
    includes building the model and loading the data.
    """
    block_seconds: float
    """Total seconds of all blocks, including training and evaluation."""


def block_times(
    events: Iterable[Event], run_start: Event | None, run_stop: Event | None
) -> BlockTimes | None:
    """Return the setup and block times of a run.

    The function returns None if the log has no start, no end, or no complete block.

    Interrupted blocks, which have no `block_stop` record, are not counted.
    """
    if run_start is None or run_stop is None:
        return None
    first_ms = begun_ms = None
    blocks_ms = []
    for event in events:
        if event.key == "block_start" and event.time_ms >= run_start.time_ms:
            begun_ms = event.time_ms
            first_ms = begun_ms if first_ms is None else first_ms
        elif event.key == "block_stop" and begun_ms is not None:
            blocks_ms.append(event.time_ms - begun_ms)
            begun_ms = None
    if first_ms is None or not blocks_ms or min(blocks_ms) < 0 or first_ms > run_stop.time_ms:
        return None
    return BlockTimes((first_ms - run_start.time_ms) / 1e3, math.fsum(blocks_ms) / 1e3)
