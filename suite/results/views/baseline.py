"""`suite report DIR --baseline KEY=VALUE`: ratios to a baseline across tables.

The baseline consists of the results in which the setting KEY has the value VALUE.

Each standard table of a report contains a single device type and framework. The baseline table
compares devices, such as a GPU and a CPU, or frameworks, and lists all other differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from suite.common.registry import invalid_choice
from suite.results.columns import Result
from suite.results.data_table import DataTable
from suite.results.experiment_key import THROUGHPUT, TIME, differences, incomparable_reasons
from suite.results.ratios import ratio
from suite.results.scores import figure, labels
from suite.results.settings_difference import distinct_labels, named_apart, settings_difference
from suite.results.targets import target_text
from suite.results.text import devices_text
from suite.results.views.section import Section

_FIELDS = {"device": "device", "gpus": "devices", "framework": "framework"}
"""Maps each command-line key to a field of a result."""
_KEY_COLUMNS = ("workload", "profile", "framework", "device", "devices")
"""Columns that identify a row of the baseline table."""
_MUST_BE_EQUAL = ("profile", "workload", "sample_unit", "stop")
"""Fields that must be equal in two compared results, in addition to the checks of
`incomparable_reasons`.
"""
Baseline = tuple[str, str]
"""Pair (command-line key, value) that selects the baseline results, such as `("gpus", "1")`."""


def parse_baseline(text: str) -> Baseline:
    """Parse a baseline such as `device=cpu`, `gpus=1`, or `framework=pytorch`.

    Raises:
        ValueError: The key is not allowed, or the value is missing.
    """
    key, _, value = text.partition("=")
    if key not in _FIELDS:
        raise invalid_choice("--baseline", key, _FIELDS)
    if not value:
        raise ValueError(f"--baseline {text}: expected KEY=VALUE, for example --baseline gpus=1")
    return key, value


def baseline_section(results: Sequence[Result], baseline: Baseline) -> Section:
    """Return a table of ratios to the baseline results.

    Args:
        results: All results of a report.
        baseline: Pair (key, value) that selects the baseline results.

    Raises:
        ValueError: No result has the value.
    """
    key, value = baseline
    measured = [result for result in results if figure(result) is not None]
    values = {str(getattr(result, _FIELDS[key])) for result in measured}
    if value not in values:
        raise invalid_choice(f"--baseline {key}", value, values)
    bases = [result for result in measured if str(getattr(result, _FIELDS[key])) == value]
    chosen = {result.key: _choose_base(result, bases, baseline) for result in measured}
    used = {choice.base.key: choice.base for choice in chosen.values() if choice.base is not None}
    names_of_bases = _names_of_bases(list(used.values())) if len(used) > 1 else {}
    identities = [tuple(getattr(result, name) for name in _KEY_COLUMNS) for result in measured]
    settings = distinct_labels(measured, identities, _KEY_COLUMNS)
    rows = []
    for result, text in zip(measured, settings, strict=True):
        choice = chosen[result.key]
        row = _row(result, text, choice, key)
        if names_of_bases:
            row["divided by"] = "" if choice.base is None else names_of_bases[choice.base.key]
        rows.append(row)
    table = DataTable.from_rows(rows).without_empty()
    return Section(
        f"Ratios to {key}={value}", table=table, keys=len(_KEY_COLUMNS) + ("settings" in table)
    )


class _Choice(NamedTuple):
    """The baseline result to which a result is compared."""

    base: Result | None
    why_not: str
    """Reason why no baseline result is comparable. Empty if a baseline result is comparable."""


def _choose_base(result: Result, bases: Sequence[Result], baseline: Baseline) -> _Choice:
    """Return the comparable baseline result with the fewest differences."""
    key, value = baseline
    quantity = TIME if result.to_target else THROUGHPUT
    names = ("this result", f"the result with {key}={value}")
    comparable: list[Result] = []
    reasons: list[str] = []
    for base in bases:
        if any(getattr(base, name) != getattr(result, name) for name in _MUST_BE_EQUAL):
            continue
        refused = [
            refusal.text
            for refusal in incomparable_reasons(result, base, names)
            if quantity in refusal.quantities
        ]
        if refused:
            reasons.append(refused[0])
        else:
            comparable.append(base)
    if not comparable:
        missing = f"no result with {key}={value} has the same workload, profile, and stop condition"
        return _Choice(None, reasons[0] if reasons else missing)

    def distance(base: Result) -> tuple[int, int]:
        return len(differences(base, result, key)), len(differences(base, result))

    return _Choice(min(comparable, key=distance), "")


def _names_of_bases(bases: Sequence[Result]) -> dict[str, str]:
    """Return a unique name for each baseline result: `pytorch, 1 device (cpu)`."""
    names = [
        f"{base.framework}, {devices_text(base.devices or 0, base.nodes)} ({base.device})"
        for base in bases
    ]
    return dict(zip((base.key for base in bases), named_apart(bases, names), strict=True))


def _row(result: Result, settings: str, choice: _Choice, key: str) -> dict[str, object]:
    """Return the row of a result with its ratio to the baseline.

    Args:
        result: The result.
        settings: Settings that distinguish the result from other results with the same key columns.
        choice: Baseline result to which `result` is compared.
        key: Key of the baseline. This key may differ, together with all settings that depend on it.
    """
    base = choice.base
    notes = [choice.why_not, *labels(result)]
    if base is not None:
        difference = settings_difference((base, result), key).without_derived()
        notes = [*difference.phrases(), *labels(result)]
        notes += [
            f"divided by a result with the label {text}"
            for text in labels(base)
            if text not in labels(result)
        ]
    return {
        **{name: getattr(result, name) for name in _KEY_COLUMNS},
        "target": target_text(result.targets, result.workload, result.falling_metrics)
        if result.to_target
        else "",
        "settings": settings,
        "seconds": result.seconds,
        "samples_per_second": result.samples_per_second,
        "ratio": None if base is None else ratio(base, result, intervals=False).value,
        "notes": tuple(filter(None, notes)),
    }
