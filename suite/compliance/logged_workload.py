"""Reconstruct the workload of a run from its log and, if available, its run.json.

The reconstructed workload determines the schedule, the log keys, and the division. If run.json is
missing, the published data counts of the workload replace the data set facts in run.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suite.catalog.former_names import current_run_file
from suite.catalog.rounds import find_round
from suite.common import registry
from suite.common.runspec import dataset_info_from_json
from suite.results.logs.events import Event, whole_number
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean
from workloads.api import DatasetInfo, Json, Settings, Workload, field_names

PARTS = ("model", "hyperparameters", "options")
"""Names of the objects in `suite_run` that, together with the settings, determine the run's
computation.
"""
SHARES = ("repeated_share", "left_out_share")
"""Keys of `suite_run` that depend on the lengths and shapes of the samples.

The published data counts do not include the lengths and shapes of samples.
"""
MAX_RUN_FILE_BYTES = 16 << 20


class NotVerifiableError(Exception):
    """Error for a check that needs data that are neither in the log nor in the files next to it.

    The error message lists the missing data.
    """


@dataclass(frozen=True)
class LoggedWorkload:
    """The reconstructed workload of a run."""

    workload: Workload
    has_recorded_facts: bool
    """True if the data set facts come from run.json, which contains the lengths and shapes of
    samples.
    """


def read_run_file(record: RunRecord) -> Mapping[str, Json]:
    """Return the content of the run.json next to a log, or an empty mapping."""
    return current_run_file(json_object(record.path.with_name("run.json"), MAX_RUN_FILE_BYTES))


def logged_settings(record: RunRecord) -> dict[str, Json]:
    """Return the settings in `suite_run` by name."""
    return {name: getattr(record.settings, name) for name in field_names(Settings, logged=True)}


def recorded_parts(events: Sequence[Event], run_file: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return `PARTS` and `SHARES` of a run, or None if any of the `PARTS` is missing.

    `PARTS` and `SHARES` are read from `suite_run`. For logs of older versions, whose `suite_run`
    lacks these keys, they are read from run.json.
    """
    logged = suite_run_value(events)
    of_run = run_file.get("settings")
    parts = {name: of_run.get(name) for name in PARTS} if isinstance(of_run, dict) else {}
    parts |= {name: logged[name] for name in (*PARTS, *SHARES) if logged.get(name) is not None}
    return parts if all(isinstance(parts.get(name), dict) for name in PARTS) else None


def suite_run_value(events: Sequence[Event]) -> Mapping[str, Json]:
    """Return the value of the first `suite_run` record, or an empty mapping."""
    values = (event.value for event in events if event.key == "suite_run")
    return next((value for value in values if isinstance(value, dict)), {})


def build_workload(
    record: RunRecord,
    events: Sequence[Event],
    run_file: Mapping[str, Json],
    parts: Mapping[str, Json],
) -> LoggedWorkload:
    """Build the workload of a run from its log.

    Raises:
        NotVerifiableError: The round of the run is not installed, and run.json does not describe
            the round.
        ValueError: The settings are impossible in a run. Settings with wrong types raise other
            exceptions.
    """
    kind = registry.load_workload(record.settings.workload)
    settings = Settings(**logged_settings(record), **{name: parts[name] for name in PARTS})
    of_run = run_file.get("settings")
    figures = of_run.get("round") if isinstance(of_run, dict) else None
    if isinstance(figures, dict) and figures.get("name") == settings.rules:
        settings = replace(settings, round=figures)
    elif (installed := find_round(settings.rules, kind)) is not None:
        settings = replace(settings, round=installed.figures)
    else:
        raise NotVerifiableError(f"round {clean(settings.rules, 40)} is not installed here")
    recorded_facts = _recorded_facts(record, run_file)
    dataset_info = replace(
        recorded_facts or kind.load_dataset_info(settings),
        train_samples=_logged_count(events, "train_samples"),
        evaluation_samples=_logged_count(events, "eval_samples"),
    )
    return LoggedWorkload(
        kind(settings, dataset_info), has_recorded_facts=recorded_facts is not None
    )


def _logged_count(events: Sequence[Event], key: str) -> int:
    count = next((whole_number(event.value) for event in events if event.key == key), None)
    if count is None or count < 0:
        raise ValueError(f"the log has no {key}")
    return count


def _recorded_facts(record: RunRecord, run_file: Mapping[str, Json]) -> DatasetInfo | None:
    """Return the data set facts in run.json.

    Returns None if run.json has no data set facts, or if the log was written with a different data
    set.
    """
    value = run_file.get("dataset_info")
    if not isinstance(value, dict) or value.get("fingerprint") != record.settings.data_fingerprint:
        return None
    arrays = value.get("arrays")
    names = arrays.values() if isinstance(arrays, dict) else ()
    # Reject names that are paths, because a path could refer to a file outside the folder.
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        return None
    dataset_info = dataset_info_from_json(value, record.path.with_name("run.json"))
    return (
        dataset_info if all(Path(path).is_file() for path in dataset_info.arrays.values()) else None
    )
