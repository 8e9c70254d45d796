"""Whether an environment really works: its state, versions, imports, and the plugins that it sees."""

import configparser
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from suite.common.paths import PROJECT
from suite.environments import venvs
from suite.environments.environment import Environment, installed_versions
from suite.environments.locks import Lock

IMPORT_SECONDS = 300.0
"""Longest time for importing a framework; the first import from a slow disk takes a minute."""

ENTRY_POINTS = """
import importlib.metadata, sys
for group in sys.argv[1:]:
    for point in importlib.metadata.entry_points(group=group):
        print(group, point.name)
"""


@dataclass(frozen=True)
class Finding:
    """One line of a check."""

    good: bool
    text: str


def check(name: str, project: Path = PROJECT) -> list[Finding]:
    """Check one environment; stops after the state if there is nothing to run. Raises ValueError for a bad name."""
    now = venvs.status(name, project)
    create = f"suite env create {name}"
    if now.lock is None or now.state in ("missing", "broken"):
        reason = f" ({now.reason})" if now.reason else ""
        return [Finding(False, f"{now.state}{reason}; make it with: {create}")]
    findings = [
        Finding(True, f"made from the present lock, Python {now.python_version}, {now.lock.mark}")
        if now.state == "ready"
        else Finding(False, f"{now.state} ({now.reason}); update it with: {create}")
    ]
    environment = Environment(name, (), str(now.python))
    findings.append(_versions(environment, now.lock, now.python_version))
    findings += [_imports(environment, module) for module in now.lock.imports]
    findings.append(_entry_points(environment, project))
    return findings


def _versions(environment: Environment, lock: Lock, python_version: str) -> Finding:
    """Installed versions against the lock."""
    major, minor, *_ = (int(part) for part in python_version.split("."))
    pins = lock.pins((major, minor))
    try:
        installed = installed_versions(environment, list(pins))
    except ValueError as error:
        return Finding(False, str(error))
    wrong = [
        f"{package} {found or 'missing'} instead of {pins[package]}"
        for package, found in installed.items()
        if found != pins[package]
    ]
    if wrong:
        return Finding(False, f"versions: {'; '.join(wrong)}; repair with: suite env create {lock.name} --recreate")
    return Finding(True, f"versions: all {len(pins)} as in {lock.path.name}")


def _imports(environment: Environment, module: str) -> Finding:
    """Import one module in a process of its own."""
    started = time.monotonic()
    code = f"import {module}; print(getattr({module}, '__version__', ''))"
    good, text = _ask(environment, code)
    text = text.splitlines()[-1] if text else ""
    seconds = time.monotonic() - started
    return Finding(good, f"import {module}: {text if not good else f'{text} in {seconds:.1f} s'}")


def _entry_points(environment: Environment, project: Path) -> Finding:
    """The workloads and trainers that setup.cfg names must be visible in the environment."""
    declared = configparser.ConfigParser()
    declared.read(project / "setup.cfg", encoding="utf-8")
    section = dict(declared["options.entry_points"]) if declared.has_section("options.entry_points") else {}
    groups = [group for group in section if group.startswith("suite.")]
    lines = [(group, line) for group in groups for line in section[group].splitlines() if "=" in line]
    wanted = {f"{group} {line.partition('=')[0].strip()}" for group, line in lines}
    good, text = _ask(environment, ENTRY_POINTS, *groups)
    if not good:
        return Finding(False, f"entry points: {text}")
    absent = sorted(wanted - set(text.splitlines()))
    if absent:
        return Finding(False, f"entry points: not visible: {', '.join(absent)}")
    return Finding(True, f"entry points: all {len(wanted)} visible")


def _ask(environment: Environment, code: str, *args: str) -> tuple[bool, str]:
    """Run a piece of Python; (worked, output or the last line of the error)."""
    command = environment.command("-c", code, *args)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {IMPORT_SECONDS:g} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return False, lines[-1] if lines else f"exit code {done.returncode}"
    return True, done.stdout.strip()
