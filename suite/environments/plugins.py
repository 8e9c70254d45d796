"""Plugins: `plugins=[PATH or NAME]` adds workloads and frameworks of other packages.

pip installs a plugin's folder or wheel once, into a separate folder whose name is a digest of the
plugin's content (`plugins/` in the folder of environments). The separate folder comes first on the
Python path of the controller and of every worker.

The environments themselves are not modified. All environments, including read-only environments and
containers, therefore use the same plugin. A running sweep keeps the plugin version with which it
started. To remove a plugin, delete its folder. A distribution that is already installed is used
without changes. Packages are never downloaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from suite.common import registry
from suite.common.study_file import load_study
from suite.environments.captured_command import captured
from suite.environments.environment import Environment, installed_versions
from suite.environments.plugin_install import install, plugin_source
from suite.launch.base import Framework
from suite.launch.launcher import Launcher
from workloads.api import Dataset, Workload
from workloads.api.trainer_info import framework_trainers, package_trainers

IMPORT_HINT = "It must be importable, with all its dependencies installed in the same environment"
TRAINER_CHECK_SECONDS = 300.0
"""Timeout in seconds for importing a trainer.

The first import of a framework from a slow disk may need a minute.
"""

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
    registry.TRAINERS: (framework_trainers, Mapping),
}
"""Maps an entry-point group to the function that loads an entry point, and to the type of the
loaded object.
"""


@dataclass(frozen=True)
class Plugin:
    """A distribution that defines workloads, frameworks, trainers, data sets, and so on."""

    argument: str
    """The plugin as the user specified it."""
    name: str
    version: str
    folder: Path | None
    """Folder into which the suite installed the plugin.

    The attribute is None if the plugin is installed in the controller's environment.
    """
    entry_points: tuple[tuple[str, str], ...]
    """Pairs (group, name) of the plugin's entry points."""


def activate(arguments: Sequence[str], installs: bool = True) -> tuple[Plugin, ...]:
    """Install missing plugins, add them to this process's Python path, and check them.

    Args:
        arguments: Paths or names of plugins, as the user specified them.
        installs: False for a dry run, which installs a new plugin into a temporary folder.

    Raises:
        ValueError: A plugin cannot be installed or used. The message is a single line.
    """
    plugins: dict[str, Plugin] = {}
    for text in arguments:
        plugin = _activate_plugin(text, installs)
        first = plugins.setdefault(canonicalize_name(plugin.name), plugin)
        if first.folder != plugin.folder:
            raise ValueError(
                f"plugins: {first.argument} and {text} are both named {plugin.name}. Remove one of"
                " them"
            )
    if plugins:
        registry.refresh()
        for group in _LOADERS:
            registry.names(group)  # raises ValueError if two distributions define the same name
        for plugin in plugins.values():
            _check_loadable(plugin)
    return tuple(plugins.values())


def with_plugins(environment: Environment, plugins: Sequence[Plugin]) -> Environment:
    """Return a copy of the environment with the plugins on its Python path.

    Args:
        environment: Environment of the workers.
        plugins: The plugins of the command.

    Raises:
        ValueError: A plugin that is installed in the controller's environment is missing in
            `environment`, or has a different version.
    """
    installed = [plugin for plugin in plugins if plugin.folder is None]
    versions = (
        installed_versions(environment, [plugin.name for plugin in installed]) if installed else {}
    )
    for plugin in installed:
        if versions[plugin.name] != plugin.version:
            raise ValueError(
                f"plugins={plugin.argument}: environment {environment.name} has"
                f" {versions[plugin.name] or 'no'} {plugin.name}, but the controller has"
                f" {plugin.version}. Set plugins to the path of its folder or wheel, which works in"
                " all environments"
            )
    return replace(
        environment, python_path=tuple(str(plugin.folder) for plugin in plugins if plugin.folder)
    )


