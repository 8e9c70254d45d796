"""All command-line keys with their dataclass fields, for checks, help, and tab completion."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field
from typing import Any

from suite.catalog import rounds
from suite.catalog.sets import named_sets
from suite.common import conf, registry
from suite.common.run_config import RunConfig, known_fields, subgroup
from suite.common.study_file import SIZES, study_names
from workloads.api import OPTION_GROUPS, kind_of, option_keys

GROUPS = ("workload", "framework", "profile", "environment", "system")
"""Keys that select a file in conf/ or in a user's folder."""
FILE_GROUPS = (*GROUPS, "experiment")
"""`GROUPS` and `experiment`. The key `experiment` selects a file with arbitrary settings in a
user's folder.
"""
GROWING: Mapping[str, Callable[[], Iterable[str]]] = {
    "launch.by": lambda: registry.names(registry.LAUNCHERS),
    "rules": lambda: sorted(rounds.files()),
}
"""Maps a key to a function that returns the additional allowed values from packages and files."""
SHORT = {
    "timing": "timing.each",
    "launch": "launch.by",
    "update": "update.kind",
    "checkpoint": "checkpoint.when",
}
"""Maps the name of a group to the key that an override of the group sets. For example,
`timing=steps` sets `timing.each=steps`.
"""
ELSEWHERE = {
    **dict.fromkeys(("lr", "rate", "base_lr"), "workload.learning_rate={}"),
    **dict.fromkeys(("epochs", "epoch", "num_epochs"), "stop=epochs:{} workload.max_epochs={}"),
    **dict.fromkeys(
        ("batch_size", "batchsize", "bs", "global_batch_size"),
        "batch=global:{} batch=per_device:{}",
    ),
    **dict.fromkeys(
        ("steps", "max_steps", "num_steps", "iterations", "iters", "max_iters"), "stop=steps:{}"
    ),
    **dict.fromkeys(
        (
            "devices",
            "n_gpus",
            "num_gpus",
            "num_devices",
            "n_devices",
            "world_size",
            "nproc_per_node",
        ),
        "gpus={}",
    ),
    **dict.fromkeys(
        ("num_workers", "workers", "threads"), "data.threads={} cpu.threads_per_device={}"
    ),
    "argv_prefix": "environment.command_prefix={}",
    "device_draws": "workload.sample_on_device={}",
    "dtype": "precision={}",
    "link": "transport={}",
}
"""Maps a setting of other programs to overrides of the suite, in which `{}` is replaced by the
value.
"""
SYNONYMS = {
    **dict.fromkeys(("gpu", "nvidia"), "cuda"),
    **dict.fromkeys(("half", "float16"), "fp16"),
    **dict.fromkeys(("conda", "venv"), "custom"),
    "float32": "fp32",
    "bfloat16": "bf16",
    "tf": "tensorflow",
    "torch": "pytorch",
    "singularity": "apptainer",
}
"""Maps the name of a value in common frameworks to its name in the suite."""


def group_choices(group: str) -> list[str]:
    """Return the choices of a group, from files and from entry points of packages."""
    if group == "study":
        return study_names()
    entry_points = {"workload": registry.WORKLOADS, "framework": registry.FRAMEWORKS}
    return sorted(
        {
            *conf.files(group),
            *(registry.names(entry_points[group]) if group in entry_points else ()),
        }
    )


def suite_keys(kind: Any = RunConfig, prefix: str = "") -> dict[str, Field[Any]]:
    """Return the keys that every workload has, with their fields.

    An example of a key is `cpu.cores_per_device`. Keys that select a file are excluded.

    Args:
        kind: Dataclass that defines the keys.
        prefix: Prefix of the keys, such as `cpu.`.
    """
    keys: dict[str, Field[Any]] = {}
    for name, item in known_fields(kind).items():
        below = subgroup(item)
        if below is not None:
            keys |= suite_keys(below, f"{prefix}{name}.")
        elif prefix or name not in ("workload", *OPTION_GROUPS):
            keys[prefix + name] = item
    return keys


def workload_keys(workload: str) -> dict[str, Field[Any]]:
    """Return the keys of a workload with their fields, such as `workload.learning_rate`."""
    return option_keys(registry.load_workload(workload).Options)


def choices(key: str, item: Field[Any] | None, workload: str = "") -> list[str]:
    """Return the allowed values of a key, for tab completion and `glob(…)`.

    The list is empty if the allowed values cannot be listed.

    Args:
        key: Full key, such as `precision`.
        item: Field of the key, or None.
        workload: Name of the workload. The allowed values of `workload.hyperparameter_set` are the
            names of this workload's hyperparameter sets.
    """
    if key in (*GROUPS, "study"):
        return group_choices(key)
    if key == "study.size":
        return list(SIZES)
    if key == "workload.dataset":
        return registry.dataset_names()
    if key == "workload.hyperparameter_set" and workload:
        return sorted(named_sets(registry.load_workload(workload)))
    if item is None:
        return []
    found = list(
        item.metadata.get("choices") or (["true", "false"] if kind_of(item) == "bool" else [])
    )
    return [*found, *(GROWING[key]() if key in GROWING else ())]


def metrics(workload: str) -> list[str]:
    """Return the metrics for which at least one profile of a workload has a target."""
    kind, names = registry.load_workload(workload), dict[str, None]()
    for profile in ("reference", "demo", "synthetic"):
        try:
            names |= dict.fromkeys(
                kind.defaults(profile, rounds.get_round(kind.default_rules, kind), {}).targets
            )
        except ValueError:  # the workload does not have this profile
            continue
    return list(names)


def meant(key: str, value: object, available: Iterable[str]) -> str:
    """Return a suggestion for an unknown key, or an empty string.

    An example of a suggestion is ` (did you mean workload.learning_rate=0.1?)`.

    Args:
        key: The unknown key.
        value: Value of the key, for the suggested override.
        available: Keys that exist.
    """
    available = [name for name in available if not name.endswith(".name")]
    last = key.rpartition(".")[2].lower().replace("-", "_")
    suggestions = [
        word.format(value or "N")
        for word in ELSEWHERE.get(last, "").split()
        if word.partition("=")[0] in available
    ]
    if not suggestions:
        group = f"{key.rpartition('.')[0]}."
        in_group = {
            name.rpartition(".")[2]: name
            for name in reversed(available)
            if name.startswith(group) and group != "."
        }
        all_names = {name.rpartition(".")[2]: name for name in reversed(available)}
        same = [name for name in available if name.rpartition(".")[2] == last]
        close = difflib.get_close_matches(last, in_group, n=1, cutoff=0.6)
        far = difflib.get_close_matches(last, all_names, n=1, cutoff=0.7) if "." not in key else []
        suggestions = [
            f"{name}={value}"
            for name in same[:2] or [*(in_group[n] for n in close), *(all_names[n] for n in far)]
        ]
    return f" (did you mean {' or '.join(suggestions)}?)" if suggestions else ""
