"""`suite report DIR --baseline KEY=VALUE`: every result over the one that has this value, across tables.

Tables never mix devices or frameworks; here a GPU stands beside the CPU, a framework beside another, with what else differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.common.registry import not_allowed
from suite.results.identity import Row, differences, differences_text, told_apart
from suite.results.ratios import ratio
from suite.results.scores import figure, labels
from suite.results.views.section import Section, frame_of, without_empty

_COLUMNS = {"device": "device", "gpus": "devices", "framework": "framework"}
_NAMES = ("workload", "profile", "framework", "device", "devices")
_SAME = ("profile", "workload", "sample_unit", "mode", "stop")
"""What must be equal for a ratio to mean anything."""


@dataclass(frozen=True)
class Baseline:
    """The results that others are divided by."""

    key: str
    value: str

    def fits(self, row: Row) -> bool:
        """True for a row that has the value."""
        return str(getattr(row, _COLUMNS[self.key])) == self.value


def parse_baseline(text: str) -> Baseline:
    """`device=cpu`, `gpus=1`, `framework=pytorch`. Raises ValueError in one line."""
    key, _, value = text.partition("=")
    if key not in _COLUMNS:
        raise not_allowed("--baseline", key, _COLUMNS)
    if not value:
        raise ValueError(f"--baseline {text}: type a value too, for example --baseline gpus=1")
    return Baseline(key, value)


def baseline_section(results: Sequence[Row], baseline: Baseline) -> Section:
    """A table of ratios. Raises ValueError if no result has the value."""
    measured = [row for row in results if figure(row) is not None]
    bases = [row for row in measured if baseline.fits(row)]
    if not bases:
        there = sorted({str(getattr(row, _COLUMNS[baseline.key])) for row in measured})
        raise not_allowed(f"--baseline {baseline.key}", baseline.value, there)
    names = [tuple(getattr(row, name) for name in _NAMES) for row in measured]
    words = told_apart(measured, names)
    lines = [_line(row, text, bases, baseline) for row, text in zip(measured, words, strict=True)]
    table = without_empty(frame_of(lines))
    title = f"Against {baseline.key}={baseline.value}"
    return Section(title, table=table, keys=len(_NAMES) + ("differs in" in table))


def _line(row: Row, words: str, bases: Sequence[Row], baseline: Baseline) -> dict[str, object]:
    """A result, and its ratio to the base of the same work that differs from it in least."""
    kin = [one for one in bases if all(getattr(one, name) == getattr(row, name) for name in _SAME)]
    base = min(
        kin, key=lambda one: (len(differences(one, row, baseline.key)), len(differences(one, row))), default=None
    )
    notes = ["there is no such result to divide by"] if base is None else []
    notes += [differences_text(base, row, baseline.key)] if base is not None else []
    own, theirs = labels(row), labels(base) if base is not None else ()
    notes += [*own, *(f"the other: {text}" for text in theirs if text not in own)]
    return {
        **{name: getattr(row, name) for name in _NAMES},
        "differs in": words,
        "seconds": row.seconds,
        "samples_per_second": row.samples_per_second,
        "ratio": None if base is None else ratio(base, row, intervals=False).value,
        "notes": tuple(note for note in notes if note),
    }
