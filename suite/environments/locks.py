"""Read the lock files in `environments/`, which pin all packages of each environment.

A lock file is a pip requirements file that pins every package, including transitive dependencies. A
lock file is installed with `--no-deps`, so that only packages in the lock file are installed.
Comments at the beginning of a lock file contain information for which pip has no syntax:

    # tried: Linux x86_64, Python 3.11, CPU       or  # not tried: why
    # python: 3.10-3.13                           Python versions, both ends included
    # framework: tensorflow-cpu                   distribution of the framework
    # imports: tensorflow                         modules that are imported to check the environment
    # cuda: 13.0 sm_75 sm_80 compute_90           CUDA version and targets of the framework
    # libraries: nvidia/*/lib                     folders with the framework's shared libraries

If the comment `framework` is missing, the environment contains no framework. If the comment `cuda`
is missing, the framework runs on CPUs only.
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
from suite.environments import suite_package
from suite.environments.builds import Build
from workloads import files

Version = tuple[int, int]
"""Major and minor version of Python as a tuple, such as (3, 11)."""


@dataclass(frozen=True)
class Lock:
    """A parsed lock file."""

    name: str
    path: Path
    mark: str
    """The line `tried: WHERE` or `not tried: WHY` of the lock file."""
    python_first: Version
    python_last: Version
    framework: str
    """Distribution name of the framework. The string is empty for the controller's lock files."""
    imports: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    build: Build | None = None
    libraries: str = ""
    """Glob pattern of the library folders, relative to site-packages. The string is empty if the
    framework finds its libraries without these folders.
    """

    def pins(self, python: Version) -> dict[str, str]:
        """Return the pinned versions for a Python version, by canonical distribution name."""
        environment = {"python_version": "{}.{}".format(*python)}
        return {
            canonicalize_name(requirement.name): next(iter(requirement.specifier)).version
            for requirement in self.requirements
            if requirement.marker is None or requirement.marker.evaluate(environment)
        }

    def supports(self, python: Version) -> bool:
        """Check whether the lock file supports a Python version."""
        return self.python_first <= python <= self.python_last

    @property
    def python_range(self) -> str:
        """Return the supported Python versions as text, such as `3.10 to 3.13`."""
        return "{}.{} to {}.{}".format(*self.python_first, *self.python_last)

    @property
    def tried(self) -> bool:
        """Return True if the environment of this lock file was tested with actual runs."""
        return not self.mark.startswith("not")


def folder(project: Path = PROJECT) -> Path:
    """Return the folder of the lock files."""
    return shipped("environments") if project == PROJECT else project / "environments"


def framework_locks(project: Path = PROJECT) -> dict[str, Lock]:
    """Return the lock files of all framework environments that can be created.

    The dictionary is sorted by the name of the environment.
    """
    locks = (
        read(path) for path in sorted(folder(project).glob("*.txt"), key=lambda path: path.stem)
    )
    return {lock.name: lock for lock in locks if lock.framework}


def read(path: Path) -> Lock:
    """Parse a lock file.

    Raises:
        ValueError: A line is not valid in a lock file. The message contains the file and the line.
    """
    return _parsed(path, files.read_text(path))


@functools.lru_cache(maxsize=64)  # a sweep reads the lock file for each job
def _parsed(path: Path, text: str) -> Lock:
    head = dict(
        re.findall(
            r"^# (tried|not tried|python|framework|imports|cuda|libraries): (.+?)\s*$",
            text,
            re.MULTILINE,
        )
    )
    versions = re.fullmatch(r"(\d+)\.(\d+)-(\d+)\.(\d+)", head.get("python", ""))
    if versions is None:
        raise ValueError(
            f"{path} does not specify its Python versions. Add a line such as '# python: 3.10-3.13'"
        )
    first_major, first_minor, last_major, last_minor = map(int, versions.groups())
    cuda, *architectures = head.get("cuda", "").split(" ")
    return Lock(
        name=path.stem,
        path=path,
        mark=(
            f"not tried: {head['not tried']}"
            if "not tried" in head
            else f"tried: {head.get('tried', '')}"
        ),
        python_first=(first_major, first_minor),
        python_last=(last_major, last_minor),
        framework=head.get("framework", ""),
        imports=tuple(re.split(r",\s*", head["imports"])) if "imports" in head else (),
        build=Build(cuda, tuple(architectures)) if cuda else None,
        libraries=head.get("libraries", ""),
        requirements=tuple(_requirements(path, text)),
    )


def _requirements(path: Path, text: str) -> list[Requirement]:
    """Return the pinned packages.

    Every line of the lock file must have the form `name==version`, with or without an environment
    marker.
    """
    requirements = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            raise ValueError(f"{path}:{number}: expected a pinned package, got: {line}") from error
        specifiers = list(requirement.specifier)
        exact = (
            len(specifiers) == 1
            and specifiers[0].operator == "=="
            and not specifiers[0].version.endswith("*")
        )
        if not exact or requirement.url or requirement.extras:
            raise ValueError(f"{path}:{number}: expected name==version, got: {line}")
        requirements.append(requirement)
    return requirements


def suiting(names: Sequence[str], capabilities: Sequence[str], driver_cuda: str | None) -> str:
    """Return the first environment whose framework can run on the given GPUs and driver.

    Args:
        names: Names of environments, in order of preference.
        capabilities: Compute capabilities of the devices, such as `9.0`.
        driver_cuda: Newest CUDA version that the driver supports, or None if unknown.

    Returns:
        Name of the environment. If no framework can run on the GPUs, the first name is returned,
        and `Build.why_not` returns the reason for the user.
    """
    framework_environments = framework_locks()
    builds = {
        name: framework_environments[name].build for name in names if name in framework_environments
    }
    fits = [
        name
        for name, build in builds.items()
        if build and not build.why_not(capabilities, driver_cuda)
    ]
    return next(iter(fits), names[0])


def digest(lock: Lock, project: Path = PROJECT, creator: str = "") -> str:
    """Return a hash of all inputs that determine an installed environment.

    The inputs are the lock file, the metadata of the suite, and the path of the checkout. The path
    is included because a checkout is installed in editable mode, so an environment runs the code of
    the checkout that created the environment.

    Args:
        lock: Lock file of the environment.
        project: Checkout whose metadata are hashed.
        creator: Path of the checkout that created the environment. The default is `project`.

    Returns:
        SHA-256 in hexadecimal digits.
    """
    checkout = (creator or str(project)).encode()
    parts = (files.read_bytes(lock.path), suite_package.fingerprint(project), checkout)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
