"""Create, update, and remove virtual environments, and report their status.

Environments are created from lock files. A complete environment contains a marker file with the
digest of its lock file. The marker file is written last. An environment whose creation was
interrupted therefore has no marker file, is `broken`, and is created again from scratch.
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

from suite.common.command_text import localize_commands
from suite.common.paths import PROJECT, env_root
from suite.environments import installer, locks, suite_package
from suite.environments.captured_command import captured
from suite.environments.locks import Lock, Version
from workloads import files
from workloads.api import allowed_text

MARKER = ".suite-ready"
ERROR_LINES = 15
"""Number of output lines of a failed command that are shown."""

PrintLine = Callable[[str], None]
"""Function that receives progress messages, such as `print`."""


class CommandFailed(RuntimeError):
    """Error of a command that failed while an environment was created.

    The error message ends with the last lines of the command's output.
    """


@dataclass(frozen=True)
class EnvironmentStatus:
    """Status of an environment, with its folder, lock file, and Python version."""

    name: str
    folder: Path
    lock: Lock | None
    """Lock file of the environment. The attribute is None for a venv that the user created
    without a lock file.
    """
    state: str
    """Status of the environment: `missing`, `broken`, `outdated`, `ready`, or `by hand` (a venv for
    whose name no lock file exists).
    """
    reason: str = ""
    python_version: str = ""
    """Python version, such as `3.11.7`. The string is empty if the version is unknown."""
    is_of_another_checkout: bool = False
    """True for an outdated environment that a different checkout created from the same lock file
    and `setup.cfg`. The environment works, but runs the code of the different checkout.
    """

    @property
    def python(self) -> Path:
        """Return the path of the environment's interpreter."""
        return self.folder / "bin" / "python"

    @property
    def shown(self) -> str:
        """Return the status of the environment and the reason for it as text for the user."""
        if self.is_of_another_checkout:
            return (
                f"{self.reason} (usable). To update it, run:"
                f" {localize_commands(f'suite env create {self.name}')}"
            )
        return f"{self.state} ({self.reason})" if self.reason else self.state


def existing(root: Path) -> list[str]:
    """Return the names of the folders below `root` that are virtual environments."""
    return sorted(path.parent.name for path in root.glob("*/pyvenv.cfg"))


def status(name: str, project: Path = PROJECT) -> EnvironmentStatus:
    """Return the status of an environment, without starting its Python.

    Args:
        name: Name of the environment.
        project: Checkout with which the environment is compared.

    Raises:
        ValueError: The name is not a valid name of an environment.
    """
    lock = locks.framework_locks(project).get(name)
    folder = env_root() / _validated_name(name)
    python = folder / "bin" / "python"
    if lock is None:
        return EnvironmentStatus(name, folder, None, "by hand" if python.exists() else "missing")
    if not os.path.lexists(folder):
        return EnvironmentStatus(name, folder, lock, "missing")
    if not python.exists():
        return EnvironmentStatus(name, folder, lock, "broken", "its Python is missing")
    try:
        marker = files.read_json(folder / MARKER)
        digest, version = str(marker["digest"]), str(marker["python"])
    except (OSError, ValueError, KeyError, TypeError):
        return EnvironmentStatus(name, folder, lock, "broken", "its creation did not finish")
    if digest == locks.digest(lock, project):
        return EnvironmentStatus(name, folder, lock, "ready", "", version)
    creator, is_of_another_checkout = str(marker.get("project")), False
    if creator != str(project) and not Path(creator).is_dir():
        reason = f"the checkout that created it, {creator}, does not exist any more"
    elif digest == locks.digest(lock, project, creator):
        reason, is_of_another_checkout = "created by a different checkout", True
    else:
        reason = "its lock or setup.cfg has changed"
    return EnvironmentStatus(
        name, folder, lock, "outdated", reason, version, is_of_another_checkout
    )


def create(
    name: str,
    recreate: bool = False,
    python: str | None = None,
    print_line: PrintLine = print,
    project: Path = PROJECT,
) -> None:
    """Create an environment from its lock file, or update it.

    An environment that is `ready` is not changed.

    Args:
        name: Name of the lock file.
        recreate: Delete an existing environment first.
        python: Interpreter of the environment. The default is this interpreter if the lock file
            supports it, otherwise a supported interpreter on the PATH.
        print_line: Function that receives progress messages.
        project: Checkout that is installed into the environment in editable mode.

    Raises:
        ValueError: The lock file does not exist, or no Python that the lock file supports was
            found.
        CommandFailed: venv or uv failed.
    """
    if name not in locks.framework_locks(project):
        raise ValueError(
            f"environment {name} has no lock, {allowed_text(locks.framework_locks(project), name)}"
        )
    env_root().mkdir(parents=True, exist_ok=True)
    with _exclusive_lock(name, print_line):
        current = status(name, project)
        assert current.lock is not None
        if current.state == "ready" and not recreate:
            print_line(f"{name}: up to date, Python {current.python_version} in {current.folder}")
            return
        started = time.monotonic()
        if not current.lock.tried:
            print_line(f"{name}: {current.lock.mark}")
        keep = (
            current.state == "outdated"
            and current.lock.supports(parsed_version(current.python_version))
            and not recreate
        )
        _make(current, keep, python, print_line, project)
        print_line(f"{name}: ready after {time.monotonic() - started:.0f} s in {current.folder}")


