"""The command that repeats a run: what stands in its log and beside it, as words to type."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from suite.common import registry
from suite.environments import locks
from suite.results.columns import Result
from suite.results.identity import label
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean
from workloads.api import Json, LoggedSettings, option_keys, untyped

BACKBONE = "backbone.weights"
_OF_SETTINGS = ("hyperparameter_sources", "hyperparameters", "options")


def recorded_machine(record: RunRecord) -> dict[str, Any]:
    """What was recorded beside a log (`versions`, `environment`, …); missing parts are empty objects."""
    run = json_object(record.path.parent / "run.json")
    settings = _object(run, "settings")
    return {
        **{name: _object(run, name) for name in ("versions", "git")},
        **{name: _object(settings, name) for name in _OF_SETTINGS},
        "environment": clean(str(_object(run, "environment").get("name") or ""), 80),
        "oversubscribe": settings.get("oversubscribe") is True,
    }


def _object(given: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = given.get(name)
    return value if isinstance(value, dict) else {}


def typed_words(settings: RunSettings, recorded: Mapping[str, Any]) -> dict[str, str]:
    """Key to `key=value` of everything known that a command for all runs of a result sets, defaults or not; none is quoted.

    `recorded`: what `recorded_machine` read beside the log.
    """
    words: dict[str, Any] = {item.metadata["typed"]: getattr(settings, item.name) for item in fields(LoggedSettings)}
    defaults = {item.metadata["typed"]: item.default for item in fields(LoggedSettings)}
    words = {key: value for key, value in words.items() if key and value != defaults[key]} | {"runs": "official"}
    words |= {"cpu.cores_per_device": settings.cores_per_device} if settings.device == "cpu" else {}
    words["oversubscribe"] = recorded["oversubscribe"] or None
    words["environment"] = recorded["environment"] if recorded["environment"] in locks.framework_locks() else None
    words |= _targets(settings.targets)
    sources, values, options = (recorded[name] for name in _OF_SETTINGS)
    own = [name for name, source in sources.items() if source == "user" and name in values]
    words |= {f"workload.{clean(name, 60)}": clean(str(values[name]), 60) for name in own}
    keys = _option_keys(settings.workload) | {"backbone_weights": BACKBONE}
    words = {keys.get(name, f"workload.{clean(name, 60)}"): value for name, value in options.items()} | words
    return {key: clean(f"{key}={_typed(value)}", 1100) for key, value in words.items() if _typed(value)}


def _targets(targets: Mapping[str, float]) -> dict[str, float]:
    key = "workload.target" if len(targets) == 1 else "workload.target.{}"
    return {key.format(clean(name, 60)): value for name, value in targets.items()}


def _option_keys(workload: str) -> dict[str, str]:
    """Name of an option to the key that it is typed as; empty for a workload that is not installed here."""
    try:
        return {item.name: key for key, item in option_keys(registry.load_workload(workload).Options).items()}
    except ValueError:
        return {}


def _typed(value: Json) -> str:
    """A value as it is typed after `key=`; empty: none, or nothing that can be typed."""
    if isinstance(value, bool):
        return str(value).lower()
    return clean(str(value), 1000) if isinstance(value, (int, float, str)) else ""


def next_command(row: Result) -> str:
    """What repeats a result of ours on twice as many devices: every key that a plain command would set otherwise, quoted."""
    record, gpus = (row.runs or row.attempts)[0].record or RunRecord(), f"gpus={2 * (row.devices or 0)}"
    words = typed_words(record.settings, recorded_machine(record)) | {"gpus": gpus, "stop": f"stop={row.stop}"}
    plain, own = _plain(row)
    words |= {key: f"{key}={value}" for key, value in own.items() if key not in words}
    first = [words.pop(key) for key in ("workload", "framework", "profile", "gpus") if key in words]
    meant = {f"{key}={_typed(value) or value}" for key, value in plain.items()}
    rest = [word for key, word in words.items() if word not in meant and key not in ("runs", "environment")]
    return f"python run_suite.py {shlex.join([*first, *rest])}"


def _plain(row: Result) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what a plain command means anyway, the hyperparameters in the log that are not the set's), by key as typed."""
    plain = {"batch": "set", "nodes": 1, "cpu.cores_per_device": 1, "stop": "target"}
    plain |= {"precision": "fp32"} if row.device == "cpu" else {}
    try:
        workload = registry.load_workload(row.workload)
        defaults = workload.defaults(row.profile, row.rules, {})
    except ValueError:  # not installed here
        return plain, {}
    chosen = {name: one.value for name, one in workload.named_sets().get(row.hyperparameter_set, {}).items()}
    defaults_of = untyped(workload.Options)
    options = {key: defaults_of[item.name] for key, item in option_keys(workload.Options).items()}
    plain |= options | _targets(defaults.targets) | {"rules": workload.default_rules}
    plain |= {"workload.dataset": defaults.dataset, "workload.hyperparameter_set": defaults.set_for(row.framework)}
    plain["lr_scaling"] = chosen.get("lr_scaling", "none")
    times = (row.batch_size_global or 0) / (chosen.get("batch_size_global") or math.inf)
    scaled = {"learning_rate": {"linear": times, "sqrt": math.sqrt(times)}.get(row.lr_scaling, 1.0)}
    logged = {**{label(name): value for name, value in row.hyperparameters.items()}, "max epochs": row.max_epochs}
    own = dict[str, Any]()
    for name, meant in chosen.items():
        value, key = logged.get(label(name)), f"workload.{name}"
        if isinstance(value, (int, float)) and isinstance(meant, (int, float)) and key in options:
            usual = math.isclose(value, meant * scaled.get(name, 1.0), rel_tol=1e-6)
            own |= {} if usual else {key: value}
    return plain, own
