"""Paths of the checkout or installed package, and of data, logs, and environments."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parents[2]
"""Folder that contains the `suite` package: the root of the repository, or the installation
folder.
"""
IN_CHECKOUT = (PROJECT / "setup.cfg").is_file() and (PROJECT / "conf").is_dir()
"""True if the suite runs from a checkout, False for a package that was installed from a wheel."""
_SHIPPED = Path(__file__).resolve().parents[1] / "shipped"
"""Copies of the shipped folders inside a wheel. setup.py creates the copies when the wheel is
built.
"""


def shipped(folder: str) -> Path:
    """Return the path of a shipped folder: `conf`, `environments`, or `logs/published`."""
    return (PROJECT if IN_CHECKOUT else _SHIPPED) / folder


def data_root() -> Path:
    """Return the folder of prepared data sets: $SUITE_DATA_DIR, or `data` by default.

    The default folder is in the repository. For an installed package, the default folder is in the
    working directory.

    Raises:
        ValueError: The path cannot be used. `in_utf8` and `expand_user` describe the reasons.
    """
    return _root("SUITE_DATA_DIR", "data")


def log_root() -> Path:
    """Return the folder for the output of runs: $SUITE_LOG_DIR, or `logs` by default.

    The location of the default folder and the errors are the same as for `data_root`.
    """
    return _root("SUITE_LOG_DIR", "logs")


def env_root() -> Path:
    """Return the folder of framework environments: $SUITE_ENV_DIR, or `.envs` by default.

    The location of the default folder and the errors are the same as for `data_root`.
    """
    return _root("SUITE_ENV_DIR", ".envs")


def mapped(path: str | os.PathLike[str], path_map: Mapping[str, str]) -> str:
    """Translate a path on this machine to the corresponding path in a container.

    Args:
        path: A path on this machine.
        path_map: Maps each folder on this machine to the corresponding folder in the container.

    Returns:
        The path, with the longest matching folder of `path_map` replaced. The path is returned
        unchanged if no folder matches.
    """
    text = os.fspath(path)
    outside = PurePosixPath(text)
    parents = [parent for parent in path_map if outside.is_relative_to(PurePosixPath(parent))]
    if not parents:
        return text
    longest = max(parents, key=lambda parent: len(PurePosixPath(parent).parts))
    return str(PurePosixPath(path_map[longest]) / outside.relative_to(PurePosixPath(longest)))


def in_utf8(path: Path, what: str) -> Path:
    """Return the path unchanged if it can be written to logs, run.json, and commands.

    Args:
        path: The path to check.
        what: Prefix of the error message. The prefix is the name of the setting that contains the
            path.

    Raises:
        ValueError: The path is not valid UTF-8, or the locale only supports ASCII paths.
    """
    try:
        str(path).encode()
        os.fsencode(path)  # raises an error for a non-ASCII path if the locale is ASCII
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
    """Return True if the file system of `folder` ignores case in file names.

    The function creates a temporary file in `folder`, or in the nearest existing parent folder. If
    the temporary file cannot be created, the function returns False.
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
    """Return the absolute path with symbolic links resolved.

    A link to itself is returned unchanged. `Path.resolve` would raise an error.
    """
    return Path(os.path.realpath(path))


def expand_user(text: str) -> Path:
    """Return the path with `~` replaced by the home folder.

    Raises ValueError if the home folder cannot be determined.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(
            f"{text}: this user has no home folder. Set an absolute path, or set HOME"
        ) from None


def _root(variable: str, folder: str) -> Path:
    """Return the absolute path from an environment variable, with `~` expanded.

    Returns `folder` if the variable is empty or not set.
    """
    value = os.environ.get(variable, "")
    if value:
        return in_utf8(Path(os.path.abspath(expand_user(value))), f"{variable}=")
    return in_utf8((PROJECT if IN_CHECKOUT else Path.cwd()) / folder, "")
