"""`suite report DIR --baseline KEY=VALUE`: every result over the one that has this value, across tables.

Tables never mix devices or frameworks; here a GPU stands beside the CPU, a framework beside another, with what else differs.
"""

from __future__ import annotations

from collections.abc import Sequence

from suite.common.registry import not_allowed
from suite.results.columns import Result
from suite.results.data_table import DataTable
from suite.results.identity import (
    THROUGHPUT,
    TIME,
    differences,
    refusals,
)
from suite.results.ratios import ratio
from suite.results.scores import figure, labels
from suite.results.settings_difference import distinct_labels, named_apart, settings_difference
from suite.results.targets import targets_told
from suite.results.text import devices_text
from suite.results.views.section import Section

_COLUMNS = {"device": "device", "gpus": "devices", "framework": "framework"}
_NAMES = ("workload", "profile", "framework", "device", "devices")
_SAME = ("profile", "workload", "sample_unit", "stop")
"""What must be equal beside what `refusals` looks at."""
Baseline = tuple[str, str]
"""The key as typed and the value of the results that others are divided by."""


def parse_baseline(text: str) -> Baseline:
    """`device=cpu`, `gpus=1`, `framework=pytorch`. Raises ValueError in one line."""
    key, _, value = text.partition("=")
    if key not in _COLUMNS:
        raise not_allowed("--baseline", key, _COLUMNS)
    if not value:
        raise ValueError(f"--baseline {text}: type a value too, for example --baseline gpus=1")
    return key, value


def baseline_section(results: Sequence[Result], baseline: Baseline) -> Section:
    """A table of ratios. Raises ValueError if no result has the value."""
    key, value = baseline
    measured = [row for row in results if figure(row) is not None]
    values = [str(getattr(row, _COLUMNS[key])) for row in measured]
    if value not in values:
        raise not_allowed(f"--baseline {key}", value, set(values))
    bases = [row for row, own in zip(measured, values, strict=True) if own == value]
    words = distinct_labels(measured, [tuple(getattr(row, name) for name in _NAMES) for row in measured], _NAMES)
    over = {row.key: _base(row, bases, key) for row in measured}
    lines = [_line(row, text, *over[row.key], key) for row, text in zip(measured, words, strict=True)]
    used = list({base.key: base for base, _ in over.values() if base is not None}.values())
    if len(used) > 1:
        places = [f"{row.framework}, {devices_text(row.devices or 0, row.nodes)} ({row.device})" for row in used]
        names = dict(zip((row.key for row in used), named_apart(used, places), strict=True))
        lines = [
            line | {"divided by": names.get(base.key, "") if (base := over[row.key][0]) is not None else ""}
            for line, row in zip(lines, measured, strict=True)
        ]
    table = DataTable.from_rows(lines).without_empty()
    return Section(f"Against {key}={value}", table=table, keys=len(_NAMES) + ("differs in" in table))


def _base(row: Result, bases: Sequence[Result], key: str) -> tuple[Result | None, str]:
    """The base that a result may be compared with and differs from in least; else None, and why there is none."""
    kin = [one for one in bases if all(getattr(one, name) == getattr(row, name) for name in _SAME)]
    quantity = TIME if row.to_target else THROUGHPUT
    reasons = [next((why for of, why in refusals(row, one) if quantity in of), "") for one in kin]
    fitting = [one for one, why in zip(kin, reasons, strict=True) if not why]
    if not fitting:
        return None, next(iter(reasons), "there is no such result to divide by")
    return min(fitting, key=lambda one: (len(differences(one, row, key)), len(differences(one, row)))), ""


def _line(row: Result, words: str, base: Result | None, why: str, key: str) -> dict[str, object]:
    """A result, and its ratio to its base."""
    own, theirs = labels(row), labels(base) if base is not None else ()
    notes = (why if base is None else "; ".join(settings_difference((base, row), key).phrases()), *own)
    return {
        **{name: getattr(row, name) for name in _NAMES},
        "target": targets_told(row.targets, row.workload) if row.to_target else "",
        "differs in": words,
        "seconds": row.seconds,
        "samples_per_second": row.samples_per_second,
        "ratio": None if base is None else ratio(base, row, intervals=False).value,
        "notes": tuple(filter(None, (*notes, *(f"the other: {text}" for text in theirs if text not in own)))),
    }
