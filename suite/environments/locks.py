"""Reads the locks in `environments/`, the suite's and each plugin's: the packages of an environment, with exact versions.

A lock is a pip requirements file that pins every package, transitive ones too, and is installed with `--no-deps`, so
nothing that it does not name can get in. Its head says in comments what pip has no word for:

    # tried: Linux x86_64, Python 3.11, CPU       or  # not tried: why
    # python: 3.10-3.13                           Python versions, both ends included
    # framework: tensorflow-cpu                   the distribution that the environment is about (none: no framework)
    # imports: tensorflow                         modules whose import shows that it works
    # cuda: 13.0 sm_75 sm_80 compute_90           what the framework was built for (none: for CPUs)
    # libraries: nvidia/*/lib                     folders of packages that its shared libraries are looked for in
"""

import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from suite.common.paths import PROJECT, shipped
from suite.environments import own_package
from suite.environments.builds import Build
from workloads import files

Version = tuple[int, int]
"""A Python version: (3, 11)."""


@dataclass(frozen=True)
class Lock:
    """One parsed lock file."""

    name: str
    path: Path
    mark: str
    """`tried: where`, or `not tried: why`."""
    python_first: Version
    python_last: Version
    framework: str
    """Distribution name of the framework; empty for the controller's own locks."""
    imports: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    build: Build | None = None
    libraries: str = ""
    """A glob below site-packages; empty: the framework finds its libraries."""

    def pins(self, python: Version) -> dict[str, str]:
        """Canonical distribution name to version for a Python version."""
        environment = {"python_version": "{}.{}".format(*python)}
        return {
            canonicalize_name(requirement.name): next(iter(requirement.specifier)).version
            for requirement in self.requirements
            if requirement.marker is None or requirement.marker.evaluate(environment)
        }

    def supports(self, python: Version) -> bool:
        """True if the lock holds for this Python version."""
        return self.python_first <= python <= self.python_last

    @property
    def python_range(self) -> str:
        """The supported Python versions in words: `3.10 to 3.13`."""
        return "{}.{} to {}.{}".format(*self.python_first, *self.python_last)

    @property
    def tried(self) -> bool:
        """True if somebody has run in it."""
        return not self.mark.startswith("not")


def folder(project: Path = PROJECT) -> Path:
    """The folder of the lock files."""
    return shipped("environments") if project == PROJECT else project / "environments"


def framework_locks(project: Path = PROJECT) -> dict[str, Lock]:
    """Name to lock of every framework environment that can be created, sorted by name."""
    of_plugins = project.glob("plugins/*/environments/*.txt") if own_package.is_checkout(project) else ()
    paths = [*folder(project).glob("*.txt"), *of_plugins]
    locks = (read(path) for path in sorted(paths, key=lambda path: path.stem))
    return {lock.name: lock for lock in locks if lock.framework}


def packages(lock: Lock, project: Path = PROJECT) -> list[Path]:
    """The folders of a checkout that an environment gets, editable: the suite's, and the plugin's that brings the lock."""
    plugin = lock.path.parent.parent
    return [project, *([plugin] if plugin.parent == project / "plugins" else [])]


def read(path: Path) -> Lock:
    """Parse a lock file. Raises ValueError with file and line of what is no part of a lock."""
    return _parsed(path, files.read_text(path))


@functools.lru_cache(maxsize=64)  # a sweep asks for each of its jobs
def _parsed(path: Path, text: str) -> Lock:
    head = dict(
        re.findall(r"^# (tried|not tried|python|framework|imports|cuda|libraries): (.+?)\s*$", text, re.MULTILINE)
    )
    versions = re.fullmatch(r"(\d+)\.(\d+)-(\d+)\.(\d+)", head.get("python", ""))
    if versions is None:
        raise ValueError(f"{path} does not say which Python it is for: it needs a line like '# python: 3.10-3.13'")
    first_major, first_minor, last_major, last_minor = map(int, versions.groups())
    cuda, *architectures = head.get("cuda", "").split(" ")
    return Lock(
        name=path.stem,
        path=path,
        mark=f"not tried: {head['not tried']}" if "not tried" in head else f"tried: {head.get('tried', '')}",
        python_first=(first_major, first_minor),
        python_last=(last_major, last_minor),
        framework=head.get("framework", ""),
        imports=tuple(re.split(r",\s*", head["imports"])) if "imports" in head else (),
        build=Build(cuda, tuple(architectures)) if cuda else None,
        libraries=head.get("libraries", ""),
        requirements=tuple(_requirements(path, text)),
    )


def _requirements(path: Path, text: str) -> list[Requirement]:
    """The pinned packages; anything but `name==version`, with a marker or not, is refused."""
    requirements = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            raise ValueError(f"{path}:{number}: not a pinned package: {line}") from error
        specifiers = list(requirement.specifier)
        exact = len(specifiers) == 1 and specifiers[0].operator == "==" and not specifiers[0].version.endswith("*")
        if not exact or requirement.url or requirement.extras:
            raise ValueError(f"{path}:{number}: every line must be name==version, found: {line}")
        requirements.append(requirement)
    return requirements


def suiting(names: Sequence[str], capabilities: Sequence[str], driver_cuda: str | None) -> str:
    """The first of these environments that suits GPUs and driver (`Build.why_not`); else the first of all, whose reason not to
    is then said."""
    known = framework_locks()
    builds = {name: known[name].build for name in names if name in known}
    fits = [name for name, build in builds.items() if build and not build.why_not(capabilities, driver_cuda)]
    return next(iter(fits), names[0])


def digest(lock: Lock, project: Path = PROJECT, creator: str = "") -> str:
    """Hash of all that an installed environment depends on: the lock, the packages' metadata, the path of the checkout.

    A checkout is installed editable, so an environment that another one made runs that checkout's code. `creator`: the path of
    that one, in place of `project`'s.
    """
    plugins = [files.read_bytes(folder / "pyproject.toml") for folder in packages(lock, project)[1:]]
    maker = (creator or str(project)).encode()
    parts = (files.read_bytes(lock.path), own_package.fingerprint(project), maker, *plugins)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
