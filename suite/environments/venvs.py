"""Creates, updates and removes virtual environments from locks, and tells their state.

An environment counts as complete if it has a marker with the digest of its lock. The marker is written last, so an
environment whose creation was interrupted counts as broken and is created again from scratch.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.common.paths import PROJECT, env_root
from suite.common.typed import as_typed
from suite.environments import installer, locks, own_package
from suite.environments.answers import answer
from suite.environments.locks import Lock, Version
from workloads import files

MARKER = ".suite-ready"
ERROR_LINES = 15
"""Lines of a failed command's output that are shown."""

Say = Callable[[str], None]


class CommandFailed(RuntimeError):
    """A command that creates an environment failed; the message ends with the command's last output lines."""


@dataclass(frozen=True)
class EnvironmentStatus:
    """The state of an environment."""

    name: str
    folder: Path
    lock: Lock | None
    """None for a venv that was made by hand."""
    state: str
    """`missing`, `broken`, `outdated`, `ready`, or `by hand` (no lock of this name)."""
    reason: str = ""
    python_version: str = ""
    """`3.11.7`; empty if unknown."""
    is_of_another_checkout: bool = False
    """True for an outdated environment that another checkout created from the same lock and `setup.cfg`. It works, with the
    code of that checkout."""

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"

    @property
    def shown(self) -> str:
        """The state with its reason, for people."""
        if self.is_of_another_checkout:
            return f"{self.reason}; works; `{as_typed(f'suite env create {self.name}')}` updates it"
        return f"{self.state} ({self.reason})" if self.reason else self.state


def existing(root: Path) -> list[str]:
    """Names of the folders below `root` that are virtual environments."""
    return sorted(path.parent.name for path in root.glob("*/pyvenv.cfg"))


def status(name: str, project: Path = PROJECT) -> EnvironmentStatus:
    """The state of an environment, found without running anything in it."""
    lock = locks.framework_locks(project).get(name)
    folder = env_root() / _validated_name(name)
    python = folder / "bin" / "python"
    if lock is None:
        return EnvironmentStatus(name, folder, None, "by hand" if python.exists() else "missing")
    if not os.path.lexists(folder):
        return EnvironmentStatus(name, folder, lock, "missing")
    if not python.exists():
        return EnvironmentStatus(name, folder, lock, "broken", "its Python is gone")
    try:
        marker = files.read_json(folder / MARKER)
        made_from, version = str(marker["digest"]), str(marker["python"])
    except (OSError, ValueError, KeyError, TypeError):
        return EnvironmentStatus(name, folder, lock, "broken", "its making did not finish")
    if made_from == locks.digest(lock, project):
        return EnvironmentStatus(name, folder, lock, "ready", "", version)
    creator, is_of_another_checkout = str(marker.get("project")), False
    if creator != str(project) and not Path(creator).is_dir():
        reason = f"the checkout that created it, {creator}, is gone"
    elif made_from == locks.digest(lock, project, creator):
        reason, is_of_another_checkout = "created by another checkout", True
    else:
        reason = "its lock or setup.cfg has changed"
    return EnvironmentStatus(name, folder, lock, "outdated", reason, version, is_of_another_checkout)


def create(
    name: str, recreate: bool = False, python: str | None = None, say: Say = print, project: Path = PROJECT
) -> None:
    """Make an environment from its lock, or bring it up to date; a ready one is left as it is.

    Args:
        name: name of the lock.
        recreate: start from an empty folder.
        python: the interpreter to build on; default: one that the lock supports, this one if it does.
        say: gets progress lines.
        project: the checkout that is installed (editable) into the environment.

    Raises:
        ValueError: there is no such lock, or no Python that it supports.
        CommandFailed: venv or uv failed.
    """
    if name not in locks.framework_locks(project):
        raise ValueError(f"environment {name} has no lock; allowed: {', '.join(locks.framework_locks(project))}")
    env_root().mkdir(parents=True, exist_ok=True)
    with _exclusive_lock(name, say):
        current = status(name, project)
        assert current.lock is not None
        if current.state == "ready" and not recreate:
            say(f"{name}: up to date, Python {current.python_version} in {current.folder}")
            return
        started = time.monotonic()
        if not current.lock.tried:
            say(f"{name}: {current.lock.mark}")
        keep = (
            current.state == "outdated"
            and current.lock.supports(parsed_version(current.python_version))
            and not recreate
        )
        _make(current, keep, python, say, project)
        say(f"{name}: ready after {time.monotonic() - started:.0f} s in {current.folder}")


