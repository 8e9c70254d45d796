"""Install a plugin, which is a folder or a wheel.

The plugin is installed into a target folder, whose name is a digest of the plugin's content. The
module plugins.py uses this module.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from suite.common.paths import PROJECT, env_root, expand_user
from suite.common.run_folder import safe_name
from suite.environments.captured_command import captured
from workloads import files
from workloads.held_folder import HeldFolder

PACKAGE_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
IGNORED_FILES = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
IGNORED_TOP_FOLDERS = {"build", "dist"}
"""Folders with build output. Folders with these names, and hidden files, are neither copied nor
included in the digest.
"""
REPAIR_HINT = (
    "Packages are not downloaded: repair the plugin, or set plugins to its wheel (pip wheel"
    " --no-deps FOLDER)"
)
INSTALL_SECONDS = 300.0
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-input", "--no-deps")
"""Arguments of pip. Plugins are installed with pip, because uv would keep each build in its
cache.
"""


def plugin_source(text: str) -> Path:
    """Return the absolute path of a plugin's folder or wheel.

    Raises:
        ValueError: The path does not exist or is not a package. The message is a single line.
    """
    path = expand_user(text).absolute()
    if not path.exists():
        raise ValueError(
            f"plugins={text}: no folder or wheel {path} exists, and no distribution of this name is"
            f" installed in {sys.prefix}. Set plugins to the path of the plugin's folder:"
            " plugins=[/path/of/plugin]"
        )
    if path.is_file() and path.suffix != ".whl":
        raise ValueError(
            f"plugins={text}: expected a folder or a wheel (.whl), but {path} is a different kind"
            " of file"
        )
    if path.is_dir() and not any((path / name).is_file() for name in PACKAGE_FILES):
        raise ValueError(
            f"plugins={text}: {path} is not a package: it needs a pyproject.toml with a [project]"
            " table"
        )
    if path.resolve() == PROJECT:
        raise ValueError(
            f"plugins={text}: {path} is the suite itself. Set plugins to the path of a plugin"
        )
    return path


def _files(folder: Path) -> Iterator[Path]:
    """Yield the regular files of a package in sorted order.

    IGNORED_FILES and IGNORED_TOP_FOLDERS are skipped.
    """
    for name, folders, names in os.walk(folder):
        at_top = IGNORED_TOP_FOLDERS if Path(name) == folder else set()
        folders[:] = sorted(set(folders) - IGNORED_FILES(name, folders) - at_top)
        for file in sorted(set(names) - IGNORED_FILES(name, names)):
            if (Path(name) / file).is_file():
                yield Path(name) / file


def _digest(source: Path) -> str:
    """Return a hash of file names and contents, as 16 hexadecimal digits.

    The hash identifies the installed content of a plugin.
    """
    digest = hashlib.sha256()
    for path in _files(source) if source.is_dir() else [source]:
        name = str(path.relative_to(source)).encode()
        content = hashlib.sha256(files.read_bytes(path)).digest()
        digest.update(len(name).to_bytes(8, "little") + name + content)
    return digest.hexdigest()[:16]


def install(source: Path, text: str, keep: bool = True) -> Path:
    """Install a plugin into a folder named by its digest, unless the folder exists.

    The target folder is created atomically, after the installation is complete.

    Args:
        source: The plugin's folder or wheel.
        text: The plugin as the user specified it, for messages.
        keep: If False, a new plugin is installed into a temporary folder, which is deleted when
            this process ends.

    Returns:
        The folder with the installed plugin.

    Raises:
        ValueError: The plugin cannot be installed. The message is a single line.
    """
    root = env_root() / "plugins"
    name = source.name if source.is_dir() else source.name.partition("-")[0]
    final = root / f"{safe_name(name)}-{_digest(source)}"
    if final.is_dir():
        return final
    if not keep:
        held = HeldFolder(Path(tempfile.gettempdir()), "suite-plugin-")
        atexit.register(held.end)
        _pip_install(source, held.path, text)
        return held.path / "installed"
    try:
        root.mkdir(parents=True, exist_ok=True)
        held = HeldFolder(root, f".{name}.")
    except OSError as error:
        raise ValueError(
            f"plugins={text}: {root} cannot be written ({error.strerror}). Set SUITE_ENV_DIR to a"
            " different folder"
        ) from None
    try:
        _pip_install(source, held.path, text)
        (held.path / "installed").chmod(0o755)
        try:
            (held.path / "installed").rename(final)
        except OSError:  # a concurrent process has already created the folder
            if not final.is_dir():
                raise
    finally:
        held.end()
    return final


def _pip_install(source: Path, scratch: Path, text: str) -> None:
    """Install a plugin into `scratch`/installed.

    A plugin's folder is copied first, because a build writes into the folder.

    Args:
        source: The plugin's folder or wheel.
        scratch: Temporary folder.
        text: The plugin as the user specified it, for messages.

    Raises:
        ValueError: pip failed, or the package cannot be used as a plugin.
    """
    target = scratch / "installed"
    if source.is_dir():
        copy = scratch / "source" / source.name
        for path in _files(source):
            destination = copy / path.relative_to(source)
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, destination)
        source = copy
    command = [
        sys.executable,
        *PIP,
        "--no-index",
        "--no-build-isolation",
        "--target",
        str(target),
        str(source),
    ]
    outcome = captured(command, INSTALL_SECONDS, without=("PYTHONHOME",))
    if outcome.code != 0:
        raise ValueError(
            f"plugins={text}: pip cannot install it: {_error_line(outcome.errors)}. {REPAIR_HINT}"
        )
    hidden = [name for name in ("suite", "workloads", "run_suite.py") if (target / name).exists()]
    if hidden:
        raise ValueError(
            f"plugins={text}: it would hide {hidden[0]} of the suite. Rename the package of the"
            " plugin"
        )
    if any(
        "Root-Is-Purelib: false" in path.read_text() for path in target.glob("*.dist-info/WHEEL")
    ):
        raise ValueError(
            f"plugins={text}: it has compiled parts, which fit only a single Python version."
            " Install it yourself into the environments of the controller and of the framework,"
            " and set plugins=[NAME]"
        )


def _error_line(output: str) -> str:
    """Return the line of pip's output that contains the cause of the failure.

    If a build failed, the last line that the build printed is returned. Otherwise, the last line
    with an error is returned.
    """
    lines = [line.strip(" │\t") for line in output.splitlines() if line.strip(" │\t")]
    ends = [number for number, line in enumerate(lines) if "[end of output]" in line]
    if ends and ends[0] > 0:
        return lines[ends[0] - 1]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no output"])[-1].removeprefix("ERROR: ")
