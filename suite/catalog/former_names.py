"""Former names of settings in files of earlier versions, with their current names.

Logs, `run.json`, and the reasons for the open division contain names of settings. Every reader of
these files uses this module to translate former names, so the rest of the code uses current names
only.
"""

from __future__ import annotations

from collections.abc import Mapping

from workloads.api import Json

SETTINGS: Mapping[str, str] = {
    "batch_size_global": "global_batch_size",
    "device_draws": "sample_on_device",
    "linear": "linear_backend",
    "link": "transport",
    "measured_by": "metric_signatures",
    "momentum_rate": "lr_in_momentum",
    "warm_up_samples": "warmup_samples",
}
"""Maps the former name of a setting, hyperparameter, or derived value to the current name."""
VALUES: Mapping[tuple[str, Json], Json] = {
    ("batch_rule", "set"): "default",
    ("lr_in_momentum", "inside"): True,
    ("lr_in_momentum", "outside"): False,
    ("plateau", "last_warm_up_rate"): "last_warmup_rate",
    ("timing_each", "stretch"): "interval",
}
"""Maps a pair (current name of a setting, value in an earlier version) to the current value."""
_GROUPS = ("hyperparameters", "hyperparameter_sources", "options")
RUN_FILE: Mapping[str, str] = {
    "facts": "dataset_info",
    "typed": "overrides",
    "continues": "resume_from",
}
"""Maps a former key of `run.json` to the current key."""


def current_name(name: str) -> str:
    """Return the current name of a setting, given its current or former name."""
    return SETTINGS.get(name, name)


def current_settings(values: Mapping[str, Json]) -> dict[str, Json]:
    """Return a copy of the settings with current names and values.

    Hyperparameters and options inside the settings are also translated.
    """
    renamed = {}
    for former, value in values.items():
        name = current_name(former)
        if name in _GROUPS and isinstance(value, Mapping):
            renamed[name] = current_settings(value)
        else:
            renamed[name] = VALUES.get((name, value), value) if isinstance(value, str) else value
    return renamed


def current_run_file(content: Mapping[str, Json]) -> dict[str, Json]:
    """Return the content of a `run.json` with current keys and setting names."""
    renamed = {RUN_FILE.get(name, name): value for name, value in content.items()}
    if isinstance(renamed.get("settings"), Mapping):
        renamed["settings"] = current_settings(renamed["settings"])
    return renamed
