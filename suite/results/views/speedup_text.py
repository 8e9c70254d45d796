"""Sentences about a speedup: its size, its factors, and its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from suite.results.ratios import MINIMUM_RUNS, SAME_EPOCHS, Ratio, ratio_text
from suite.results.text import time_text

AS_FAST = "as fast"
NOT_SEPARATED = "These logs do not separate setup from training, so time per epoch includes it."


def times_text(ratio: float) -> str:
    """Format a ratio: `1.06× faster`, `1.28× slower`, `as fast`."""
    amount = ratio_text(max(ratio, 1 / ratio))
    return AS_FAST if amount == "1.00" else f"{amount}× {'faster' if ratio > 1 else 'slower'}"


def describe(speedup: Ratio) -> str:
    """Return a speedup and its factors as a phrase.

    Example: `1.24× faster to target with the same number of epochs. Epochs …`
    """
    if speedup.value is None:
        return "not measured."
    if speedup.total is None:
        return (
            f"{ratio_text(speedup.value)}× in samples per second. These runs have a fixed length"
            " and no target."
        )
    epochs = f" {_epochs_text(speedup)}" if speedup.efficiency is not None else ""
    return " ".join((f"{times_text(speedup.total)} to target{epochs}.", *speedup_details(speedup)))


def speedup_headline(speedup: Ratio) -> str:
    """Return the main sentence on a speedup.

    Example: `1 → 2 devices: 2.10× faster to target with the same number of epochs.`
    """
    where = f"{speedup.places} devices"
    if speedup.value is None:
        return f"{where}: not measured."
    if speedup.total is None:
        return (
            f"{where}: {ratio_text(speedup.value)}× the samples per second. These runs have a fixed"
            " length and no target."
        )
    interval = speedup.interval
    sure = (
        f" (95 % confidence interval {ratio_text(interval.low)} to {ratio_text(interval.high)})"
        if interval
        else ""
    )
    epochs = f" {_epochs_text(speedup)}" if speedup.efficiency is not None else ""
    times = times_text(speedup.total)
    claim = "the same time to target" if times == AS_FAST else f"{times} to target"
    return f"{where}: {claim}{sure}{epochs}."


def speedup_details(speedup: Ratio) -> Iterator[str]:
    """Yield the sentences on the factors of a speedup."""
    if speedup.total is None:
        return
    parts = []
    if speedup.rate is not None:
        parts.append(f"samples per second in training {ratio_text(speedup.rate)}×")
    if speedup.throughput is not None:
        times = times_text(speedup.throughput)
        parts.append(
            "time per epoch unchanged"
            if times == AS_FAST
            else f"whole epochs {times}, evaluation included"
        )
    if parts:
        text = ", ".join(parts)
        yield f"{text[:1].upper()}{text[1:]}."
    if speedup.setup_explains_much:
        yield setup_sentence(speedup)
    factors = [result.scaling_factor or 1.0 for result in (speedup.before, speedup.after)]
    if not math.isclose(*factors, rel_tol=1e-6):  # The published files contain rounded factors.
        yield (
            f"The times are multiplied by the scaling factors {factors[0]:.6g} and"
            f" {factors[1]:.6g}."
        )


def setup_sentence(speedup: Ratio) -> str:
    """Return a sentence on how much of the difference in time is due to setup.

    The components of the time must be available for both results.
    """
    before, after = speedup.before.parts, speedup.after.parts
    assert before is not None
    assert after is not None
    change = "fell" if after.setup < before.setup else "rose"
    moved = f"Setup {change} from {time_text(before.setup)} to {time_text(after.setup)}"
    share = speedup.setup_saving
    if share is None or share < 0 or share > 1:
        without = (before.total - before.setup) / (after.total - after.setup)
        return f"{moved}. Without setup: {times_text(without)}."
    return f"{moved}, which explains {100 * share:.0f} % of the difference."


def interval_sentence(speedups: Iterable[Ratio]) -> str:
    """Return a sentence on why speedups have no confidence interval.

    The text is empty if all speedups have an interval.
    """
    without = [
        speedup for speedup in speedups if speedup.interval is None and speedup.value is not None
    ]
    if not without:
        return ""
    results = {
        result.key: result for speedup in without for result in (speedup.before, speedup.after)
    }.values()
    counts = {len(result.runs) for result in results if not result.single_figure}
    if counts == {1}:
        remedy = f"Add runs={MINIMUM_RUNS} to the command to measure the variation between runs"
        return f"One run per row: no confidence interval. {remedy}."
    reasons = dict.fromkeys(speedup.no_interval for speedup in without if speedup.no_interval)
    return f"No confidence interval: {'; '.join(reasons)}." if reasons else ""


def _epochs_text(speedup: Ratio) -> str:
    """Return how the number of epochs (or samples) changed. The ratio of both numbers is known.

    Examples: `with the same number of epochs`, `with 1.20× as many epochs`.
    """
    unit, efficiency = speedup.after.epoch_unit, speedup.efficiency
    assert efficiency is not None
    if abs(efficiency - 1) < SAME_EPOCHS:
        return f"with the same number of {unit}"
    return f"with {ratio_text(1 / efficiency)}× as many {unit}"
