"""The label of runs on a busy machine, which stands beside their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suite.results.logs.collect import Run
from suite.results.logs.record import Condition
from suite.results.text import clean

BUSY = "busy machine"
QUIET = "not busy"


def machine_condition(attempts: Sequence[Run]) -> str:
    """Of the successful runs: `busy machine: others took 48 % of its cores`, or of how many of them (the worst one's reasons).

    `not busy` if all say so; empty if one does not tell, and no other was on a busy machine.
    """
    told = [run.reading.record.condition for run in attempts if run.succeeded and run.reading is not None]
    busy = [one for one in told if one is not None and one.busy]
    if not busy:
        return QUIET if told and None not in told else ""
    worst = max(busy, key=_largest_share)
    count = "" if len(told) == 1 else f" ({len(busy)} of {len(told)} runs)"
    return clean(f"{BUSY}{count}: {' and '.join(worst.busy)}", 120)


def _largest_share(one: Condition) -> float:
    return max(
        (value for name, value in one.figures.items() if name.endswith("_share") and name != "cpu_share"), default=0.0
    )


def busy_labels(condition: str) -> tuple[str, ...]:
    """`machine_condition` as labels: of a busy machine alone."""
    return (condition,) if condition.startswith(BUSY) else ()


def shared_labels(labels: Iterable[Iterable[str]]) -> list[str]:
    """Of the labels of several results those that all of them have."""
    every = [set(one) for one in labels]
    return sorted(set.intersection(*every)) if every else []


def merged_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels of several results, each once; those of busy machines, where they differ, as one `busy machine`."""
    found = dict.fromkeys(labels)
    busy = [label for label in found if label.startswith(BUSY)]
    return tuple(dict.fromkeys(BUSY if len(busy) > 1 and label in busy else label for label in found))
