"""Finds workloads, frameworks, trainers, data sets, studies and launchers by entry points, imported only when asked.

A plugin is an installed distribution that names its classes under the same groups; nothing here lists the built-in ones.
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
from workloads.api import nearest as nearest
from workloads.api import not_allowed as not_allowed

WORKLOADS = "suite.workloads"
FRAMEWORKS = "suite.frameworks"
TRAINERS = "suite.trainers"
DATASETS = "suite.datasets"
STUDIES = "suite.studies"
LAUNCHERS = "suite.launchers"
GENERATED = "-demo"
"""Ends the names of data sets that the suite generates, and no others."""
_LARGEST_MANIFEST = 64 << 20  # bytes


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    by_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = by_name.setdefault(point.name, point)
        if first is not point and (owner := _owner(first)) != (other := _owner(point)):
            raise ValueError(f"{owner} and {other} both define {kind_of(group)} '{point.name}'; leave one of them out")
    return by_name


def _owner(point: EntryPoint) -> str:
    """The distribution that defines it."""
    return str(point.dist.name) if point.dist is not None else point.value


def kind_of(group: str) -> str:
    """What a group of entry points holds: `workload` of `suite.workloads`."""
    return "study" if group == STUDIES else group.removeprefix("suite.").removesuffix("s")


def refresh() -> None:
    """Look for entry points anew: the Python path has changed."""
    importlib.invalidate_caches()
    _points.cache_clear()


def names(group: str) -> list[str]:
    """Sorted names that are registered under an entry-point group."""
    return sorted(_points(group))


def module_of(group: str, name: str) -> str:
    """Return the module that an entry point names, without importing it. Empty if there is no such entry point."""
    point = _points(group).get(name)
    return point.module if point is not None else ""


def _load(group: str, what: str, name: str) -> Any:
    points = _points(group)
    if name not in points:
        raise not_allowed(what, name, points)
    return points[name].load()


def load_workload(name: str) -> type[Workload]:
    """The workload class called `name`. Raises ValueError with the allowed names."""
    loaded: type[Workload] = _load(WORKLOADS, "workload", name)
    return loaded


def load_trainer(workload: str, framework: str) -> type[Trainer]:
    """The trainer class for a workload and framework; imports the framework. Raises ValueError if there is none."""
    loaded: type[Trainer] = _load(TRAINERS, "trainer", f"{workload}.{framework}")
    return loaded


def packages_of(workload: str, framework: str) -> set[str]:
    """Return the top-level packages that define a workload and its trainer, without importing them."""
    names = ((WORKLOADS, workload), (TRAINERS, f"{workload}.{framework}"))
    points = [_points(group).get(name) for group, name in names]
    return {point.module.partition(".")[0] for point in points if point is not None}


def load_framework(name: str) -> Any:
    """What the controller knows of a framework (`suite.launch.base.Framework`). Raises ValueError with the allowed names."""
    return _load(FRAMEWORKS, "framework", name)


def load_dataset(name: str) -> Dataset:
    """An instance of the data set called `name`, perhaps one of the user's own. Raises ValueError with the allowed names."""
    if name in _points(DATASETS):
        loaded: Dataset = _points(DATASETS)[name].load()()
        return loaded
    own_dataset = _own(data_root() / name)
    if own_dataset is None:
        raise not_allowed("dataset", name, dataset_names())
    return own_dataset


def dataset_names() -> list[str]:
    """Sorted names of all data sets: those that are registered, and the user's own (`suite data prepare KIND --name NAME`)."""
    own_names = (path.parent.name for path in data_root().glob("*/manifest.json") if _own(path.parent))
    return sorted({*_points(DATASETS), *own_names})


def _own(folder: Path) -> Dataset | None:
    """The data set of the user's own that is prepared in `folder`; None: there is none, whatever a manifest there says."""
    try:
        kind = files.read_json(folder / "manifest.json", _LARGEST_MANIFEST)["options"]["kind"]
        loaded: Dataset = _points(DATASETS)[kind].load()()
        return loaded.called(folder.name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_launcher(name: str) -> Any:
    """A launcher of a package (`suite.launch.launcher.Launcher`). Raises ValueError with the allowed names."""
    return _load(LAUNCHERS, "launch", name)


def load_study(name: str) -> Any:
    """The description of a study from outside (`suite.common.study`). Raises ValueError with the allowed names."""
    return _load(STUDIES, "study", name)


def frameworks_of(workload: str) -> list[str]:
    """Frameworks that have a trainer for `workload`."""
    return sorted(name.partition(".")[2] for name in _points(TRAINERS) if name.partition(".")[0] == workload)
