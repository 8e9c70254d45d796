"""Generate the text of `run_suite.py --help`.

The keys and their descriptions come from the dataclasses that define the keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Any

from suite.catalog.deviations import shown
from suite.catalog.rounds import get_round
from suite.catalog.sets import named_sets
from suite.common import registry
from suite.common.paths import data_root, env_root, log_root
from suite.common.study_file import load_study, study_names
from suite.config.key_suggestions import (
    GROUPS,
    GROWING,
    choices,
    group_choices,
    suite_keys,
    workload_keys,
)
from suite.launch.registered_frameworks import registered_frameworks
from workloads.api import OPTION_GROUPS, find_trainer, invalid_choice

HEAD = """Train workloads to a quality target and log it.

    python run_suite.py workload=ncf profile=demo              one run, no data set, no GPU
    python run_suite.py workload=ncf gpus=8                    one run on 8 devices
    python run_suite.py -m workload=ncf profile=demo gpus=1,2  a sweep, with a table at the end
    python run_suite.py workload=ncf --cfg job                 print the settings and stop
    python run_suite.py workload=ncf profile=demo --help       help, with the defaults of NCF's demo
    python run_suite.py study=batch_size study.size=ci         a study with its table and figure
"""


def help_text(overrides: Mapping[str, Sequence[str]]) -> str:
    """Return the help text, which lists groups with their choices, followed by the keys.

    Args:
        overrides: Maps each key on the command line to its values.
    """
    lines = [HEAD, "Choose (default in brackets):"]
    defaults = {
        "framework": "pytorch",
        "profile": "reference",
        "environment": "auto",
        "system": "local",
    }
    for group in GROUPS:
        default = f" [{defaults[group]}]" if group in defaults else ""
        lines.append(f"  {group}=".ljust(28) + ", ".join(group_choices(group)) + default)
    lines += [
        "",
        (
            "Studies (study=NAME, small version: study.size=ci, table and figure: suite report"
            " FOLDER):"
        ),
    ]
    lines += [f"  {name}".ljust(28) + load_study(name).sentence for name in study_names()]
    of_suite = [_line(key, item) for key, item in suite_keys().items() if not key.endswith(".name")]
    lines += ["", "Set (default in brackets):", *of_suite]
    for name in overrides.get("workload", ()):
        if name in registry.names(registry.WORKLOADS):
            profile, framework = (
                overrides.get(key, (defaults[key],))[0] for key in ("profile", "framework")
            )
            lines += [
                "",
                *_workload_keys(
                    name, profile, framework, overrides.get("workload.hyperparameter_set", ("",))[0]
                ),
            ]
    if "workload" not in overrides:
        groups = ", ".join(f"{group}.*" for group in ("workload", *OPTION_GROUPS))
        lines += ["", f"For the keys of a workload ({groups}), add: workload=NAME --help"]
    return "\n".join([*lines, "", *_variables()])


def _workload_keys(name: str, profile: str, framework: str, set_name: str) -> list[str]:
    """Return the help lines about a workload's keys, frameworks, and hyperparameter sets.

    The keys of `framework.*` are the same for all frameworks.

    Args:
        name: Name of the workload.
        profile: Profile, which determines the default values of the keys.
        framework: Framework, which determines the default hyperparameter set.
        set_name: Hyperparameter set on the command line. An empty string means the default set.
    """
    kind = registry.load_workload(name)
    try:
        defaults = kind.defaults(profile, get_round(kind.default_rules, kind), {})
    except ValueError as error:
        return [f"workload={name}: {error}"]
    sets = named_sets(kind)
    chosen_name = set_name or defaults.set_for(framework)
    if chosen_name not in sets and chosen_name:
        return [str(invalid_choice("workload.hyperparameter_set", chosen_name, sets))]
    chosen = sets.get(chosen_name)
    values = {key: item.value for key, item in chosen.items()} if chosen is not None else {}
    targets = ", ".join(f"{metric} {value:g}" for metric, value in defaults.targets.items())
    values |= {"dataset": defaults.dataset, "hyperparameter_set": chosen_name, "target": targets}
    lines = [f"Set for workload={name} (value with profile={profile} in brackets):"]
    for key, item in workload_keys(name).items():
        if key != "workload.name":
            lines.append(_line(key, item, values.get(item.name)))
    batch, unit = values.get("global_batch_size"), kind.batch_unit
    lines += (
        ["  batch=".ljust(36) + f"global batch size in {unit} [{batch}]"]
        if batch is not None
        else []
    )
    trainers = {framework: find_trainer(kind, framework) for framework in registered_frameworks()}
    offered = [
        f"{framework} ({', '.join(trainer.precisions)})"
        for framework, trainer in trainers.items()
        if trainer
    ]
    lines += ["  framework=".ljust(36) + f"{', '.join(offered)} (precisions in brackets)"]
    if chosen is not None:
        lines += ["", f"Hyperparameter set {chosen_name}, with sources:"]
        lines += [
            f"  {key} {shown(item.value)}".ljust(36) + item.source for key, item in chosen.items()
        ]
        lines += [
            "",
            (
                f"Sets of workload={name} (workload.hyperparameter_set=NAME, to add a set:"
                " docs/how-to/configure_a_run.md):"
            ),
        ]
        lines += [f"  {each}".ljust(36) + sets[each].sentence for each in sets]
    return lines


def _variables() -> list[str]:
    """Return the help lines about environment variables, with their current values."""
    rows = {
        "SUITE_LOG_DIR": f"output of runs [{log_root()}]",
        "SUITE_DATA_DIR": f"prepared data sets [{data_root()}]",
        "SUITE_ENV_DIR": f"framework environments [{env_root()}]",
        "SUITE_MINIMUM_DISK_MB": "free disk space in MB that a run needs to start [200]",
        "CUDA_VISIBLE_DEVICES": "GPUs that a run may use [all]",
    }
    return [
        "Environment variables (current value in brackets):",
        *(f"  {k}".ljust(36) + v for k, v in rows.items()),
    ]


def _line(key: str, item: Field[Any], default: object = None) -> str:
    """Return the help line of a key.

    `default` replaces the default value of the field `item`, unless `default` is None or empty.
    """
    allowed = " | ".join(choices(key, item) if key in GROWING else item.metadata.get("choices", ()))
    field_default = "" if callable(item.default_factory) else item.default
    value = field_default if default in (None, "") else default
    shown = "" if value == "" else f" [{value}]"
    return (
        f"  {key}=".ljust(36)
        + f"{item.metadata.get('help', '')}{f' ({allowed})' if allowed else ''}{shown}"
    )
