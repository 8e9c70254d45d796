"""Plugins: `plugins=[PATH or NAME]` makes the workloads and frameworks of another package available.

A folder or wheel is installed by pip, once, into a folder of its own that is named after a digest of its content
(`plugins/` below the environments), and that folder goes first on the Python path of the controller and of every worker. No
environment is changed: all of them, read-only ones and containers too, see the same plugin; a sweep that is
running keeps the version it began with; and a plugin is removed by deleting a folder. A distribution that is installed
already is used as it is. Nothing is downloaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from suite.common import registry
from suite.common.study import load_study
from suite.environments.answers import answer
from suite.environments.environment import Environment, installed_versions
from suite.environments.plugin_install import install, plugin_source
from suite.launch.base import Framework
from suite.launch.launcher import Launcher
from workloads.api import Dataset, Workload

IMPORT_HINT = "it must be importable, with all that it needs installed there"
TRAINER_CHECK_SECONDS = 300.0
"""The first import of a framework from a slow disk takes a minute."""

TRAINER_CHECK_SCRIPT = """
import sys
from suite.common import registry
try:
    registry.load_workload(sys.argv[1])
    trainer = registry.load_trainer(sys.argv[1], sys.argv[2])
except (Exception, SystemExit) as error:
    sys.exit(f"{type(error).__name__}: {error}")
if not isinstance(trainer, type):
    sys.exit(f"{trainer!r} is not a class")
missing = sorted(getattr(trainer, "__abstractmethods__", ()))
sys.exit(f"{trainer.__name__} lacks {', '.join(missing)}" if missing else 0)
"""

_LOADERS: dict[str, tuple[Callable[[str], Any], type]] = {
    registry.WORKLOADS: (registry.load_workload, Workload),
    registry.FRAMEWORKS: (registry.load_framework, Framework),
    registry.DATASETS: (registry.load_dataset, Dataset),
    registry.STUDIES: (registry.load_study, object),
    registry.LAUNCHERS: (registry.load_launcher, Launcher),
}
"""Group of entry points to what loads one, and its type."""


@dataclass(frozen=True)
class Plugin:
    """A distribution with workloads, frameworks, trainers, data sets or studies."""

    argument: str
    """What the user typed."""
    name: str
    version: str
    folder: Path | None
    """Folder it was installed into for the suite; None: it is part of the controller's environment."""
    entry_points: tuple[tuple[str, str], ...]
    """(entry-point group, name)."""


def activate(arguments: Sequence[str], installs: bool = True) -> tuple[Plugin, ...]:
    """Install missing plugins, put them on this process's path, and check them. Raises ValueError (one line).

    `installs`: false for a dry run, in which a plugin that is not installed yet lives in a temporary folder.
    """
    plugins: dict[str, Plugin] = {}
    for text in arguments:
        plugin = _activate_one(text, installs)
        first = plugins.setdefault(canonicalize_name(plugin.name), plugin)
        if first.folder != plugin.folder:
            raise ValueError(
                f"plugins: {first.argument} and {text} are both called {plugin.name}; leave one of them out"
            )
    if plugins:
        registry.refresh()
        for group in (*_LOADERS, registry.TRAINERS):
            registry.names(group)  # raises where two distributions define one name
        for plugin in plugins.values():
            _check_loadable(plugin)
    return tuple(plugins.values())


def with_plugins(environment: Environment, plugins: Sequence[Plugin]) -> Environment:
    """The environment with the plugins on its path. Raises ValueError if an installed one is not installed there."""
    needed = [plugin for plugin in plugins if plugin.folder is None]
    versions = installed_versions(environment, [plugin.name for plugin in needed]) if needed else {}
    for plugin in needed:
        if versions[plugin.name] != plugin.version:
            raise ValueError(
                f"plugins={plugin.argument}: environment {environment.name} has {versions[plugin.name] or 'no'} {plugin.name}, "
                f"the controller {plugin.version}; give the path of its folder or wheel, which serves all environments"
            )
    return replace(environment, python_path=tuple(str(plugin.folder) for plugin in plugins if plugin.folder))


def check_trainer(environment: Environment, workload: str, framework: str, plugins: Sequence[Plugin]) -> None:
    """Import a plugin's trainer in the environment in which it will run; built-in ones are not checked. Raises ValueError."""
    trainer = f"{workload}.{framework}"
    plugin = next((plugin for plugin in plugins if (registry.TRAINERS, trainer) in plugin.entry_points), None)
    if plugin is None:
        return
    command = environment.command("-c", TRAINER_CHECK_SCRIPT, workload, framework)
    outcome = answer(command, TRAINER_CHECK_SECONDS, without=("PYTHONHOME",))
    if outcome.code != 0:
        mounted = environment.argv_prefix and environment.container is None and plugin.folder
        hint = f"{IMPORT_HINT}{f' and {plugin.folder} mounted' if mounted else ''}"
        raise ValueError(
            f"plugins={plugin.argument}: trainer {trainer} cannot be used in environment {environment.name}: {outcome.why}; "
            f"{hint}"
        )


def _activate_one(text: str, installs: bool) -> Plugin:
    """Make one plugin importable in this process."""
    dist = _installed_distribution(text)
    folder = None
    if dist is None:
        folder = install(plugin_source(text), text, installs)
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        dist = next(iter(distributions(path=[str(folder)])))
    groups = (*_LOADERS, registry.TRAINERS)
    entry_points = tuple((point.group, point.name) for point in dist.entry_points if point.group in groups)
    if not entry_points:
        raise ValueError(
            f"plugins={text}: {dist.metadata['Name']} has nothing for the suite: no entry point in {', '.join(groups)}; "
            f"see docs/adding_a_workload.md"
        )
    return Plugin(text, dist.metadata["Name"], dist.version, folder, entry_points)


def _installed_distribution(text: str) -> Distribution | None:
    """The installed distribution that `text` names (`lines`, `lines>=1.0`); None if it is a path or nothing."""
    try:
        requirement = Requirement(text)
        dist = distribution(requirement.name)
    except (InvalidRequirement, PackageNotFoundError, ValueError):
        return None
    if not requirement.specifier.contains(dist.version, prereleases=True):
        raise ValueError(
            f"plugins={text}: version {dist.version} is installed in {sys.prefix}; type plugins={requirement.name}"
        )
    return dist


def _check_loadable(plugin: Plugin) -> None:
    """Load everything but the trainers, which need their framework, and check the types."""
    for group, name in plugin.entry_points:
        if group == registry.TRAINERS:
            continue
        what = f"plugins={plugin.argument}: its {registry.kind_of(group)} '{name}'"
        load, wanted = _LOADERS[group]
        try:
            loaded = load(name)
        except (Exception, SystemExit) as error:
            first = (str(error).splitlines() or [""])[0]
            raise ValueError(f"{what} cannot be imported: {type(error).__name__}: {first}; {IMPORT_HINT}") from None
        if group == registry.STUDIES:
            load_study(name)  # says itself what is wrong with a description
            continue
        is_class = isinstance(loaded, type) and group in (registry.WORKLOADS, registry.DATASETS)
        if not issubclass(loaded if is_class else type(loaded), wanted) or loaded.name != name:
            raise ValueError(f"{what} is {loaded!r}; see docs/adding_a_workload.md for what is needed")