def _make(current: EnvironmentStatus, keep: bool, python: str | None, say: Say, project: Path) -> None:
    """Install everything from the lock, then write the marker."""
    assert current.lock is not None
    name, folder, lock = current.name, current.folder, current.lock
    if not keep:
        base = find_python(lock, python)
        _delete_folder(folder)
        say(f"{name}: new virtual environment with {base}")
        _run([base, "-m", "venv", "--without-pip", str(folder)])
    (folder / MARKER).unlink(missing_ok=True)
    version = _python_version(str(current.python))
    if version is None or not lock.supports(parsed_version(version)):
        raise ValueError(f"environment {name} needs Python {lock.python_range}, found {version} at {current.python}")
    command, variables = installer.install(str(current.python))  # asks pip, once

    def install(*words: str) -> None:
        _run([*command, *words], variables)

    say(f"{name}: installing {len(lock.pins(parsed_version(version)))} packages; a framework takes a minute or more")
    install("--requirement", str(lock.path))
    # Two builds of one checkout at once would write the same metadata folder.
    with _exclusive_lock("install", lambda line: None):
        if own_package.is_checkout(project):
            for package in locks.packages(lock, project):
                install("--no-build-isolation", "--editable", str(package))
        else:
            own_package.copy_into(next(folder.glob("lib/python3.*/site-packages")))
    marker = {"digest": locks.digest(lock, project), "python": version, "project": str(project)}
    unfinished = folder / f"{MARKER}.new"
    unfinished.write_text(json.dumps(marker), encoding="utf-8")
    unfinished.replace(folder / MARKER)


def remove(name: str, say: Say = print, project: Path = PROJECT) -> None:
    """Delete an environment's folder.

    Raises ValueError for anything that is not an environment's own folder directly below the environments' root.
    """
    current = status(name, project)
    if not os.path.lexists(current.folder):
        raise ValueError(f"environment {name} does not exist in {env_root()}")
    with _exclusive_lock(name, say):
        _delete_folder(current.folder)
    say(f"{name}: removed {current.folder}")


def find_python(lock: Lock, requested: str | None = None) -> str:
    """An interpreter that the lock supports: the given one, this one, or `python3.N` on PATH."""
    first, last = lock.python_first, lock.python_last
    names = [f"python{first[0]}.{minor}" for minor in range(last[1], first[1] - 1, -1)]
    for candidate in [requested] if requested else [sys.executable, *names]:
        version = _python_version(candidate)
        if version and lock.supports(parsed_version(version)):
            return candidate
        if requested:
            problem = f"{requested} is Python {version}" if version else f"{requested} does not run"
            raise ValueError(f"environment {lock.name} needs Python {lock.python_range}; {problem}")
    this_version, supported = "{}.{}".format(*sys.version_info), " or ".join(names)
    raise ValueError(
        f"environment {lock.name} needs Python {lock.python_range}; this is {this_version} and PATH has no {supported}; "
        f"install one, or say where it is: suite env create {lock.name} --python FILE"
    )


def _python_version(python: str) -> str | None:
    """Version of an interpreter, `3.11.7`; None if it does not run."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    outcome = answer([python, "-c", code], 60)
    return outcome.out if outcome.code == 0 else None


def parsed_version(text: str) -> Version:
    """(3, 11) of `3.11.7`."""
    major, minor, *_ = (int(part) for part in text.split("."))
    return major, minor


def _validated_name(name: str) -> str:
    """The name, if it can only be a folder directly below the root. Raises ValueError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(f"{name!r} is no environment's name: letters, digits, '.', '_' and '-' only")
    return name


def _delete_folder(folder: Path) -> None:
    """Delete an environment's folder. A link, and what holds files and is no environment, are refused; links inside are not
    followed."""
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link; remove it yourself")
    marks = (MARKER, f"{MARKER}.new", "pyvenv.cfg")
    if not any((folder / name).is_file() for name in marks) and any(files for _, _, files in os.walk(folder)):
        raise ValueError(f"{folder} is not an environment; remove it yourself, or set SUITE_ENV_DIR to another folder")
    assert folder.parent == env_root(), folder
    if folder.exists():
        # The marker goes first: a half-deleted environment must not look finished.
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder)


def _run(command: list[str], variables: Mapping[str, str] | None = None) -> None:
    """Run a command quietly. Raises CommandFailed with its last lines."""
    # A PYTHONPATH would make builds believe that packages are there which the environment does not have.
    outcome = answer(command, without=("PYTHONPATH", "PYTHONHOME"), also=variables)
    if outcome.code != 0:
        lines = f"{outcome.out}\n{outcome.errors}".strip().splitlines()[-ERROR_LINES:]
        raise CommandFailed("\n".join([f"failed with exit code {outcome.code}: {' '.join(command)}", *lines]))


@contextlib.contextmanager
def _exclusive_lock(name: str, say: Say) -> Iterator[None]:
    """Context that holds the file lock of one environment; the system releases it if this process dies."""
    with open(env_root() / f".{name}.lock", "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: waiting for another process that works on it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
