"""Checks that runs belong to one result: one experiment (suite.results.identity), one submission, and no run twice."""

from collections.abc import Sequence
from itertools import combinations

from suite.results.columns import row_of_record
from suite.results.identity import HYPERPARAMETERS, differences, value_text
from suite.results.logs.record import RunRecord
from suite.results.text import clean


def difference(records: Sequence[RunRecord]) -> str:
    """The first setting that must be equal and is not, with both values and their logs; empty if all are equal."""
    earlier = records[0]  # whether different commits hold the same code is looked at where the code is packed
    for later in records[1:]:
        names = ("org", "submission_status", "platform")
        pairs = {name: (getattr(earlier, name), getattr(later, name)) for name in names}
        pairs |= differences(row_of_record(earlier), row_of_record(later))
        for name, (first, second) in pairs.items():
            if first != second:
                values = (
                    f"{value_text(name, first)} in {_place(earlier)}, {value_text(name, second)} in {_place(later)}"
                )
                return f"{clean(name.removeprefix(f'{HYPERPARAMETERS}.'))}: {values}"
    return ""


def repeated(records: Sequence[RunRecord]) -> str:
    """The names of two logs of one and the same run (start, seed and length are equal); empty if there are none."""
    for first, second in combinations(records, 2):
        if (first.start_ms, first.seed, first.seconds) == (second.start_ms, second.seed, second.seconds):
            return f"{_place(first)} and {_place(second)}"
    return ""


def _place(record: RunRecord) -> str:
    return clean("/".join(record.path.parts[-3:]), 200)
