"""Finds plugins by their entry points, and imports them on demand.

Workloads, frameworks, trainers, data sets, studies, and launchers are plugins. A plugin is an
installed distribution that registers its classes in the same groups as the suite. This module has
no list of built-in classes. The trainers of a workload are declared in the module `trainers` of its
package, and only packages with a framework register them by an entry point
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
"""Suffix of the names of data sets that the suite generates. It is reserved for these data sets."""
_LARGEST_MANIFEST = 64 << 20  # bytes


def names(group: str) -> list[str]:
    """Return the sorted names that are registered in a group of entry points."""
    return sorted(points(group))


def module_of(group: str, name: str) -> str:
    """Return the module of an entry point without importing it.

    Empty if the entry point does not exist.
    """
    point = points(group).get(name)
    return point.module if point is not None else ""


def _load(group: str, what: str, name: str) -> Any:
    registered = points(group)
    if name not in registered:
        raise invalid_choice(what, name, registered)
    return registered[name].load()


def load_workload(name: str) -> type[Workload]:
    """Return the workload class with a name.

    Raises ValueError, with the allowed names, if there is no such class.
    """
    loaded: type[Workload] = _load(WORKLOADS, "workload", name)
    return loaded


def load_trainer(workload: str, framework: str) -> type[Trainer]:
    """Return the trainer class of a workload and a framework. This imports the framework.

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
    """Return the module of a trainer's class without importing it.

    Empty if there is no such trainer, or if the workload cannot be imported.
    """
    try:
        info = find_trainer(load_workload(workload), framework)
    except Exception:  # importing a plugin can raise any exception
        return ""
    return info.module if info is not None else ""


def packages_of(workload: str, framework: str) -> set[str]:
    """Return the top-level packages that declare a workload and its trainer.

    The packages are not imported.
    """
    keys = ((WORKLOADS, workload), (TRAINERS, framework))
    return {module.partition(".")[0] for group, name in keys if (module := module_of(group, name))}


def load_framework(name: str) -> Any:
    """Return the definition of a framework (`suite.launch.base.Framework`).

    Raises ValueError with the allowed names.
    """
    return _load(FRAMEWORKS, "framework", name)


def load_dataset(name: str) -> Dataset:
    """Return the data set with a name.

    It is a registered data set, or a user-defined data set that was prepared.

    Raises:
        ValueError: There is no such data set. The error lists the allowed names.
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
    """Return the user-defined data set that is prepared in `folder`.

    None if the folder has no valid manifest of such a data set.
    """
    try:
        kind = files.read_json(folder / "manifest.json", _LARGEST_MANIFEST)["options"]["kind"]
        loaded: Dataset = points(DATASETS)[kind].load()()
        return loaded.with_name(folder.name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_launcher(name: str) -> Any:
    """Return the launcher of a plugin (`suite.launch.launcher.Launcher`).

    Raises ValueError with the allowed names.
    """
    return _load(LAUNCHERS, "launch", name)


def load_study(name: str) -> Any:
    """Return the description of a plugin's study (`suite.common.study_file`).

    Raises ValueError with the allowed names.
    """
    return _load(STUDIES, "study", name)
