"""Checks whether an environment works: its state, versions, imports, and visible entry points."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from suite.common.paths import PROJECT
from suite.environments import own_package, venvs
from suite.environments.answers import answer, last_line
from suite.environments.environment import Environment, libraries_of
from suite.environments.locks import Lock

IMPORT_SECONDS = 300.0
"""Timeout for importing a framework; the first import from a slow disk takes a minute."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check, with a line to print."""

    passed: bool
    text: str


def check_environment(name: str, project: Path = PROJECT) -> list[CheckResult]:
    """Check one environment; a missing or broken one gives only its state. Raises ValueError for a bad name."""
    status = venvs.status(name, project)
    create = f"suite env create {name}"
    if status.lock is None or status.state in ("missing", "broken"):
        reason = f" ({status.reason})" if status.reason else ""
        return [CheckResult(False, f"{status.state}{reason}; make it with: {create}")]
    results = [
        CheckResult(True, f"made from the present lock, Python {status.python_version}, {status.lock.mark}")
        if status.state == "ready"
        else CheckResult(False, f"{status.state} ({status.reason}); update it with: {create}")
    ]
    environment = Environment(name, libraries_of(name, status.python), str(status.python))
    results.append(_check_versions(status, status.lock))
    results += [_check_import(environment, module) for module in status.lock.imports]
    results.append(_check_entry_points(status.folder, project))
    return results


def installed(folder: Path) -> dict[str, metadata.Distribution]:
    """Canonical name to distribution of what a folder's site-packages hold, read without starting its Python."""
    places = [str(path) for path in folder.glob("lib/python3.*/site-packages")]
    return {str(canonicalize_name(item.metadata["Name"])): item for item in metadata.distributions(path=places)}


def damage(status: venvs.EnvironmentStatus) -> str:
    """What is wrong with the packages of a finished environment, told from its files without starting its Python.

    Empty: nothing. A ready one must hold what its lock names; of an outdated one only the files that it installed are
    looked for.
    """
    if status.lock is None or status.state not in ("ready", "outdated"):
        return ""
    distributions = installed(status.folder)
    if status.state == "ready" and (wrong := _other_versions(status, distributions)):
        return wrong[0]
    for name, distribution in distributions.items():
        lost = [
            file for file in distribution.files or () if file.suffix != ".pyc" and not Path(str(file.locate())).exists()
        ]
        if lost:
            return f"{len(lost)} file(s) of {name} are gone, such as {lost[0]}"
    return ""


def _other_versions(status: venvs.EnvironmentStatus, distributions: Mapping[str, metadata.Distribution]) -> list[str]:
    """What is not there, or in another version than the lock has it."""
    pins = status.lock.pins(venvs.parsed_version(status.python_version)) if status.lock else {}
    found = {name: distributions[name].version if name in distributions else "missing" for name in pins}
    return [f"{name} {version} instead of {pins[name]}" for name, version in found.items() if version != pins[name]]


def _check_versions(status: venvs.EnvironmentStatus, lock: Lock) -> CheckResult:
    """Compare the installed versions with the lock."""
    if wrong := _other_versions(status, installed(status.folder)):
        return CheckResult(False, f"versions: {'; '.join(wrong)}; repair with: suite env create {lock.name} --recreate")
    count = len(lock.pins(venvs.parsed_version(status.python_version)))
    return CheckResult(True, f"versions: all {count} as in {lock.path.name}")


def _check_import(environment: Environment, module: str) -> CheckResult:
    """Import one module in a separate process."""
    started = time.monotonic()
    code = f"import {module}; print(getattr({module}, '__version__', ''))"
    outcome = answer(environment.command("-c", code), IMPORT_SECONDS)
    text = f"{last_line(outcome.out)} in {time.monotonic() - started:.1f} s" if outcome.code == 0 else outcome.why
    return CheckResult(outcome.code == 0, f"import {module}: {text}")


def _check_entry_points(folder: Path, project: Path) -> CheckResult:
    """Check that the workloads and trainers that the package declares are visible in the environment."""
    declared = own_package.entry_points(project)
    points = (point for distribution in installed(folder).values() for point in distribution.entry_points)
    missing = sorted(declared - {f"{point.group} {point.name}" for point in points})
    if missing:
        return CheckResult(False, f"entry points: not visible: {', '.join(missing)}")
    return CheckResult(True, f"entry points: all {len(declared)} visible")
