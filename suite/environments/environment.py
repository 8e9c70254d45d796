"""Environments of worker processes: a command prefix, a Python and a path map.

A venv, the running interpreter and a container (`suite.environments.containers`) differ only in these, so the rest of the
runner does not know which of them it starts.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from suite.common.paths import IN_CHECKOUT, PROJECT, data_root, env_root, mapped
from suite.common.registry import nearest
from suite.common.run_config import EnvironmentConfig
from suite.common.typed import as_typed
from suite.environments import containers, locks, venvs
from suite.environments.answers import answer, last_line
from suite.launch.recorded_env import HIDDEN, SECRET, recorded_prefixes

LOG = logging.getLogger(__name__)

RESERVED_NAMES = ("auto", "current", "custom", *containers.PROGRAMS)
"""Names that do not stand for a venv."""

PYTHONPATH_WRAPPER = 'PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" exec "$@"'
"""Shell: run the arguments, in this same process, with `$0` first on the Python path."""

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
shown = {name: hidden if re.search(secret, name, re.I) else value for name, value in variables.items()}
print(json.dumps({"versions": {name: version(name) for name in packages}, "variables": shown}))
"""


@dataclass(frozen=True)
class Environment:
    """Where worker processes run."""

    name: str
    """`torch`, `current`, `custom`, …: for messages and records."""
    argv_prefix: tuple[str, ...]
    """What stands before the Python, in a container inside it: `("numactl", "--interleave=all")`."""
    python: str
    """The Python to call, by its path inside the environment."""
    path_map: Mapping[str, str] = field(default_factory=dict)
    """Host folder to its path inside the environment; other paths are the same on both."""
    python_path: tuple[str, ...] = ()
    """Host folders that go first on the Python path, before a PYTHONPATH that the environment has: plugins."""
    container: containers.Container | None = None
    """What everything runs in; None: on the host."""

    def command(self, *args: str | os.PathLike[str]) -> list[str]:
        """The argv that runs Python with `args` in this environment.

        Arguments that are a path below a mapped folder are translated; paths inside an argument (`--file=/data/x`)
        are not, pass them on their own.
        """
        python = [self.python, *(self.map_path(arg) for arg in args)]
        folders = [*self.python_path, *([str(PROJECT)] if self.container and IN_CHECKOUT else [])]
        if folders:
            # Set after the prefix, inside the environment: variables of the host do not reach a container.
            path = ":".join(map(self.map_path, folders))
            python = ["sh", "-c", PYTHONPATH_WRAPPER, path, *python]
        outside = self.container.words(self._mounts(self.container)) if self.container else []
        return [*outside, *self.argv_prefix, *python]

    def of_process(self, folder: Path, name: str, variables: Mapping[str, str]) -> "Environment":
        """The same for process `name` of the run in `folder`: a container has to be told its variables and what to mount."""
        if self.container is None:
            return self
        return replace(self, container=replace(self.container, run=str(folder), process=name, variables=variables))

    def ending(self, folder: Path, names: Sequence[str]) -> list[str]:
        """The argv that ends what outlives its client of these processes of the run in `folder`; empty: nothing does."""
        return replace(self.container, run=str(folder)).ending(names) if self.container and names else []

    def map_path(self, path: str | os.PathLike[str]) -> str:
        """The path as the environment sees it: the longest mapped folder that holds it is replaced."""
        return mapped(path, self.path_map)

    def _mounts(self, container: containers.Container) -> list[containers.Mount]:
        """Code, plugins and data as they are, and the run's folder to write to."""
        data = data_root()
        wanted = [*([str(PROJECT)] if IN_CHECKOUT else []), *self.python_path, *([str(data)] if data.is_dir() else [])]
        mounts = [containers.Mount(path, self.map_path(path)) for path in wanted]
        if container.run:
            mounts.append(containers.Mount(container.run, self.map_path(container.run), writable=True))
        return mounts


def resolve(
    config: EnvironmentConfig,
    framework_default_name: str,
    device: str = "cpu",
    tell: Callable[[str], object] = LOG.warning,
) -> Environment:
    """The environment that a configuration selects.

    Args:
        config: `name` (`auto`, `current`, `custom`, `docker`, … or a venv's name), `argv_prefix`, `python`, `path_map`, and for
            a container `image`, `mounts`, `options`.
        framework_default_name: the venv that `auto` stands for: `torch`, `tensorflow-cpu`, …
        device: `cuda`: a container gets the GPUs.
        tell: gets what is to be said of an environment that is used nevertheless.

    Raises:
        ValueError: an unknown name, a venv or an image that does not exist, or keys that do not fit together.
    """
    name, python = config.name, config.python
    prefix = tuple(str(word) for word in config.argv_prefix)
    path_map = {str(host): str(inside) for host, inside in config.path_map.items()}
    if name in containers.PROGRAMS:
        container = containers.from_config(config, device == "cuda", tell)
        return Environment(name, prefix, str(python or "python3"), path_map, container=container)
    for key in ("image", "mounts", "options"):
        value = getattr(config, key)
        if value:
            programs = f"{', '.join(containers.PROGRAMS[:-1])} or {containers.PROGRAMS[-1]}"
            raise ValueError(f"environment.{key}={value} needs environment={programs}, found environment.name={name}")
    if name == "custom":
        if not python:
            raise ValueError(
                "environment.name=custom needs environment.python, the path of the Python inside the environment"
            )
        return Environment(name, prefix, str(python), path_map)
    if python:
        raise ValueError(f"environment.python={python} needs environment.name=custom, found environment.name={name}")
    if name == "auto":
        name = framework_default_name
    else:
        _check_name(name)
    if name == "current":
        return Environment(name, prefix, sys.executable, path_map)
    venv_python = _venv_python(name, tell)
    return Environment(name, (*prefix, *libraries_of(name, venv_python)), str(venv_python), path_map)


