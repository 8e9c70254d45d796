"""`suite report DIR --baseline KEY=VALUE`: every result over the one that has this value, across tables.

Tables never mix devices or frameworks; here a GPU stands beside the CPU, a framework beside another, with what else differs.
"""

from __future__ import annotations

from collections.abc import Sequence

from suite.common.registry import not_allowed
from suite.results.identity import Row, differences, differences_text, told_apart
from suite.results.ratios import ratio
from suite.results.scores import figure, labels
from suite.results.views.section import Section, frame_of, without_empty

_COLUMNS = {"device": "device", "gpus": "devices", "framework": "framework"}
_NAMES = ("workload", "profile", "framework", "device", "devices")
_SAME = ("profile", "workload", "sample_unit", "mode", "stop")
"""What must be equal for a ratio to mean anything."""
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


def baseline_section(results: Sequence[Row], baseline: Baseline) -> Section:
    """A table of ratios. Raises ValueError if no result has the value."""
    key, value = baseline
    measured = [row for row in results if figure(row) is not None]
    values = [str(getattr(row, _COLUMNS[key])) for row in measured]
    if value not in values:
        raise not_allowed(f"--baseline {key}", value, set(values))
    bases = [row for row, own in zip(measured, values, strict=True) if own == value]
    words = told_apart(measured, [tuple(getattr(row, name) for name in _NAMES) for row in measured])
    table = without_empty(frame_of(_line(row, text, bases, key) for row, text in zip(measured, words, strict=True)))
    return Section(f"Against {key}={value}", table=table, keys=len(_NAMES) + ("differs in" in table))


def _line(row: Row, words: str, bases: Sequence[Row], key: str) -> dict[str, object]:
    """A result, and its ratio to the base of the same work that differs from it in least."""
    kin = [one for one in bases if all(getattr(one, name) == getattr(row, name) for name in _SAME)]
    base = min(kin, key=lambda one: (len(differences(one, row, key)), len(differences(one, row))), default=None)
    own, theirs = labels(row), labels(base) if base is not None else ()
    else_differs = "there is no such result to divide by" if base is None else differences_text(base, row, key)
    notes = (else_differs, *own, *(f"the other: {text}" for text in theirs if text not in own))
    return {
        **{name: getattr(row, name) for name in _NAMES},
        **{"differs in": words, "seconds": row.seconds, "samples_per_second": row.samples_per_second},
        "ratio": None if base is None else ratio(base, row, intervals=False).value,
        "notes": tuple(filter(None, notes)),
    }
