"""Checks that runs belong to one result: same system, framework, batch and settings, and no run twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from suite.results.logs.record import RunRecord, RunSettings
from suite.results.text import clean
from workloads.api import Json, field_names


def difference(records: Sequence[RunRecord]) -> str:
    """The first setting that must be equal and is not, with both values and their logs; empty if all are equal."""
    first = _facts(records[0])
    for record in records[1:]:
        other = _facts(record)
        for name in first | other:
            if first.get(name) != other.get(name):
                one, two = _shown(first.get(name)), _shown(other.get(name))
                return f"{name}: {one} in {_place(records[0])}, {two} in {_place(record)}"
    return ""


def repeated(records: Sequence[RunRecord]) -> str:
    """The names of two logs of one and the same run (start and seed are equal); empty if there are none."""
    seen: dict[tuple[float | None, int | None, float | None], RunRecord] = {}
    for record in records:
        key = (record.start_ms, record.seed, record.seconds)
        if key in seen:
            return f"{_place(seen[key])} and {_place(record)}"
        seen[key] = record
    return ""


def _facts(record: RunRecord) -> dict[str, Json]:
    # Whether different commits hold the same code is looked at where the code is packed.
    settings = {name: asdict(record.settings)[name] for name in field_names(RunSettings, row=True)}
    logged = {key: value for key, value in record.hyperparameters.items() if key.startswith(("opt_", "model_"))}
    identity = {
        "submission_org": record.org,
        "submission_division": record.division,
        "submission_status": record.submission_status,
        "submission_platform": record.platform,
    }
    return {**identity, **settings, **logged}


def _shown(value: Json) -> str:
    return clean(json.dumps(value, ensure_ascii=False, default=str), 80)


def _place(record: RunRecord) -> str:
    return clean("/".join(record.path.parts[-3:]), 200)
