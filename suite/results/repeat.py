"""The command that repeats a run: what stands in its log and beside it, as words to type."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from suite.common import registry
from suite.environments import locks
from suite.results.columns import OURS
from suite.results.identity import Row, label
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean
from workloads.api import Json, LoggedSettings, option_keys

BACKBONE = "backbone.weights"


def recorded_machine(record: RunRecord) -> Mapping[str, Json]:
    """What was recorded beside a log (`versions`, `environment`, …); missing parts are empty objects."""
    run = json_object(record.path.parent / "run.json")
    return {
        "versions": _object(run.get("versions")),
        "git": _object(run.get("git")),
        "environment": clean(str(_object(run.get("environment")).get("name") or ""), 80),
        "hyperparameter_sources": _object(_object(run.get("settings")).get("hyperparameter_sources")),
        "hyperparameters": _object(_object(run.get("settings")).get("hyperparameters")),
        "options": _object(_object(run.get("settings")).get("options")),
        "oversubscribe": _object(run.get("settings")).get("oversubscribe") is True,
    }


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def typed_words(settings: RunSettings, recorded: Mapping[str, Json]) -> dict[str, str]:
    """Key to `key=value` of everything known that a command for all runs of a result sets, defaults or not; none is quoted.

    `recorded`: what `recorded_machine` read beside the log.
    """
    words: dict[str, Json] = {
        item.metadata["typed"]: value
        for item in fields(LoggedSettings)
        if item.metadata["typed"] and (value := getattr(settings, item.name)) != item.default
    }
    words["runs"] = "official"
    if settings.device == "cpu":
        words["cpu.cores_per_device"] = settings.cores_per_device
    if recorded["oversubscribe"]:
        words["oversubscribe"] = True
    if recorded["environment"] in locks.framework_locks():
        words["environment"] = recorded["environment"]
    one = len(settings.targets) == 1
    words |= {
        f"workload.target{'' if one else f'.{clean(name, 60)}'}": value for name, value in settings.targets.items()
    }
    sources, values = recorded["hyperparameter_sources"], recorded["hyperparameters"]
    if isinstance(sources, dict) and isinstance(values, dict):
        own = [name for name, source in sources.items() if source == "user" and name in values]
        words |= {f"workload.{clean(name, 60)}": clean(str(values[name]), 60) for name in own}
    options = recorded["options"]
    if isinstance(options, dict):
        keys = _option_keys(settings.workload) | {"backbone_weights": BACKBONE}
        words = {keys.get(name, f"workload.{clean(name, 60)}"): value for name, value in options.items()} | words
    return {name: clean(f"{name}={_typed(value)}", 1100) for name, value in words.items() if _typed(value)}


def _option_keys(workload: str) -> dict[str, str]:
    """Name of an option to the key that it is typed as; empty for a workload that is not installed here."""
    try:
        return {item.name: key for key, item in option_keys(registry.load_workload(workload).Options).items()}
    except ValueError:
        return {}


def _typed(value: Json) -> str:
    """A value as it is typed after `key=`; empty: none, or nothing that can be typed."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return clean(str(value), 1000) if isinstance(value, (int, float, str)) else ""


def run_next(row: Row) -> tuple[str, tuple[str, ...]]:
    """What gives a result on one number of devices a second one: a sentence, and the command below it."""
    if row.round != OURS:
        return "Give results of the same hardware on other counts (suite published list).", ()
    return "Run next:", (next_command(row, 2 * row.devices),)


def next_command(row: Row, gpus: int) -> str:
    """What repeats a result of ours on so many devices: every key that a plain command would set otherwise, quoted."""
    record = (row.runs or row.attempts)[0].record
    words = typed_words(record.settings, recorded_machine(record)) | {
        "gpus": f"gpus={gpus}",
        "stop": f"stop={row.stop}",
    }
    plain, own = _plain(row)
    words |= {key: word for key, word in own.items() if key not in words}
    first = [words.pop(key) for key in ("workload", "framework", "profile", "gpus") if key in words]
    kept = [word for key, word in words.items() if word not in plain and key not in ("runs", "environment")]
    return f"python run_suite.py {shlex.join([*first, *kept])}"


def _plain(row: Row) -> tuple[set[str], dict[str, str]]:
    """(the words that a plain command means anyway, key to word of the hyperparameters in the log that are not the set's)."""
    values: dict[str, Any] = {
        "batch": "set",
        "precision": "fp32",
        "nodes": 1,
        "cpu.cores_per_device": 1,
        "stop": "target",
    }
    own: dict[str, str] = {}
    try:
        workload = registry.load_workload(row.workload)
        defaults = workload.defaults(row.profile, row.rules, {})
    except ValueError:  # not installed here
        return {f"{key}={value}" for key, value in values.items()}, own
    chosen = {name: one.value for name, one in workload.hyperparameter_sets().get(row.hyperparameter_set, {}).items()}
    target = "workload.target" if len(defaults.targets) == 1 else "workload.target.{}"
    options = {key: getattr(workload.Options(), item.name) for key, item in option_keys(workload.Options).items()}
    values |= {
        **options,
        **{target.format(name): value for name, value in defaults.targets.items()},
        **{"rules": workload.default_rules, "rules.clock": row.rules, "lr_scaling": chosen.get("lr_scaling", "none")},
        **{"workload.dataset": defaults.dataset, "workload.hyperparameter_set": defaults.hyperparameter_set},
    }
    times = (row.batch_size_global or 0) / (chosen.get("batch_size_global") or math.inf)
    factor = {"linear": times, "sqrt": math.sqrt(times)}.get(row.lr_scaling, 1.0)
    logged = {**{label(name): value for name, value in row.hyperparameters.items()}, "max epochs": row.max_epochs}
    for name, meant in chosen.items():
        value, key = logged.get(label(name)), f"workload.{name}"
        if not isinstance(value, (int, float)) or not isinstance(meant, (int, float)) or key not in options:
            continue
        if not math.isclose(value, meant * (factor if name == "learning_rate" else 1), rel_tol=1e-6):
            own[key] = f"{key}={value}"
    return {f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()}, own