def check_trainer(
    environment: Environment, workload: str, framework: str, plugins: Sequence[Plugin]
) -> None:
    """Check that a plugin's trainer can be imported in the workers' environment.

    Built-in trainers are not checked.

    Args:
        environment: Environment of the workers.
        workload: Name of the workload.
        framework: Name of the framework.
        plugins: The plugins of the command.

    Raises:
        ValueError: The trainer cannot be imported, or is incomplete.
    """
    by_workload = framework in package_trainers(registry.load_workload(workload))
    entry_point = (registry.WORKLOADS, workload) if by_workload else (registry.TRAINERS, framework)
    plugin = next((plugin for plugin in plugins if entry_point in plugin.entry_points), None)
    if plugin is None:
        return
    command = environment.command("-c", TRAINER_CHECK_SCRIPT, workload, framework)
    outcome = captured(command, TRAINER_CHECK_SECONDS, without=("PYTHONHOME",))
    if outcome.code != 0:
        mounted = environment.command_prefix and environment.container is None and plugin.folder
        hint = f"{IMPORT_HINT}{f', and {plugin.folder} mounted' if mounted else ''}"
        raise ValueError(
            f"plugins={plugin.argument}: trainer {workload}.{framework} cannot be used in"
            f" environment {environment.name}: {outcome.why}. {hint}"
        )


def _activate_plugin(text: str, installs: bool) -> Plugin:
    """Make a plugin importable in this process, and return the plugin.

    Raises ValueError if the plugin has no entry points.
    """
    dist = _installed_distribution(text)
    folder = None
    if dist is None:
        folder = install(plugin_source(text), text, installs)
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        dist = next(iter(distributions(path=[str(folder)])))
    entry_points = tuple(
        (point.group, point.name) for point in dist.entry_points if point.group in _LOADERS
    )
    if not entry_points:
        raise ValueError(
            f"plugins={text}: {dist.metadata['Name']} is not a plugin of the suite: it has no entry"
            f" point in {', '.join(_LOADERS)}. See docs/tutorials/add_a_workload.md"
        )
    return Plugin(text, dist.metadata["Name"], dist.version, folder, entry_points)


def _installed_distribution(text: str) -> Distribution | None:
    """Return the installed distribution that matches a requirement.

    Examples of requirements are `lines` and `lines>=1.0`.

    Returns:
        The distribution, or None if `text` is a path or the distribution is not installed.

    Raises:
        ValueError: A different version of the distribution is installed.
    """
    try:
        requirement = Requirement(text)
        dist = distribution(requirement.name)
    except (InvalidRequirement, PackageNotFoundError, ValueError):
        return None
    if not requirement.specifier.contains(dist.version, prereleases=True):
        raise ValueError(
            f"plugins={text}: version {dist.version} is installed in {sys.prefix}. To use it, set"
            f" plugins={requirement.name}"
        )
    return dist


def _check_loadable(plugin: Plugin) -> None:
    """Load all entry points of a plugin, and check their types.

    Raises ValueError if an entry point is invalid. Trainers are not loaded, because they need their
    framework.
    """
    for group, name in plugin.entry_points:
        subject = f"plugins={plugin.argument}: its {registry.kind_of(group)} '{name}'"
        load, expected_type = _LOADERS[group]
        try:
            loaded = load(name)
            if group == registry.WORKLOADS:
                package_trainers(loaded)
        except (Exception, SystemExit) as error:
            first_line = (str(error).splitlines() or [""])[0]
            raise ValueError(
                f"{subject} cannot be imported: {type(error).__name__}: {first_line}. {IMPORT_HINT}"
            ) from None
        if group == registry.STUDIES:
            load_study(name)  # `load_study` raises ValueError for an invalid description
            continue
        if group == registry.TRAINERS:
            continue
        is_class = isinstance(loaded, type) and group in (registry.WORKLOADS, registry.DATASETS)
        if (
            not issubclass(loaded if is_class else type(loaded), expected_type)
            or getattr(loaded, "name", "") != name
        ):
            raise ValueError(
                f"{subject} is {loaded!r}: expected the type {expected_type.__name__} and the name"
                f" '{name}'. See docs/tutorials/add_a_workload.md"
            )
        if missing := sorted(getattr(loaded, "__abstractmethods__", ())):
            methods = " and ".join(f"{method}()" for method in missing)
            raise ValueError(
                f"{subject} is incomplete. Define {methods} in {loaded.__name__}. See"
                " docs/reference/plugin_api.md"
            )
