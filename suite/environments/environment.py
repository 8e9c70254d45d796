"""Environments of worker processes.

An environment consists of a command prefix, a Python interpreter, and a path map. A venv, the
current interpreter, and a container (`suite.environments.containers`) differ only in the command
prefix, the interpreter, and the path map. All other code treats them alike.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from suite.common.command_text import localize_commands
from suite.common.paths import IN_CHECKOUT, PROJECT, data_root, env_root, mapped
from suite.common.registry import allowed_text
from suite.common.run_config import EnvironmentConfig
from suite.environments import containers, locks, venvs
from suite.environments.captured_command import captured, last_line
from suite.launch.recorded_env import HIDDEN, SECRET, recorded_prefixes

LOG = logging.getLogger(__name__)

RESERVED_NAMES = ("auto", "current", "custom", *containers.PROGRAMS)
"""Names of environments that are not venvs."""

PYTHONPATH_WRAPPER = 'PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" exec "$@"'
"""Shell code that puts the folder `$0` first on the Python path, then executes the command in its
arguments.
"""

DESCRIBE_SCRIPT = """
import importlib.metadata, json, os, re, sys
packages, prefixes, secret, hidden = json.loads(sys.argv[1])
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
variables = {name: value for name, value in os.environ.items() if name.startswith(tuple(prefixes))}
library = os.path.dirname(os.path.abspath(os.__file__))
for name in ("sitecustomize", "usercustomize"):
    path = getattr(sys.modules.get(name), "__file__", None)
    if path and os.path.dirname(os.path.abspath(path)) != library:
        variables[name] = path
for name in variables:
    if re.search(secret, name, re.I):
        variables[name] = hidden
