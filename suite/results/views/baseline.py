"""`suite report DIR --baseline KEY=VALUE`: ratios to the results with this value, across tables.

The tables of a report never mix devices or frameworks. This table compares a GPU with a CPU, or a framework with another, and
names all further differences.
"""

from __future__ import annotations

from collections.abc import Sequence

from suite.common.registry import not_allowed
from suite.results.columns import Result
from suite.results.data_table import DataTable
from suite.results.identity import THROUGHPUT, TIME, differences, refusals
from suite.results.ratios import ratio
from suite.results.scores import figure, labels
from suite.results.settings_difference import distinct_labels, named_apart, settings_difference
from suite.results.targets import targets_told
from suite.results.text import devices_text
from suite.results.views.section import Section

_COLUMNS = {"device": "device", "gpus": "devices", "framework": "framework"}
"""Key, as a user sets it, to the field of a result."""
_NAMES = ("workload", "profile", "framework", "device", "devices")
"""Columns that name a row."""
_SAME = ("profile", "workload", "sample_unit", "stop")
"""Fields that must be equal, in addition to the checks of `refusals`."""
Baseline = tuple[str, str]
"""Key and value of the results that all results are divided by: `("gpus", "1")`."""


def parse_baseline(text: str) -> Baseline:
    """Return key and value of `device=cpu`, `gpus=1`, or `framework=pytorch`.

    Raises:
        ValueError: The key is not allowed, or the value is missing.
    """
    key, _, value = text.partition("=")
    if key not in _COLUMNS:
        raise not_allowed("--baseline", key, _COLUMNS)
    if not value:
        raise ValueError(f"--baseline {text}: expected KEY=VALUE, for example --baseline gpus=1")
    return key, value


def baseline_section(results: Sequence[Result], baseline: Baseline) -> Section:
    """Return a table of ratios to the results with a value.

    Args:
        results: All results of a report.
        baseline: Key and value.

    Raises:
        ValueError: No result has the value.
    """
    key, value = baseline
    measured = [result for result in results if figure(result) is not None]
    values = {str(getattr(result, _COLUMNS[key])) for result in measured}
    if value not in values:
        raise not_allowed(f"--baseline {key}", value, values)
    bases = [result for result in measured if str(getattr(result, _COLUMNS[key])) == value]
    names = [tuple(getattr(result, name) for name in _NAMES) for result in measured]
    settings = distinct_labels(measured, names, _NAMES)
    base_of = {result.key: _choose_base(result, bases, key) for result in measured}
    rows = [_row(result, text, *base_of[result.key], key) for result, text in zip(measured, settings, strict=True)]
    used = {base.key: base for base, _ in base_of.values() if base is not None}
    if len(used) > 1:
        places = []
        for base in used.values():
            places.append(f"{base.framework}, {devices_text(base.devices or 0, base.nodes)} ({base.device})")
        names_of_bases = dict(zip(used, named_apart(list(used.values()), places), strict=True))
        for row, result in zip(rows, measured, strict=True):
            chosen, _ = base_of[result.key]
            row["divided by"] = "" if chosen is None else names_of_bases[chosen.key]
    table = DataTable.from_rows(rows).without_empty()
    return Section(f"Ratios to {key}={value}", table=table, keys=len(_NAMES) + ("settings" in table))


def _choose_base(result: Result, bases: Sequence[Result], key: str) -> tuple[Result | None, str]:
    """Return the comparable base with the fewest differences; or None, and why no base is comparable."""
    quantity = TIME if result.to_target else THROUGHPUT
    fitting, reasons = [], []
    for base in bases:
        if any(getattr(base, name) != getattr(result, name) for name in _SAME):
            continue
        names = ("the result", f"the result with this {key}")
        refused = [refusal.text for refusal in refusals(result, base, names) if quantity in refusal.quantities]
        if refused:
            reasons.append(refused[0])
        else:
            fitting.append(base)
    if not fitting:
        return None, reasons[0] if reasons else f"no result with this {key} is comparable"
    return min(fitting, key=lambda base: (len(differences(base, result, key)), len(differences(base, result)))), ""


def _row(result: Result, settings: str, base: Result | None, reason: str, key: str) -> dict[str, object]:
    """Return the row of a result with its ratio to its base."""
    notes = [reason, *labels(result)]
    if base is not None:
        difference = settings_difference((base, result), key).without_derived()
        notes = [*difference.phrases(), *labels(result)]
        notes += [f"divided by a result with the label {text}" for text in labels(base) if text not in labels(result)]
    return {
        **{name: getattr(result, name) for name in _NAMES},
        "target": targets_told(result.targets, result.workload) if result.to_target else "",
        "settings": settings,
        "seconds": result.seconds,
        "samples_per_second": result.samples_per_second,
        "ratio": None if base is None else ratio(base, result, intervals=False).value,
        "notes": tuple(filter(None, notes)),
    }
