"""Names of settings in files of earlier versions, and their names today.

Logs, `run.json` and the reasons of division open contain names of settings. Every reader of these files translates former
names with this module, so that the rest of the code uses one name.
"""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import Json

SETTINGS: Mapping[str, str] = {
    "batch_size_global": "global_batch_size",
    "linear": "linear_backend",
    "measured_by": "metric_signatures",
    "momentum_rate": "lr_in_momentum",
    "warm_up_samples": "warmup_samples",
}
"""Former name of a setting, hyperparameter, or value that follows from settings, to its name today."""
VALUES: Mapping[tuple[str, Json], Json] = {
    ("lr_in_momentum", "inside"): True,
    ("lr_in_momentum", "outside"): False,
    ("plateau", "last_warm_up_rate"): "last_warmup_rate",
    ("timing_each", "stretch"): "interval",
}
"""Name of a setting today and its former value, to its value today."""
_GROUPS = ("hyperparameters", "hyperparameter_sources", "options")
RUN_FILE: Mapping[str, str] = {"facts": "dataset_info", "typed": "overrides", "continues": "resume_from"}
"""Former key of `run.json` to its key today."""


def current_name(name: str) -> str:
    """Return the name of a setting today."""
    return SETTINGS.get(name, name)


def current_settings(values: Mapping[str, Json]) -> dict[str, Json]:
    """Return settings with the names and values of today, and so the hyperparameters and options among them."""
    renamed = {}
    for former, value in values.items():
        name = current_name(former)
        if name in _GROUPS and isinstance(value, Mapping):
            renamed[name] = current_settings(value)
        else:
            renamed[name] = VALUES.get((name, value), value) if isinstance(value, str) else value
    return renamed


def current_run_file(content: Mapping[str, Json]) -> dict[str, Json]:
    """Return the content of a `run.json` with the keys of today, and with those of its settings."""
    renamed = {RUN_FILE.get(name, name): value for name, value in content.items()}
    if isinstance(renamed.get("settings"), Mapping):
        renamed["settings"] = current_settings(renamed["settings"])
    return renamed