def libraries_of(name: str, python: Path) -> tuple[str, ...]:
    """What stands before the Python of a venv whose framework does not find its libraries by itself: the lock says which."""
    lock = locks.framework_locks().get(name)
    if lock is None or not lock.libraries:
        return ()
    found = sorted(python.parent.parent.glob(f"lib/python3*/site-packages/{lock.libraries}"))
    folders = [*map(str, found), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return ("env", f"LD_LIBRARY_PATH={':'.join(folders)}") if found else ()


class Description(NamedTuple):
    """What an environment's Python finds there."""

    versions: Mapping[str, str | None]
    """Distribution name to installed version; None: not installed."""
    variables: Mapping[str, str]
    """Variables that are recorded with a run, as a process in the environment has them, without secrets.

    PYTHONPATH lacks the folders of the suite and of plugins. `sitecustomize` and `usercustomize` are files that Python ran.
    """


def describing_command(environment: Environment, packages: Sequence[str]) -> list[str]:
    """Return the argv that prints a `Description` of an environment as JSON. No package is imported."""
    arguments = json.dumps([list(packages), recorded_prefixes(), SECRET, HIDDEN])
    return environment.command("-c", DESCRIBE_SCRIPT, arguments)


def description_from(text: str, environment: Environment) -> Description:
    """Return the description of an environment that a command printed. Raises ValueError if its last line is something else."""
    try:
        printed = json.loads(last_line(text))
        variables = dict(printed["variables"])
        if path := _other_folders(variables.pop("PYTHONPATH", ""), environment):
            variables["PYTHONPATH"] = path
        return Description(printed["versions"], variables)
    except (json.JSONDecodeError, KeyError, TypeError):
        raise ValueError(f"does not answer as a Python does: {last_line(text)!r}") from None


def _other_folders(python_path: str, environment: Environment) -> str:
    """Return the folders of a PYTHONPATH inside an environment that are neither the suite's nor plugins'."""
    listed = [Path(environment.map_path(folder)) for folder in (str(PROJECT), *environment.python_path)]
    folders = [folder for folder in python_path.split(":") if folder]
    return ":".join(folder for folder in folders if not any(Path(folder).is_relative_to(path) for path in listed))


def describe(environment: Environment, packages: Sequence[str], timeout_seconds: float = 60.0) -> Description:
    """Return what the environment's Python finds. Raises ValueError in one line if it does not answer."""
    command = describing_command(environment, packages)
    problem = f"environment {environment.name}: {environment.python} does not answer"
    outcome = answer(command, timeout_seconds)
    if outcome.code != 0:
        raise ValueError(f"{problem}: {outcome.why}")
    try:
        return description_from(outcome.out, environment)
    except ValueError as error:
        raise ValueError(f"environment {environment.name}: {environment.python} {error}") from None


def installed_versions(environment: Environment, packages: Sequence[str]) -> Mapping[str, str | None]:
    """Return distribution name to installed version (None: not installed). Raises ValueError like `describe`."""
    return describe(environment, packages).versions


class Descriptions:
    """Descriptions for one command: a Python is started once for each environment, not for each job of a sweep."""

    def __init__(self) -> None:
        self._descriptions: dict[tuple[str, ...], Description] = {}

    def of(self, environment: Environment, packages: Sequence[str]) -> Description:
        """Return what `describe` returns."""
        key = (repr(environment), *packages)
        if key not in self._descriptions:
            self._descriptions[key] = describe(environment, packages)
        return self._descriptions[key]


def _check_name(name: str) -> None:
    """Refuse a name that is neither reserved nor a venv that exists or can be made."""
    known = sorted({*RESERVED_NAMES, *locks.framework_locks(), *venvs.existing(env_root())})
    if name not in known:
        raise ValueError(f"environment.name={name} is unknown; allowed: {', '.join(known)}{nearest(name, known)}")


def _venv_python(name: str, tell: Callable[[str], object]) -> Path:
    """The Python of a finished venv; an outdated one is used, and `tell` hears of it."""
    status = venvs.status(name)
    create = f"suite env create {name}"
    if status.state == "missing":
        how = f"make it with: {create}" if status.lock else "no lock has its name; use environment=current or =custom"
        raise ValueError(f"environment {name} does not exist in {env_root()}; {how}")
    if status.state == "broken":
        raise ValueError(f"environment {name} is unfinished or damaged ({status.reason}); make it again with: {create}")
    if status.state == "outdated":
        tell(f"environment {name} is outdated ({status.reason}); update it with: {as_typed(create)}")
    return status.python
