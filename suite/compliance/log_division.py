"""Recompute the division of a log of this suite from the rules of its round.

The module checks the logged settings and the log keys that depend on settings. The checker of
mlperf-logging trusts `submission_division` and checks only the keys that its rule files name.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from suite.catalog.deviations import Deviation, DeviationCode, data_deviation
from suite.catalog.division import find_deviations, schedule_inputs
from suite.catalog.rounds import find_round
from suite.catalog.sets import named_sets
from suite.common import registry
from suite.common.labels import LabelKind
from suite.compliance.complaints import MISSING, Complaint
from suite.compliance.log_origin import NEVER_EDIT
from suite.compliance.logged_workload import PARTS, SHARES, logged_settings
from suite.launch.recorded_env import environment_deviations
from suite.results.logs.events import Event, number
from suite.results.logs.record import RunRecord
from suite.results.text import clean
from workloads.api import Json, Settings, Workload, fingerprints

RESUMED = Deviation(DeviationCode.RESUMED, detail="the run was resumed from a checkpoint")
_FILE_OPTIONS = ("backbone_weights",)
"""Options that contain the path or digest of a file. Notes about the data set report whether the
content of such a file is as published.
"""


class ExpectedLog(NamedTuple):
    """Content that a log must have, derived from the settings of the run."""

    deviations: tuple[Deviation, ...]
    """Reasons for the open division that follow from the settings."""
    keys: Mapping[str, Json]
    """Maps a log key to the required value."""
    about_train_samples: int
    """Approximate number of training samples, if samples that are too long were removed from the
    published data.

    The attribute is 0 if `keys` contains the exact number.
    """


def is_logged_closed(events: Sequence[Event]) -> bool:
    """Return True if the log claims the closed division."""
    return any(event.key == "submission_division" and event.value == "closed" for event in events)


def find_division_complaints(
    record: RunRecord, events: Sequence[Event], parts: Mapping[str, Json] | None
) -> Iterator[Complaint]:
    """Yield complaints if a run that claims the closed division is in the open division.

    The complaints include log keys that contradict the settings. `parts` contains `PARTS` and
    `SHARES` of the run (`logged_workload.recorded_parts`).
    """
    line = next((event.line for event in events if event.key == "submission_division"), 0)
    if parts is None:
        do = (
            "an older version of the suite wrote the log. Check it next to its run.json, or run"
            " again"
        )
        yield Complaint(
            "suite_run",
            line,
            "no hyperparameters",
            "the hyperparameters of the run, for the closed division",
            do,
        )
        return
    settings = json.dumps(logged_settings(record), default=str)
    expected = _expected_log(settings, json.dumps(parts, sort_keys=True))
    cleared = all(event.value is True for event in events if event.key == "cache_clear")
    is_verified = fingerprints.is_verified(
        record.settings.dataset, record.settings.data_fingerprint
    )
    resumed = record.resumptions > 0 or record.settings.has_label(LabelKind.RESUMED)
    found = [*expected.deviations, *environment_deviations(record.settings.environment_variables)]
    if not is_verified:
        found.append(data_deviation(fingerprints.NOT_VERIFIED))
    if not cleared:
        found.append(Deviation(DeviationCode.SETTING, "cache_clear", False, "true", [True]))
    if resumed:
        found.append(RESUMED)
    reasons = (*record.settings.deviations, *(deviation.text for deviation in found))
    needed = (
        f"settings that rules={clean(record.settings.rules, 20)} allows in the closed division"
        " (docs/explanation/open_and_closed_division.md)"
    )
    for reason in dict.fromkeys(reasons):
        do = "this is only allowed in the open division: run again without it"
        yield Complaint("submission_division", line, clean(reason, 200), needed, do)
    yield from _key_complaints(expected, events)


def _key_complaints(expected: ExpectedLog, events: Sequence[Event]) -> Iterator[Complaint]:
    for key, value in expected.keys.items():
        needed = f"{_value_text(value)}, by the settings of the run"
        of_key = [event for event in events if event.key == key]
        if not of_key:
            yield Complaint(key, 0, MISSING, needed, NEVER_EDIT)
        wrong = (event for event in of_key if event.value != value)
        yield from (
            Complaint(key, event.line, _value_text(event.value), needed, NEVER_EDIT)
            for event in wrong
        )
    about = expected.about_train_samples
    for event in events:
        count = number(event.value) if event.key == "train_samples" and about else None
        if count is not None and not about / 2 <= count <= about * 2:
            needed = f"about {about}, the published data without samples that are too long"
            yield Complaint(
                "train_samples", event.line, _value_text(event.value), needed, NEVER_EDIT
            )


@functools.lru_cache(maxsize=256)
def _expected_log(settings_json: str, parts_json: str) -> ExpectedLog:
    """Derive the required content of a log from the settings in `suite_run`.

    Both arguments are JSON strings. `parts_json` contains the run's `PARTS` and `SHARES`.
    """
    logged, parts = json.loads(settings_json), json.loads(parts_json)
    kind: type[Workload] = registry.load_workload(logged["workload"])
    settings = Settings(**logged, **{name: parts[name] for name in PARTS})
    if (closed := find_round(settings.rules, kind)) is not None:
        settings = replace(settings, round=closed.figures)
    # Without a data folder, `load_dataset_info` returns the published counts.
    dataset_info = kind.load_dataset_info(settings)
    workload = kind(settings, dataset_info)
    shares = {name: parts[name] for name in SHARES if name in parts}
    rule_inputs = {
        name: value for name, value in schedule_inputs(workload).items() if name not in SHARES
    }
    set_name = settings.hyperparameter_set
    found = []
    if set_name not in named_sets(kind):
        found.append(
            Deviation(
                DeviationCode.USER_FILE, "hyperparameter_set", sentence=_unknown_set(set_name)
            )
        )
    found += [
        *find_deviations(kind, settings),
        *find_deviations(kind, settings, **rule_inputs, **shares),
    ]
    found += map(data_deviation, dataset_info.notes)
    counts = {
        "train_samples": dataset_info.train_samples,
        "eval_samples": dataset_info.evaluation_samples,
    }
    not_compared = {*_FILE_OPTIONS, *kind.length_dependent_log_keys}
    keys = {
        key: value
        for key, value in {**workload.log_keys(), **counts}.items()
        if key not in not_compared
    }
    about = dataset_info.train_samples if "train_samples" in not_compared else 0
    return ExpectedLog(tuple(found), json.loads(json.dumps(keys)), about)


def _unknown_set(name: str) -> str:
    return f"hyperparameter set {clean(name, 60)}, not the suite's"


def _value_text(value: Json) -> str:
    return clean(json.dumps(value, ensure_ascii=False), 80)
