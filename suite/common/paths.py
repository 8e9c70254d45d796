"""Paths of the checkout or the installed package, and of data, logs, and environments."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parents[2]
"""Folder that contains the `suite` package: the root of the repository, or the folder of the
installed package.
"""
IN_CHECKOUT = (PROJECT / "setup.cfg").is_file() and (PROJECT / "conf").is_dir()
"""False for a package that was installed from a wheel."""
_SHIPPED = Path(__file__).resolve().parents[1] / "shipped"
"""Copies of the shipped folders in a wheel. setup.py creates them when the wheel is built."""


def shipped(folder: str) -> Path:
    """Return the path of a shipped folder: `conf`, `environments`, or `logs/published`."""
    return (PROJECT if IN_CHECKOUT else _SHIPPED) / folder


def data_root() -> Path:
    """Return the folder of prepared data sets: $SUITE_DATA_DIR, or `data` by default.

    The default is relative to the repository, or to the working directory for an installed package.

    Raises:
        ValueError: The path cannot be used, see `in_utf8` and `expand_user`.
    """
    return _root("SUITE_DATA_DIR", "data")


def log_root() -> Path:
    """Return the folder for the output of runs: $SUITE_LOG_DIR, or `logs` by default.

    The rules are those of `data_root`.
    """
    return _root("SUITE_LOG_DIR", "logs")


def env_root() -> Path:
    """Return the folder of framework environments: $SUITE_ENV_DIR, or `.envs` by default.

    The rules are those of `data_root`.
    """
    return _root("SUITE_ENV_DIR", ".envs")


def mapped(path: str | os.PathLike[str], path_map: Mapping[str, str]) -> str:
    """Return the path as it is in a container.

    Args:
        path: A path on this machine.
        path_map: Folders on this machine, and the same folders in the container.

    Returns:
        The path, with the longest folder of `path_map` that contains it replaced. Unchanged if no
        folder contains it.
    """
    text = os.fspath(path)
    outside = PurePosixPath(text)
    parents = [parent for parent in path_map if outside.is_relative_to(PurePosixPath(parent))]
    if not parents:
        return text
    longest = max(parents, key=lambda parent: len(PurePosixPath(parent).parts))
    return str(PurePosixPath(path_map[longest]) / outside.relative_to(PurePosixPath(longest)))


def in_utf8(path: Path, what: str) -> Path:
    """Return the path unchanged, after checking that logs, run.json, and commands can hold it.

    Args:
        path: The path.
        what: Prefix of the error message: the setting that contains the path.

    Raises:
        ValueError: The path is not valid UTF-8, or the locale is limited to ASCII paths.
    """
    try:
        str(path).encode()
        os.fsencode(path)  # a path from a file, whose text is UTF-8 in every locale
    except UnicodeEncodeError:
        shown = str(path).encode(errors="surrogateescape").decode(errors="backslashreplace")
        why = "the path is not valid UTF-8. Set a different folder"
        if sys.getfilesystemencoding() != "utf-8":
            why = (
                f"paths in this locale are {sys.getfilesystemencoding().upper()}. Run: export"
                " LC_ALL=C.UTF-8"
            )
        raise ValueError(f"{what}{shown}: {why}") from None
    return path


def folds_names(folder: Path) -> bool:
    """Return True if the file system of `folder` ignores the case of names.

    The check creates a temporary file in `folder`, or in the nearest parent folder that exists.
    False if that fails.
    """
    existing = next((above for above in (folder, *folder.parents) if above.is_dir()), None)
    if existing is None:
        return False
    try:
        with tempfile.NamedTemporaryFile(prefix=".suite-Case-", dir=existing) as probe:
            return Path(probe.name).with_name(Path(probe.name).name.swapcase()).exists()
    except OSError:
        return False


def real_path(path: Path) -> Path:
    """Return the absolute path without links.

    A link to itself stays unchanged, while `Path.resolve` would raise an error.
    """
    return Path(os.path.realpath(path))


def expand_user(text: str) -> Path:
    """Return the path with `~` replaced by the home folder.

    Raises ValueError if the home folder is not known.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(
            f"{text}: this user has no home folder. Set an absolute path, or set HOME"
        ) from None


def _root(variable: str, folder: str) -> Path:
    """Return the absolute path in an environment variable, with `~` expanded.

    Returns `folder` if the variable is empty or not set.
    """
    value = os.environ.get(variable, "")
    if value:
        return in_utf8(Path(os.path.abspath(expand_user(value))), f"{variable}=")
    return in_utf8((PROJECT if IN_CHECKOUT else Path.cwd()) / folder, "")
