"""Format the resolved settings of a job as YAML, for `--cfg job`.

Null and `auto` are replaced by values from the hyperparameter set, the profile, or the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import yaml

from suite.common.registry import invalid_choice
from suite.common.run_config import RunConfig
from suite.common.terminal import clean_lines
from suite.plan.jobs import plan
from workloads.api import Settings, option_keys


def settings_text(config: RunConfig, package: str = "") -> str:
    """Return the settings of a job as YAML.

    Args:
        config: The composed configuration of the job.
        package: Key of the group or value to return, such as `workload`. If empty, all settings are
            returned.

    Raises:
        ValueError: The settings are invalid, or `package` does not exist.
    """
    _, findings, draft, notes = plan(config)
    if draft is None:
        raise findings[-1]
    for note in notes:
        print(clean_lines(note), file=sys.stderr)
    shown: Any = _resolved(config, draft.settings, option_keys(draft.workload.Options))
    for part in package.split(".") if package else ():
        if not isinstance(shown, Mapping) or part not in shown:
            raise invalid_choice("--package", package, shown if isinstance(shown, Mapping) else ())
        shown = shown[part]
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)


def _resolved(config: RunConfig, settings: Settings, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with resolved values in place of null, `auto`, and `default`."""
    shown = asdict(config)
    values = {item.metadata["cli_key"]: getattr(settings, item.name) for item in fields(Settings)}
    resolved = {**settings.options, **settings.hyperparameters}
    values |= {key: resolved[item.name] for key, item in options.items() if item.name in resolved}
    targets = dict(settings.targets)
    values["workload.target"] = (
        next(iter(targets.values())) if len(targets) == 1 else targets or None
    )
    for key, value in values.items():
        group, _, name = key.partition(".")
        if isinstance(shown.get(group), dict):
            if not name or name in shown[group]:
                shown[group][name or "name"] = value
        elif group in shown:
            shown[group] = value
    return shown
