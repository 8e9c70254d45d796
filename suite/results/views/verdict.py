"""Verdicts of a comparison: a ratio as a sentence that claims no more than the runs support (docs/comparing.md)."""

from __future__ import annotations

from typing import Any

from suite.results.columns import Result
from suite.results.identity import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME
from suite.results.ratios import SIGNIFICANCE, ratio_text
from suite.results.scores import failures
from suite.results.text import rate_text, time_text

QUANTITIES = {
    TIME: ("seconds", "total", "s", "took", "{better} is {times} faster"),
    EPOCH_TIME: ("seconds_per_epoch", "throughput", "s", "took", "{better} is {times} faster in each epoch"),
    EPOCHS: ("epochs", "efficiency", "epochs", "needed", "{worse} needs {times} as many epochs"),
    THROUGHPUT: ("samples_per_second", "rate", "samples/s", "trained", "{better} trains {times} as many samples/s"),
}
"""Quantity to its column, its name in a Ratio, its unit, a verb, and the form of a claim."""
Line = dict[str, Any]
"""A row of the data of a comparison."""


def _p_text(p: float) -> str:
    return "p < 0.001" if p < 0.0005 else f"p = {p:.3f}"


def figure_in(unit: str, value: float) -> str:
    """Return a figure of a quantity with its unit."""
    return time_text(value) if unit == "s" else f"{value:,.1f}" if unit == "epochs" else f"{rate_text(value)} {unit}"


def verdict(line: Line, names: tuple[str, str], rows: tuple[Result, Result], smallest: float) -> str:
    """Return the verdict on a quantity. If failed runs leave a side without an official score, no side is called better.

    Args:
        line: Row of the data of the comparison.
        names: Names of the two sides.
        rows: Results of the two sides.
        smallest: The smallest p value that this many runs can give.
    """
    of_successes = _of_successes(line, names, smallest)
    failed = [(name, *failures(row)) for name, row in zip(names, rows, strict=True) if row.runs_failed]
    if not failed or line["quantity"] == THROUGHPUT:
        return of_successes
    told = " and ".join(f"{runs} of {name}" for name, runs, _ in failed)
    without = " and ".join(name for name, _, scored in failed if not scored)
    if not without:
        return f"{of_successes}; {told} failed{'' if line['p'] is None else ' and do not count in p'}"
    return f"{_figures(line, names)[0]}; {told} failed, so {without} has no official score and neither side is called better"


def _figures(line: Line, names: tuple[str, str]) -> tuple[str, str, str, bool]:
    """Return both figures as text, the better side, the worse side, and whether the figures are equal."""
    value, (_, _, unit, verb, _) = line["ratio"], QUANTITIES[line["quantity"]]
    texts = [figure_in(unit, line[name]) for name in ("ours_value", "theirs_value")]
    (better, good), (worse, bad) = list(zip(names, texts, strict=True))[:: 1 if value >= 1 else -1]
    equal = good == bad and ratio_text(value) == "1.00"
    successes_text = f"no difference ({good} each)" if equal else f"{better} {verb} {good}, {worse} {bad}"
    return successes_text, better, worse, equal


def _of_successes(line: Line, names: tuple[str, str], smallest: float) -> str:
    """Return the verdict on the successful runs. It claims a difference only if the runs show it."""
    p, value, runs = line["p"], line["ratio"], (line["runs_ours"], line["runs_theirs"])
    claim = QUANTITIES[line["quantity"]][-1]
    said, better, worse, equal = _figures(line, names)
    if 1 in runs and None not in runs:
        count = "one run per side is" if runs == (1, 1) else f"one run against {max(runs)} is"
        return f"{said}; {count} too few to judge"
    if p is None:
        return f"{said}; the single runs are unknown"
    ends = sorted(end if value >= 1 else 1 / end for end in (line.get("ratio_low"), line.get("ratio_high")) if end)
    between = f" (95 %: {ratio_text(ends[0])} to {ratio_text(ends[1])})" if ends else ""
    chance = f"more than run-to-run variation ({_p_text(p)}, {runs[0]} against {runs[1]} runs)"
    times = f"{ratio_text(max(value, 1 / value))} times"
    if p < SIGNIFICANCE and not (ends and ends[0] <= 1):
        if times == "1.00 times":
            return said if equal else f"less than 0.5 % apart: {said}"
        return f"{claim.format(better=better, worse=worse, times=times)}{between}, {chance}"
    if equal:
        return said
    why = f"not {chance}" if p >= SIGNIFICANCE else f"{_p_text(p)}, but the interval includes 1"
    if smallest >= SIGNIFICANCE:
        why = f"{runs[0]} against {runs[1]} runs are too few to judge (the smallest possible p is {smallest:.2g})"
    return f"no difference shown: {said}{between}; {why}"