def _make(
    current: EnvironmentStatus, keep: bool, python: str | None, log: PrintLine, project: Path
) -> None:
    """Install all packages of the lock file, and write the marker file.

    Args:
        current: Status of the environment before the installation.
        keep: Install into the existing venv instead of a new venv.
        python: Interpreter for a new venv. If None, `find_python` searches for an interpreter.
        log: Function that receives progress messages.
        project: Checkout that is installed.
    """
    assert current.lock is not None
    name, folder, lock = current.name, current.folder, current.lock
    if not keep:
        base = find_python(lock, python)
        _delete_folder(folder)
        log(f"{name}: new virtual environment with {base}")
        _run([base, "-m", "venv", "--without-pip", str(folder)])
    (folder / MARKER).unlink(missing_ok=True)
    version = _python_version(str(current.python))
    if version is None or not lock.supports(parsed_version(version)):
        raise ValueError(
            f"environment {name} needs Python {lock.python_range}, but {current.python} has version"
            f" {version}"
        )
    # called once here, so that the settings of pip are read only once
    command, env = installer.install(str(current.python))

    def install(*arguments: str) -> None:
        _run([*command, *arguments], env)

    log(
        f"{name}: installing {len(lock.pins(parsed_version(version)))} packages. A framework takes"
        " a minute or more"
    )
    install("--requirement", str(lock.path))
    # The lock is needed because two concurrent builds of the same checkout would write to the same
    # metadata folder.
    with _exclusive_lock("install", lambda line: None):
        if suite_package.is_checkout(project):
            install("--no-build-isolation", "--editable", str(project))
        else:
            suite_package.copy_into(next(folder.glob("lib/python3.*/site-packages")))
    marker = {"digest": locks.digest(lock, project), "python": version, "project": str(project)}
    unfinished = folder / f"{MARKER}.new"
    unfinished.write_text(json.dumps(marker), encoding="utf-8")
    unfinished.replace(folder / MARKER)


def remove(name: str, print_line: PrintLine = print, project: Path = PROJECT) -> None:
    """Delete the folder of an environment.

    Args:
        name: Name of the environment.
        print_line: Function that receives progress messages.
        project: Checkout whose lock files are used.

    Raises:
        ValueError: The folder does not exist, or is not an environment directly inside the folder
            of environments.
    """
    current = status(name, project)
    if not os.path.lexists(current.folder):
        raise ValueError(f"environment {name} does not exist in {env_root()}")
    with _exclusive_lock(name, print_line):
        _delete_folder(current.folder)
    print_line(f"{name}: removed {current.folder}")


def find_python(lock: Lock, requested: str | None = None) -> str:
    """Return an interpreter that the lock file supports.

    Args:
        lock: Lock file of the environment.
        requested: Interpreter to use. The default is this interpreter if the lock file supports it,
            otherwise `python3.N` on the PATH.

    Raises:
        ValueError: No supported interpreter was found, or the lock file does not support the
            requested interpreter.
    """
    first, last = lock.python_first, lock.python_last
    names = [f"python{first[0]}.{minor}" for minor in range(last[1], first[1] - 1, -1)]
    for candidate in [requested] if requested else [sys.executable, *names]:
        version = _python_version(candidate)
        if version and lock.supports(parsed_version(version)):
            return candidate
        if requested:
            problem = f"{requested} is Python {version}" if version else f"{requested} does not run"
            raise ValueError(
                f"environment {lock.name} needs Python {lock.python_range}, but {problem}"
            )
    this_version, supported = "{}.{}".format(*sys.version_info), " or ".join(names)
    raise ValueError(
        f"environment {lock.name} needs Python {lock.python_range}, but this is {this_version} and"
        f" PATH has no {supported}. Install a supported version, or run: suite env create"
        f" {lock.name} --python FILE"
    )


def _python_version(python: str) -> str | None:
    """Return the version of an interpreter, such as `3.11.7`, or None if it fails to run."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    outcome = captured([python, "-c", code], 60)
    return outcome.out if outcome.code == 0 else None


def parsed_version(text: str) -> Version:
    """Return the major and minor version, such as (3, 11) for `3.11.7`."""
    major, minor, *_ = (int(part) for part in text.split("."))
    return major, minor


def _validated_name(name: str) -> str:
    """Check the name of an environment, and return the name.

    Raises ValueError if the name could be a path outside the environments' folder, or a path to a
    nested folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(
            f"{name!r} is not a valid name of an environment: only letters, digits, '.', '_', and"
            " '-' are allowed"
        )
    return name


def _delete_folder(folder: Path) -> None:
    """Delete the folder of an environment, without following links inside the folder.

    Raises:
        ValueError: The folder is a link, or contains files and is not an environment.
    """
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link. Remove it yourself")
    marks = (MARKER, f"{MARKER}.new", "pyvenv.cfg")
    if not any((folder / name).is_file() for name in marks) and any(
        files for _, _, files in os.walk(folder)
    ):
        raise ValueError(
            f"{folder} is not an environment. Remove it yourself, or set SUITE_ENV_DIR to a"
            " different folder"
        )
    assert folder.parent == env_root(), folder
    if folder.exists():
        # Delete the marker file first, because a partially deleted environment must not look
        # complete.
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder)


def _run(command: list[str], env: Mapping[str, str] | None = None) -> None:
    """Run a command without printing its output.

    If the command fails, the function raises CommandFailed with the last lines of the output.
    """
    # With PYTHONPATH set, builds would import packages from outside the environment.
    outcome = captured(command, without=("PYTHONPATH", "PYTHONHOME"), also=env)
    if outcome.code != 0:
        lines = f"{outcome.out}\n{outcome.errors}".strip().splitlines()[-ERROR_LINES:]
        raise CommandFailed(
            "\n".join([f"failed with exit code {outcome.code}: {' '.join(command)}", *lines])
        )


@contextlib.contextmanager
def _exclusive_lock(name: str, log: PrintLine) -> Iterator[None]:
    """Hold the file lock of an environment inside the `with` block.

    The operating system releases the file lock if this process dies.
    """
    with open(env_root() / f".{name}.lock", "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"{name}: waiting for a different process that is using this environment")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
