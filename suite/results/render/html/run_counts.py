"""First sentence of the page: the number of runs and the number of successful runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from suite.launch.registered_frameworks import title_of
from suite.results.columns import Run
from suite.results.names import short_title
from suite.results.text import clean

_MAX_NAMES = 4
"""Maximum number of workloads or frameworks that the first sentence of the page lists."""

_YEAR_3000_MS = 32_503_680_000_000.0


def run_counts_text(runs: Sequence[Run]) -> str:
    """Return the first sentence of the page.

    Example: `10 runs of NCF with PyTorch on 2026-11-27: 9 succeeded, 1 failed.`
    """
    workloads = sorted({short_title(clean(run.workload, 30)) for run in runs} - {""})
    frameworks = sorted({clean(title_of(run.framework), 30) for run in runs} - {""})
    starts = [run.start_ms for run in runs if run.start_ms and 0 < run.start_ms < _YEAR_3000_MS]
    days = [_day(ms) for ms in (min(starts), max(starts))] if starts else []
    texts = [count_text(len(runs), "run")]
    if workloads:
        texts.append(f"of {_listed(workloads, 'workload')}")
    if frameworks:
        texts.append(f"with {_listed(frameworks, 'framework')}")
    if days:
        texts.append(f"on {days[0]}" if days[0] == days[1] else f"from {days[0]} to {days[1]}")
    succeeded, running = sum(run.succeeded for run in runs), sum(run.running for run in runs)
    failed = len(runs) - succeeded - running
    if succeeded == len(runs):
        return f"{' '.join(texts)}, {'successful' if succeeded == 1 else 'all successful'}."
    counts = ((succeeded, "succeeded"), (failed, "failed"), (running, "not finished"))
    return (
        f"{' '.join(texts)}: {', '.join(f'{count:,} {word}' for count, word in counts if count)}."
    )


def _day(milliseconds: float) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d}"


def _listed(names: Sequence[str], noun: str) -> str:
    """Return a list of names, or their number if there are many names.

    Examples: `MXNet and PyTorch`, `7 workloads`.
    """
    if len(names) > _MAX_NAMES:
        return count_text(len(names), noun)
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun: `1 run`, `2 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
