"""Check whether an environment works.

The checks cover the environment's status, package versions, imports, and visible entry points.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from suite.common.paths import PROJECT
from suite.environments import suite_package, venvs
from suite.environments.captured_command import captured, last_line
from suite.environments.environment import Environment, libraries_of
from suite.environments.locks import Lock

IMPORT_SECONDS = 300.0
"""Timeout in seconds for importing a framework. The first import from a slow disk may need a
minute.
"""


@dataclass(frozen=True)
class CheckResult:
    """Result of a check of an environment, with a line to print."""

    passed: bool
    text: str


def check_environment(name: str, project: Path = PROJECT) -> list[CheckResult]:
    """Check an environment, and return the results of all checks.

    If the environment is missing or broken, the only check is that of its status.

    Raises:
        ValueError: The name is not a valid name of an environment.
    """
    status = venvs.status(name, project)
    create = f"suite env create {name}"
    if status.lock is None or status.state in ("missing", "broken"):
        reason = f" ({status.reason})" if status.reason else ""
        return [CheckResult(False, f"{status.state}{reason}. Run: {create}")]
    results = [
        CheckResult(
            True,
            f"created from the current lock, Python {status.python_version}, {status.lock.mark}",
        )
        if status.state == "ready"
        else CheckResult(False, f"{status.state} ({status.reason}). To update it, run: {create}")
    ]
    environment = Environment(name, libraries_of(name, status.python), str(status.python))
    results.append(_check_versions(status, status.lock))
    results += [_check_import(environment, module) for module in status.lock.imports]
    results.append(_check_entry_points(status.folder, project))
    return results


def installed(folder: Path) -> dict[str, metadata.Distribution]:
    """Return the distributions in an environment's site-packages, by canonical name.

    The function does not start the environment's Python.
    """
    site_packages = [str(path) for path in folder.glob("lib/python3.*/site-packages")]
    return {
        str(canonicalize_name(item.metadata["Name"])): item
        for item in metadata.distributions(path=site_packages)
    }


def damage(status: venvs.EnvironmentStatus) -> str:
    """Return the first defect in an environment's packages, or an empty string.

    The function only reads files and does not start the environment's Python. A `ready` environment
    must contain the packages of its lock file. An `outdated` environment is only checked for
    missing files of its installed packages.
    """
    if status.lock is None or status.state not in ("ready", "outdated"):
        return ""
    distributions = installed(status.folder)
    if status.state == "ready" and (mismatches := _version_mismatches(status, distributions)):
        return mismatches[0]
    for name, distribution in distributions.items():
        missing = [
            file
            for file in distribution.files or ()
            if file.suffix != ".pyc" and not Path(str(file.locate())).exists()
        ]
        if missing:
            return f"{len(missing)} file(s) of {name} are missing, such as {missing[0]}"
    return ""


def _version_mismatches(
    status: venvs.EnvironmentStatus, distributions: Mapping[str, metadata.Distribution]
) -> list[str]:
    """Return a line for each package that is missing or does not match the lock file."""
    pins = status.lock.pins(venvs.parsed_version(status.python_version)) if status.lock else {}
    versions = {
        name: distributions[name].version if name in distributions else "missing" for name in pins
    }
    return [
        f"{name} {version} instead of {pins[name]}"
        for name, version in versions.items()
        if version != pins[name]
    ]


def _check_versions(status: venvs.EnvironmentStatus, lock: Lock) -> CheckResult:
    """Compare the installed package versions with the lock file."""
    if mismatches := _version_mismatches(status, installed(status.folder)):
        repair = f"suite env create {lock.name} --recreate"
        return CheckResult(
            False, f"versions: {', '.join(mismatches)}. To repair them, run: {repair}"
        )
    count = len(lock.pins(venvs.parsed_version(status.python_version)))
    return CheckResult(True, f"versions: all {count} as in {lock.path.name}")


def _check_import(environment: Environment, module: str) -> CheckResult:
    """Check in a separate process that a module can be imported."""
    started = time.monotonic()
    code = f"import {module}; print(getattr({module}, '__version__', ''))"
    outcome = captured(environment.command("-c", code), IMPORT_SECONDS)
    text = (
        f"{last_line(outcome.out)} in {time.monotonic() - started:.1f} s"
        if outcome.code == 0
        else outcome.why
    )
    return CheckResult(outcome.code == 0, f"import {module}: {text}")


def _check_entry_points(folder: Path, project: Path) -> CheckResult:
    """Check that the environment contains the entry points of all workloads and trainers.

    The expected entry points are declared in the metadata of the suite's package.
    """
    declared = suite_package.entry_points(project)
    points = (
        point for distribution in installed(folder).values() for point in distribution.entry_points
    )
    missing = sorted(declared - {f"{point.group} {point.name}" for point in points})
    if missing:
        return CheckResult(False, f"entry points: not visible: {', '.join(missing)}")
    return CheckResult(True, f"entry points: all {len(declared)} visible")
