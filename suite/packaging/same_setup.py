"""Checks that runs belong to one result: one experiment (suite.results.identity), one submission, and no run twice."""

from __future__ import annotations

from collections.abc import Sequence

from suite.results.columns import row_of_record
from suite.results.identity import HYPERPARAMETERS, differences, value_text
from suite.results.logs.record import RunRecord
from suite.results.text import clean


def difference(records: Sequence[RunRecord]) -> str:
    """The first setting that must be equal and is not, with both values and their logs; empty if all are equal."""
    # Whether different commits hold the same code is looked at where the code is packed.
    for record in records[1:]:
        submission = zip(_submission(records[0]).items(), _submission(record).values(), strict=True)
        found = {name: (one, other) for (name, one), other in submission if one != other}
        found |= differences(row_of_record(records[0]), row_of_record(record))
        for name, (one, other) in found.items():
            places = f"{value_text(name, one)} in {_place(records[0])}, {value_text(name, other)} in {_place(record)}"
            return f"{clean(name.removeprefix(f'{HYPERPARAMETERS}.'))}: {places}"
    return ""


def repeated(records: Sequence[RunRecord]) -> str:
    """The names of two logs of one and the same run (start, seed and length are equal); empty if there are none."""
    seen: dict[tuple[float | None, int | None, float | None], RunRecord] = {}
    for record in records:
        first = seen.setdefault((record.start_ms, record.seed, record.seconds), record)
        if first is not record:
            return f"{_place(first)} and {_place(record)}"
    return ""


def _submission(record: RunRecord) -> dict[str, str]:
    names = {"org": record.org, "division": record.division, "status": record.submission_status}
    return {f"submission_{name}": value for name, value in {**names, "platform": record.platform}.items()}


def _place(record: RunRecord) -> str:
    return clean("/".join(record.path.parts[-3:]), 200)
