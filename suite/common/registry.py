"""Finds workloads, frameworks, trainers, data sets, studies, and launchers by entry points, and imports them on demand.

A plugin is an installed distribution that registers its classes in the same groups as the suite. This module has no list of
built-in classes.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from suite.common.paths import data_root
from workloads import files
from workloads.api import Dataset, Trainer, Workload
from workloads.api import invalid_choice as invalid_choice
from workloads.api import suggestion as suggestion

WORKLOADS = "suite.workloads"
FRAMEWORKS = "suite.frameworks"
TRAINERS = "suite.trainers"
DATASETS = "suite.datasets"
STUDIES = "suite.studies"
LAUNCHERS = "suite.launchers"
GENERATED = "-demo"
"""Suffix of the names of data sets that the suite generates. It is reserved for these data sets."""
_LARGEST_MANIFEST = 64 << 20  # bytes


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    by_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = by_name.setdefault(point.name, point)
        if first is not point and (first_owner := _owner(first)) != (second_owner := _owner(point)):
            raise ValueError(
                f"{first_owner} and {second_owner} both define {kind_of(group)} '{point.name}'. Use only {first_owner} or "
                f"only {second_owner}"
            )
    return by_name


def _owner(point: EntryPoint) -> str:
    """Return the distribution that defines an entry point."""
    return str(point.dist.name) if point.dist is not None else point.value


def kind_of(group: str) -> str:
    """Return the kind of object in a group of entry points, such as `workload` for `suite.workloads`."""
    return "study" if group == STUDIES else group.removeprefix("suite.").removesuffix("s")


def refresh() -> None:
    """Discard the cached entry points, after the Python path has changed."""
    importlib.invalidate_caches()
    _points.cache_clear()


def names(group: str) -> list[str]:
    """Return the sorted names that are registered in a group of entry points."""
    return sorted(_points(group))


def module_of(group: str, name: str) -> str:
    """Return the module of an entry point without importing it. Empty if the entry point does not exist."""
    point = _points(group).get(name)
    return point.module if point is not None else ""


def _load(group: str, what: str, name: str) -> Any:
    points = _points(group)
    if name not in points:
        raise invalid_choice(what, name, points)
    return points[name].load()


def load_workload(name: str) -> type[Workload]:
    """Return the workload class with a name. Raises ValueError, with the allowed names, if there is no such class."""
    loaded: type[Workload] = _load(WORKLOADS, "workload", name)
    return loaded


def load_trainer(workload: str, framework: str) -> type[Trainer]:
    """Return the trainer class of a workload and a framework. This imports the framework.

    Args:
        workload: Name of the workload.
        framework: Name of the framework.

    Raises:
        ValueError: The workload has no trainer for this framework. The error lists the allowed names.
    """
    loaded: type[Trainer] = _load(TRAINERS, "trainer", f"{workload}.{framework}")
    return loaded


def packages_of(workload: str, framework: str) -> set[str]:
    """Return the top-level packages that define a workload and its trainer, without importing them."""
    keys = ((WORKLOADS, workload), (TRAINERS, f"{workload}.{framework}"))
    points = [_points(group).get(name) for group, name in keys]
    return {point.module.partition(".")[0] for point in points if point is not None}


def load_framework(name: str) -> Any:
    """Return the definition of a framework (`suite.launch.base.Framework`). Raises ValueError with the allowed names."""
    return _load(FRAMEWORKS, "framework", name)


def load_dataset(name: str) -> Dataset:
    """Return the data set with a name: a registered data set, or a user-defined data set that was prepared.

    Raises:
        ValueError: There is no such data set. The error lists the allowed names.
    """
    if name in _points(DATASETS):
        loaded: Dataset = _points(DATASETS)[name].load()()
        return loaded
    user_dataset = _user_dataset(data_root() / name)
    if user_dataset is None:
        raise invalid_choice("dataset", name, dataset_names())
    return user_dataset


def dataset_names() -> list[str]:
    """Return the sorted names of registered data sets and user-defined data sets (`suite data prepare KIND --name NAME`)."""
    user_names = (path.parent.name for path in data_root().glob("*/manifest.json") if _user_dataset(path.parent))
    return sorted({*_points(DATASETS), *user_names})


def _user_dataset(folder: Path) -> Dataset | None:
    """Return the user-defined data set that is prepared in `folder`, or None without a valid manifest of such a data set."""
    try:
        kind = files.read_json(folder / "manifest.json", _LARGEST_MANIFEST)["options"]["kind"]
        loaded: Dataset = _points(DATASETS)[kind].load()()
        return loaded.with_name(folder.name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_launcher(name: str) -> Any:
    """Return the launcher of a plugin (`suite.launch.launcher.Launcher`). Raises ValueError with the allowed names."""
    return _load(LAUNCHERS, "launch", name)


def load_study(name: str) -> Any:
    """Return the description of a plugin's study (`suite.common.study_file`). Raises ValueError with the allowed names."""
    return _load(STUDIES, "study", name)


def frameworks_of(workload: str) -> list[str]:
    """Return the sorted names of the frameworks that have a trainer for `workload`."""
    return sorted(name.partition(".")[2] for name in _points(TRAINERS) if name.partition(".")[0] == workload)
