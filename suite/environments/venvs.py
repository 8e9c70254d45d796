"""Virtual environments made from locks: their state, making them, removing them, checking them.

An environment counts as finished when it holds a marker with the digest of what it was made from; the marker is the
last thing written, so one whose making was interrupted is seen as broken and made again from scratch.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.common.paths import PROJECT, env_root
from suite.environments import locks
from suite.environments.locks import Lock, Version

MARKER = ".suite-ready"
ERROR_LINES = 15
"""Lines of a failed command's output that are shown."""

Say = Callable[[str], None]


class CommandFailed(RuntimeError):
    """A command that makes an environment failed; the message ends with its last lines."""


@dataclass(frozen=True)
class Status:
    """What there is of an environment."""

    name: str
    folder: Path
    lock: Lock | None
    """None for a venv that was made by hand."""
    state: str
    """`missing`, `broken`, `outdated`, `ready`, or `by hand` (no lock of this name)."""
    reason: str = ""
    python_version: str = ""
    """`3.11.7`; empty if unknown."""

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"


def existing(root: Path) -> list[str]:
    """Names of the folders below `root` that are virtual environments."""
    return sorted(path.parent.name for path in root.glob("*/pyvenv.cfg"))


def status(name: str, project: Path = PROJECT) -> Status:
    """Look at an environment without running anything in it."""
    lock = locks.framework_locks(project).get(name)
    folder = env_root() / _checked(name)
    python = folder / "bin" / "python"
    if lock is None:
        return Status(name, folder, None, "by hand" if python.exists() else "missing")
    if not os.path.lexists(folder):
        return Status(name, folder, lock, "missing")
    if not python.exists():
        return Status(name, folder, lock, "broken", "its Python is gone")
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        made_from, version = str(marker["digest"]), str(marker["python"])
    except (OSError, ValueError, KeyError, TypeError):
        return Status(name, folder, lock, "broken", "its making did not finish")
    if made_from == locks.digest(lock, project):
        return Status(name, folder, lock, "ready", "", version)
    elsewhere = marker.get("project") != str(project)
    reason = f"made for {marker.get('project')}" if elsewhere else "its lock or setup.cfg has changed"
    return Status(name, folder, lock, "outdated", reason, version)


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
        CommandFailed: venv or pip failed.
    """
    if name not in locks.framework_locks(project):
        raise ValueError(f"environment {name} has no lock; allowed: {', '.join(locks.framework_locks(project))}")
    env_root().mkdir(parents=True, exist_ok=True)
    with _alone(name, say):
        now = status(name, project)
        assert now.lock is not None
        if now.state == "ready" and not recreate:
            say(f"{name}: up to date, Python {now.python_version} in {now.folder}")
            return
        started = time.monotonic()
        if not now.lock.tried:
            say(f"{name}: {now.lock.mark}")
        keep = now.state == "outdated" and now.lock.supports(_version(now.python_version)) and not recreate
        _make(now, keep, python, say, project)
        say(f"{name}: ready after {time.monotonic() - started:.0f} s in {now.folder}")


def _make(now: Status, keep: bool, python: str | None, say: Say, project: Path) -> None:
    """Install everything, then write the marker."""
    assert now.lock is not None
    name, folder, lock = now.name, now.folder, now.lock
    if not keep:
        base = find_python(lock, python)
        _clear(folder)
        say(f"{name}: new virtual environment with {base}")
        _run([base, "-m", "venv", str(folder)])
    (folder / MARKER).unlink(missing_ok=True)
    version = _ask_version(str(now.python))
    if version is None or not lock.supports(_version(version)):
        raise ValueError(f"environment {name} needs Python {lock.python_range}, found {version} at {now.python}")
    pip = [str(now.python), "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
    say(f"{name}: installing {len(lock.pins(_version(version)))} packages; a framework takes a minute or more")
    _run([*pip, "--requirement", str(lock.path)])
    # Two builds of one checkout at once would write the same metadata folder.
    with _alone("install", lambda line: None):
        _run([*pip, "--no-build-isolation", "--editable", str(project)])
    marker = {"digest": locks.digest(lock, project), "python": version, "project": str(project)}
    unfinished = folder / f"{MARKER}.new"
    unfinished.write_text(json.dumps(marker), encoding="utf-8")
    unfinished.replace(folder / MARKER)


def remove(name: str, say: Say = print, project: Path = PROJECT) -> None:
    """Delete an environment's folder.

    Raises ValueError for anything that is not an environment's own folder directly below the environments' root.
    """
    now = status(name, project)
    if not os.path.lexists(now.folder):
        raise ValueError(f"environment {name} does not exist in {env_root()}")
    if now.lock is None and not (now.folder / "pyvenv.cfg").is_file():
        raise ValueError(f"{now.folder} is not an environment; remove it yourself")
    with _alone(name, say):
        _clear(now.folder)
    say(f"{name}: removed {now.folder}")


def find_python(lock: Lock, given: str | None = None) -> str:
    """An interpreter that the lock supports: the given one, this one, or `python3.N` on PATH."""
    first, last = lock.python_first, lock.python_last
    names = [f"python{first[0]}.{minor}" for minor in range(last[1], first[1] - 1, -1)]
    for candidate in [given] if given else [sys.executable, *names]:
        version = _ask_version(candidate)
        if version and lock.supports(_version(version)):
            return candidate
        if given:
            found = f"{given} is Python {version}" if version else f"{given} does not run"
            raise ValueError(f"environment {lock.name} needs Python {lock.python_range}; {found}")
    here, wanted = "{}.{}".format(*sys.version_info), " or ".join(names)
    raise ValueError(
        f"environment {lock.name} needs Python {lock.python_range}; this is {here} and PATH has no {wanted}; "
        f"install one, or say where it is: suite env create {lock.name} --python FILE"
    )


def _ask_version(python: str) -> str | None:
    """`3.11.7`, or None if it does not run."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(text: str) -> Version:
    major, minor, *_ = (int(part) for part in text.split("."))
    return major, minor


def _checked(name: str) -> str:
    """The name, if it can only mean a folder directly below the root."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(f"{name!r} is no environment's name: letters, digits, '.', '_' and '-' only")
    return name


def _clear(folder: Path) -> None:
    """Delete an environment's folder; a link is refused, and links inside are not followed."""
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link; remove it yourself")
    assert folder.parent == env_root(), folder
    if folder.exists():
        # The marker goes first: a half-deleted environment must not look finished.
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder)


def _run(command: list[str]) -> None:
    """Run a command quietly. Raises CommandFailed with its last lines."""
    # A PYTHONPATH would make pip believe that packages are there which the environment does not have.
    variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    variables["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode != 0:
        lines = done.stdout.decode(errors="replace").strip().splitlines()[-ERROR_LINES:]
        raise CommandFailed("\n".join([f"failed with exit code {done.returncode}: {' '.join(command)}", *lines]))


@contextlib.contextmanager
def _alone(name: str, say: Say) -> Iterator[None]:
    """Hold the file lock of one environment; released by the system if this process dies."""
    with open(env_root() / f".{name}.lock", "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: waiting for another process that works on it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
