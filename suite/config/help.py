"""`run_suite.py --help`: every key with what it means, from the dataclasses that define it."""

from __future__ import annotations

from dataclasses import Field
from typing import Any

from suite.common import registry
from suite.common.study import load_study, study_names
from suite.config.options import SuiteConfig, known_fields, subgroup
from suite.config.overrides import GROUPS, group_choices
from workloads.api import OPTION_GROUPS, option_keys

HEAD = """Train workloads to a quality target and log it.

    python run_suite.py workload=ncf profile=demo                    one run, no data set, no GPU
    python run_suite.py workload=ncf gpus=8                          one run on 8 devices
    python run_suite.py -m workload=ncf profile=demo gpus=1,2        a sweep; a table at its end
    python run_suite.py workload=ncf --cfg job                       print the settings and stop
    python run_suite.py study=batch_size study.size=ci               an experiment: its jobs, its table, its figure
"""


def help_text() -> str:
    """What can be chosen, then what can be set."""
    lines = [HEAD, "Choose:"]
    lines += [f"  {group}=".ljust(28) + ", ".join(group_choices(group)) for group in GROUPS]
    lines += [
        "",
        "Studies (study=NAME; study.size=ci for two small points; suite report FOLDER makes table and figure):",
    ]
    lines += [f"  {name}".ljust(28) + load_study(name).sentence for name in study_names()]
    lines += ["", "Set (default in brackets):"]
    return "\n".join([*lines, *_keys("", SuiteConfig), "", *_shared_keys()])


def _shared_keys() -> list[str]:
    """Keys outside `workload` that some workloads have, with their names."""
    owners: dict[str, list[str]] = {}
    found: dict[str, Field[Any]] = {}
    for name in registry.names(registry.WORKLOADS):
        for key, item in option_keys(registry.load_workload(name).Options).items():
            if key.partition(".")[0] in OPTION_GROUPS:
                owners.setdefault(key, []).append(name)
                found[key] = item
    return ["Of some workloads:", *(_line(key, item, f" ({', '.join(owners[key])})") for key, item in found.items())]


def _line(key: str, item: Field[Any], after: str = "") -> str:
    allowed = " | ".join(item.metadata.get("choices", ()))
    default = "" if callable(item.default_factory) else f" [{item.default}]"
    text = f"{item.metadata['text']}{f' ({allowed})' if allowed else ''}{default}"
    return f"  {key}=".ljust(36) + text + after


def _keys(prefix: str, kind: Any) -> list[str]:
    lines = []
    for name, item in known_fields(kind).items():
        below = subgroup(item)
        if below is not None:
            lines += [line for line in _keys(f"{prefix}{name}.", below) if ".name=" not in line]
        elif prefix or name not in (*GROUPS, *OPTION_GROUPS):
            lines.append(_line(f"{prefix}{name}", item))
    return lines
