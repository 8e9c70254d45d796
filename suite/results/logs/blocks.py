"""Setup and block times of a log.

They are the time until the first block, and the time of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from suite.results.logs.events import Event


class BlockTimes(NamedTuple):
    """Seconds of a run by the time stamps of its `block_start` and `block_stop` lines."""

    setup_seconds: float
    """From `run_start` to the first block: under clock v0.5 this includes building the model and
    loading the data.
    """
    block_seconds: float
    """Sum over all blocks: training and evaluation."""


def block_times(
    events: Iterable[Event], run_start: Event | None, run_stop: Event | None
) -> BlockTimes | None:
    """Return the setup and block times of a run.

    Returns None for a run without a start, an end, or a complete block.

    A block that has no `block_stop` line, because the run was interrupted in it, is not counted.
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
