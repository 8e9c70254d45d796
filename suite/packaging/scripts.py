"""Writes `setup.sh` and `run_and_time.sh` of a package, which reproduce the environment and the runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from suite.common import registry
from suite.environments import locks
from suite.results.logs.record import RunSettings
from suite.results.text import clean
from workloads.api import Json, LoggedSettings, option_keys

BACKBONE = "backbone.weights"
_BACKBONE = f'{BACKBONE}="${{BACKBONE_WEIGHTS:?the path of the file that backbone_weights in the log names}}"'
"""In place of the submitter's own path, which is worth nothing elsewhere."""


def write_scripts(folder: Path, settings: RunSettings, recorded: Mapping[str, Json]) -> None:
    """Write both scripts. `recorded`: what `recorded_machine` read beside the log."""
    _script(folder / "setup.sh", _setup(str(recorded["environment"])))
    _script(folder / "run_and_time.sh", _run(settings, recorded))


def _script(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(["#!/usr/bin/env bash", "set -euo pipefail", 'cd "$(dirname "$0")/source"', *lines, ""]))
    path.chmod(0o755)


def _setup(environment: str) -> list[str]:
    if environment not in locks.framework_locks():
        return [
            "make .venv/.ready",
            "# the runs used an environment of the user's own: its versions stand in systems/*.json",
        ]
    return ["make .venv/.ready", f".venv/bin/python -m suite.cli env create {shlex.quote(environment)}"]


def _run(settings: RunSettings, recorded: Mapping[str, Json]) -> list[str]:
    """One command for all runs. Text of a log is quoted: it is an argument, never a command."""
    words = typed_words(settings, recorded)
    arguments = [shlex.quote(word) for key, word in words.items() if key != BACKBONE]
    arguments += [_BACKBONE] if BACKBONE in words else []
    return [".venv/bin/python run_suite.py \\", *[f"  {word} \\" for word in arguments], '  "$@"']


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