print(json.dumps({"versions": {name: version(name) for name in packages}, "env": variables}))
"""


@dataclass(frozen=True)
class Environment:
    """The environment in which worker processes run."""

    name: str
    """Name of the environment for messages and records, such as `torch`, `current`, or `custom`."""
    command_prefix: tuple[str, ...]
    """Command prefix before the path of Python, such as `("numactl", "--interleave=all")`.

    For a container, the prefix is part of the command that runs inside the container.
    """
    python: str
    """Path of the Python interpreter. For a container, this is the path inside the container."""
    path_map: Mapping[str, str] = field(default_factory=dict)
    """Maps folders on the host to the corresponding folders inside the environment.

    Paths outside these folders are the same on the host and inside the environment.
    """
    python_path: tuple[str, ...] = ()
    """Folders of plugins on the host.

    The folders of plugins precede the PYTHONPATH of the environment.
    """
    container: containers.Container | None = None
    """Container in which all commands run, or None if the commands run directly on the host."""

    def command(self, *args: str | os.PathLike[str]) -> list[str]:
        """Return the command line that runs Python with `args` in this environment.

        An argument that is a path below a mapped folder is translated. Paths inside an argument
        (`--file=/data/x`) are not translated, so pass the path as a separate argument.
        """
        python = [self.python, *(self.map_path(arg) for arg in args)]
        folders = [*self.python_path, *([str(PROJECT)] if self.container and IN_CHECKOUT else [])]
        if folders:
            # Set PYTHONPATH inside the environment, because environment variables of the host are
            # not passed to a container.
            path = ":".join(map(self.map_path, folders))
            python = ["sh", "-c", PYTHONPATH_WRAPPER, path, *python]
        container_argv = (
            self.container.run_argv(self._mounts(self.container)) if self.container else []
        )
        return [*container_argv, *self.command_prefix, *python]

    def of_process(self, folder: Path, name: str, env: Mapping[str, str]) -> "Environment":
        """Return the environment for a process of a run.

        Only container environments differ between processes.

        Args:
            folder: Folder of the run, which is mounted into the container.
            name: Name of the process, such as `worker-3`.
            env: Environment variables of the process, which are set in the container.
        """
        if self.container is None:
            return self
        return replace(
            self, container=replace(self.container, run=str(folder), process=name, env=env)
        )

    def ending(self, folder: Path, names: Sequence[str]) -> list[str]:
        """Return the command line that ends the containers of a run.

        The list is empty if no container outlives its client process.

        Args:
            folder: Folder of the run.
            names: Names of the processes.
        """
        return (
            replace(self.container, run=str(folder)).ending(names)
            if self.container and names
            else []
        )

    def map_path(self, path: str | os.PathLike[str]) -> str:
        """Translate a path on the host to the path inside the environment.

        The longest mapped folder that contains the path determines the translation.
        """
        return mapped(path, self.path_map)

    def _mounts(self, container: containers.Container) -> list[containers.Mount]:
        """Return the mounts of a container.

        Code, plugins, and data are mounted read-only. The folder of the run is writable.
        """
        data = data_root()
        read_only = [
            *([str(PROJECT)] if IN_CHECKOUT else []),
            *self.python_path,
            *([str(data)] if data.is_dir() else []),
        ]
        mounts = [containers.Mount(path, self.map_path(path)) for path in read_only]
        if container.run:
            mounts.append(
                containers.Mount(container.run, self.map_path(container.run), writable=True)
            )
        return mounts


def resolve(
    config: EnvironmentConfig,
    framework_default_name: str,
    device: str = "cpu",
    tell: Callable[[str], object] = LOG.warning,
) -> Environment:
    """Return the environment that a configuration selects.

    Args:
        config: `name` (`auto`, `current`, `custom`, a container program such as `docker`, or the
            name of a venv), `command_prefix`, `python`, `path_map`, and for a container `image`,
            `mounts`, and `options`.
        framework_default_name: Name of the venv for `auto`, such as `torch` or `tensorflow-cpu`.
        device: Device of the run. With `cuda`, the GPUs are available in a container.
        tell: Function that receives warnings about an environment that can still be used.

    Raises:
        ValueError: The name is unknown, the venv or the image does not exist, or keys contradict
            each other.
    """
    name, python = config.name, config.python
    prefix = tuple(str(argument) for argument in config.command_prefix)
    path_map = {str(host): str(inside) for host, inside in config.path_map.items()}
    if name in containers.PROGRAMS:
        container = containers.from_config(config, device == "cuda", tell)
        return Environment(name, prefix, str(python or "python3"), path_map, container=container)
    for key in ("image", "mounts", "options"):
        value = getattr(config, key)
        if value:
            programs = f"{', '.join(containers.PROGRAMS[:-1])} or {containers.PROGRAMS[-1]}"
            raise ValueError(
                f"environment.{key}={value} needs environment={programs}, but"
                f" environment.name={name} is set"
            )
    if name == "custom":
        if not python:
            raise ValueError(
                "environment.name=custom needs environment.python. Set it to the path of the Python"
                " inside the environment"
            )
        return Environment(name, prefix, str(python), path_map)
    if python:
        raise ValueError(
            f"environment.python={python} needs environment.name=custom, but"
            f" environment.name={name} is set"
        )
    if name == "auto":
        name = framework_default_name
    else:
        _check_name(name)
    if name == "current":
        return Environment(name, prefix, sys.executable, path_map)
    venv_python = _venv_python(name, tell)
    return Environment(
        name, (*prefix, *libraries_of(name, venv_python)), str(venv_python), path_map
    )


def libraries_of(name: str, python: Path) -> tuple[str, ...]:
    """Return the command prefix that adds library folders of a venv to `LD_LIBRARY_PATH`.

    The lock file specifies the library folders. The prefix is empty if the framework finds its
    libraries without `LD_LIBRARY_PATH`.

    Args:
        name: Name of the venv.
        python: Interpreter of the venv.
    """
    lock = locks.framework_locks().get(name)
    if lock is None or not lock.libraries:
        return ()
    library_folders = sorted(
        python.parent.parent.glob(f"lib/python3*/site-packages/{lock.libraries}")
    )
    folders = [*map(str, library_folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return ("env", f"LD_LIBRARY_PATH={':'.join(folders)}") if library_folders else ()


class Description(NamedTuple):
    """Package versions and environment variables in an environment."""

    versions: Mapping[str, str | None]
    """Maps the name of a distribution to its installed version, or to None if it is not
    installed.
    """
    env: Mapping[str, str]
    """Recorded environment variables of a process in the environment.

    Secrets are removed.

    The recorded PYTHONPATH does not contain the folders of the suite and of plugins. The values of
    `sitecustomize` and `usercustomize` are the paths of the files that Python executed.
    """


def describing_command(environment: Environment, packages: Sequence[str]) -> list[str]:
    """Return the command line that prints a `Description` of an environment as JSON.

    The command does not import any of the packages.
    """
    arguments = json.dumps([list(packages), recorded_prefixes(), SECRET, HIDDEN])
    return environment.command("-c", DESCRIBE_SCRIPT, arguments)


def description_from(text: str, environment: Environment) -> Description:
    """Parse the description of an environment from the output of a command.

    Raises ValueError if the last line of the output is not a description.
    """
    try:
        printed = json.loads(last_line(text))
        env = dict(printed["env"])
        if path := _other_folders(env.pop("PYTHONPATH", ""), environment):
            env["PYTHONPATH"] = path
        return Description(printed["versions"], env)
    except (json.JSONDecodeError, KeyError, TypeError):
        raise ValueError(f"does not respond as a Python interpreter: {last_line(text)!r}") from None


def _other_folders(python_path: str, environment: Environment) -> str:
    """Return the folders of a PYTHONPATH that belong neither to the suite nor to a plugin.

    All folders are paths inside the environment.
    """
    excluded = [
        Path(environment.map_path(folder)) for folder in (str(PROJECT), *environment.python_path)
    ]
    folders = [folder for folder in python_path.split(":") if folder]
    return ":".join(
        folder
        for folder in folders
        if not any(Path(folder).is_relative_to(path) for path in excluded)
    )


def describe(
    environment: Environment, packages: Sequence[str], timeout_seconds: float = 60.0
) -> Description:
    """Return the package versions and environment variables in an environment.

    The function starts the environment's Python.

    Args:
        environment: The environment.
        packages: Distributions whose versions are returned.
        timeout_seconds: Timeout after which the Python process is killed.

    Raises:
        ValueError: The Python does not respond. The message is a single line.
    """
    command = describing_command(environment, packages)
    problem = f"environment {environment.name}: {environment.python} does not respond"
    outcome = captured(command, timeout_seconds)
    if outcome.code != 0:
        raise ValueError(f"{problem}: {outcome.why}")
    try:
        return description_from(outcome.out, environment)
    except ValueError as error:
        raise ValueError(f"environment {environment.name}: {environment.python} {error}") from None


def installed_versions(
    environment: Environment, packages: Sequence[str]
) -> Mapping[str, str | None]:
    """Return the installed version, or None, of each distribution.

    The raised errors are the same as for `describe`.
    """
    return describe(environment, packages).versions


class Descriptions:
    """Cache of environment descriptions during a command.

    With the cache, a sweep starts Python once per environment instead of once per job.
    """

    def __init__(self) -> None:
        self._descriptions: dict[tuple[str, ...], Description] = {}

    def of(self, environment: Environment, packages: Sequence[str]) -> Description:
        """Return the cached result of `describe` for the same arguments, or call `describe`."""
        key = (repr(environment), *packages)
        if key not in self._descriptions:
            self._descriptions[key] = describe(environment, packages)
        return self._descriptions[key]


def _check_name(name: str) -> None:
    """Raise ValueError if the name of an environment is invalid.

    A name is valid if it is reserved, or if a venv with this name exists or can be created.
    """
    allowed = sorted({*RESERVED_NAMES, *locks.framework_locks(), *venvs.existing(env_root())})
    if name not in allowed:
        raise ValueError(f"environment.name={name} is unknown, {allowed_text(allowed, name)}")


def _venv_python(name: str, warn: Callable[[str], object]) -> Path:
    """Return the Python of a complete venv.

    If the venv is outdated, the function calls `warn` and still returns the venv's Python.
    """
    status = venvs.status(name)
    create = f"suite env create {name}"
    if status.state == "missing":
        no_lock = "It has no lock. Set environment=current or environment=custom"
        remedy = f"Run: {create}" if status.lock else no_lock
        raise ValueError(f"environment {name} does not exist in {env_root()}. {remedy}")
    if status.state == "broken":
        raise ValueError(
            f"environment {name} is unfinished or damaged ({status.reason}). To recreate it, run:"
            f" {create}"
        )
    if status.state == "outdated":
        warn(
            f"environment {name} is outdated ({status.reason}). To update it, run:"
            f" {localize_commands(create)}"
        )
    return status.python
