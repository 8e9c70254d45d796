"""Find plugins by their entry points, and import them on demand.

Workloads, frameworks, trainers, data sets, studies, and launchers are plugins. A plugin is an
installed distribution that registers its classes under the same entry-point groups as the suite.
This module contains no list of built-in classes. A workload declares its trainers in the module
`trainers` of its package. Only packages that add a framework register trainers by an entry point
(`workloads.api.trainer_info`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite.common.paths import data_root
from workloads import api, files
from workloads.api import Dataset, Trainer, Workload, find_trainer, get_trainer
from workloads.api import allowed_text as allowed_text
from workloads.api import invalid_choice as invalid_choice
from workloads.api import suggestion as suggestion
from workloads.entry_points import TRAINERS as TRAINERS
from workloads.entry_points import kind_of as kind_of
from workloads.entry_points import points
from workloads.entry_points import refresh as refresh

WORKLOADS = "suite.workloads"
FRAMEWORKS = "suite.frameworks"
DATASETS = "suite.datasets"
STUDIES = "suite.studies"
LAUNCHERS = "suite.launchers"
GENERATED = "-demo"
"""Suffix in the names of data sets that the suite generates. User-defined data sets must not use
this suffix.
"""
_LARGEST_MANIFEST = 64 << 20  # bytes


def names(group: str) -> list[str]:
    """Return the sorted names of the entry points in a group."""
    return sorted(points(group))


def module_of(group: str, name: str) -> str:
    """Return the module of an entry point without importing the module.

    The string is empty if the entry point does not exist.
    """
    point = points(group).get(name)
    return point.module if point is not None else ""


def _load(group: str, what: str, name: str) -> Any:
    registered = points(group)
    if name not in registered:
        raise invalid_choice(what, name, registered)
    return registered[name].load()


def load_workload(name: str) -> type[Workload]:
    """Return the class of a workload.

    Raises ValueError if the workload does not exist. The error lists the allowed names.
    """
    loaded: type[Workload] = _load(WORKLOADS, "workload", name)
    return loaded


def load_trainer(workload: str, framework: str) -> type[Trainer]:
    """Import a framework, and return the trainer class of a workload for this framework.

    Args:
        workload: Name of the workload.
        framework: Name of the framework.

    Raises:
        ValueError: The workload has no trainer for this framework. The error lists the allowed
            names.
    """
    loaded: type[Trainer] = get_trainer(load_workload(workload), framework).load()
    return loaded


def frameworks_of(workload: str) -> list[str]:
    """Return the sorted names of the frameworks that have a trainer for `workload`."""
    return api.frameworks_of(load_workload(workload))


def trainer_module(workload: str, framework: str) -> str:
    """Return the module of a trainer class without importing the module.

    The string is empty if the trainer does not exist, or if the workload cannot be imported.
    """
    try:
        info = find_trainer(load_workload(workload), framework)
    except Exception:  # importing a plugin can raise any exception
        return ""
    return info.module if info is not None else ""


def packages_of(workload: str, framework: str) -> set[str]:
    """Return the top-level packages that define a workload and its trainer.

    The packages are not imported.
    """
    keys = ((WORKLOADS, workload), (TRAINERS, framework))
    return {module.partition(".")[0] for group, name in keys if (module := module_of(group, name))}


def load_framework(name: str) -> Any:
    """Return the definition of a framework (`suite.launch.base.Framework`).

    Raises ValueError if the framework does not exist. The error lists the allowed names.
    """
    return _load(FRAMEWORKS, "framework", name)


def load_dataset(name: str) -> Dataset:
    """Return a data set by name.

    The data set is registered by an entry point, or it is a prepared user-defined data set.

    Raises:
        ValueError: The data set does not exist. The error lists the allowed names.
    """
    if name in points(DATASETS):
        loaded: Dataset = points(DATASETS)[name].load()()
        return loaded
    user_dataset = _user_dataset(data_root() / name)
    if user_dataset is None:
        raise invalid_choice("dataset", name, dataset_names())
    return user_dataset


def dataset_names() -> list[str]:
    """Return the sorted names of registered and user-defined data sets.

    `suite data prepare KIND --name NAME` creates a user-defined data set.
    """
    user_names = (
        path.parent.name
        for path in data_root().glob("*/manifest.json")
        if _user_dataset(path.parent)
    )
    return sorted({*points(DATASETS), *user_names})


def _user_dataset(folder: Path) -> Dataset | None:
    """Return the user-defined data set in `folder`.

    Returns None if the folder has no valid manifest of a user-defined data set.
    """
    try:
        kind = files.read_json(folder / "manifest.json", _LARGEST_MANIFEST)["options"]["kind"]
        loaded: Dataset = points(DATASETS)[kind].load()()
        return loaded.with_name(folder.name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_launcher(name: str) -> Any:
    """Return a launcher that a plugin defines (`suite.launch.launcher.Launcher`).

    Raises ValueError if the launcher does not exist. The error lists the allowed names.
    """
    return _load(LAUNCHERS, "launch", name)


def load_study(name: str) -> Any:
    """Return the description of a study that a plugin defines (`suite.common.study_file`).

    Raises ValueError if the study does not exist. The error lists the allowed names.
    """
    return _load(STUDIES, "study", name)
