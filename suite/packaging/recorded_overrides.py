"""Overrides that repeat the runs of a result on any machine.

The overrides are derived from the log and the files in its folder. Settings that equal a default
are included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from suite.common import registry
from suite.environments import locks
from suite.packaging.untrusted import Recorded
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.text import clean
from workloads.api import Json, LoggedSettings, option_keys

BACKBONE = "backbone.weights"
_OF_SETTINGS = ("hyperparameter_sources", "hyperparameters", "options")


def recorded_machine(record: RunRecord) -> dict[str, Any]:
    """Return what was recorded next to a log, such as `versions` and `environment`.

    Each key that was not recorded is mapped to an empty object.
    """
    run = Recorded.read(record.path.parent / "run.json")
    settings = run.part("settings")
    return {
        **{name: run.part(name).values for name in ("versions", "git")},
        **{name: settings.part(name).values for name in _OF_SETTINGS},
        "environment": run.part("environment").text("name"),
        "oversubscribe": settings.values.get("oversubscribe") is True,
    }


def recorded_overrides(settings: RunSettings, recorded: Mapping[str, Any]) -> dict[str, str]:
    """Map each key to an override `key=value` that repeats the runs of a result.

    The overrides include all recorded settings, even those that equal a default. The overrides are
    not quoted for a shell.

    Args:
        settings: Settings from the log.
        recorded: Return value of `recorded_machine`.
    """
    overrides: dict[str, Any] = {
        item.metadata["cli_key"]: getattr(settings, item.name) for item in fields(LoggedSettings)
    }
    defaults = {item.metadata["cli_key"]: item.default for item in fields(LoggedSettings)}
    overrides = {
        key: value for key, value in overrides.items() if key and value != defaults[key]
    } | {"runs": "official"}
    overrides |= (
        {"cpu.cores_per_device": settings.cores_per_device} if settings.device == "cpu" else {}
    )
    overrides["oversubscribe"] = recorded["oversubscribe"] or None
    overrides["environment"] = (
        recorded["environment"] if recorded["environment"] in locks.framework_locks() else None
    )
    overrides |= _targets(settings.targets)
    sources, values, options = (recorded[name] for name in _OF_SETTINGS)
    by_user = [name for name, source in sources.items() if source == "user" and name in values]
    overrides |= {f"workload.{clean(name, 60)}": clean(str(values[name]), 60) for name in by_user}
    keys = _option_keys(settings.workload) | {"backbone_weights": BACKBONE}
    overrides = {
        keys.get(name, f"workload.{clean(name, 60)}"): value for name, value in options.items()
    } | overrides
    return {
        key: clean(f"{key}={_to_text(value)}", 1100)
        for key, value in overrides.items()
        if _to_text(value)
    }


def _targets(targets: Mapping[str, float]) -> dict[str, float]:
    key = "workload.target" if len(targets) == 1 else "workload.target.{}"
    return {key.format(clean(name, 60)): value for name, value in targets.items()}


def _option_keys(workload: str) -> dict[str, str]:
    """Map the name of each workload option to its command-line key.

    The mapping is empty if the workload is not installed.
    """
    try:
        return {
            item.name: key
            for key, item in option_keys(registry.load_workload(workload).Options).items()
        }
    except ValueError:
        return {}


def _to_text(value: Json) -> str:
    """Format a setting as it is written after `key=` in an override.

    The string is empty if the setting is missing or cannot be written in an override.
    """
    if isinstance(value, bool):
        return str(value).lower()
    return clean(str(value), 1000) if isinstance(value, (int, float, str)) else ""
