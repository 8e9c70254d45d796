"""Where things are: the checkout or the installed package, what is shipped with it, data, logs, environments and what was
measured once."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parents[2]
"""Root of the repository, or where the package is installed: the folder that holds the package."""
IN_CHECKOUT = (PROJECT / "setup.cfg").is_file() and (PROJECT / "conf").is_dir()
"""False for a package that was installed from a wheel."""
_SHIPPED = Path(__file__).resolve().parents[1] / "shipped"
"""In a wheel: copies of the folders below, made while it is built (setup.py)."""


def shipped(folder: str) -> Path:
    """A folder that comes with the code: `conf`, `environments` or `logs/published`."""
    return (PROJECT if IN_CHECKOUT else _SHIPPED) / folder


def data_root() -> Path:
    """Prepared data sets: $SUITE_DATA_DIR, else `data` in the repository, for an installed package in the working directory."""
    return _root("SUITE_DATA_DIR", "data")


def log_root() -> Path:
    """What runs write: $SUITE_LOG_DIR, else `logs`, as `data_root`."""
    return _root("SUITE_LOG_DIR", "logs")


def env_root() -> Path:
    """Framework environments: $SUITE_ENV_DIR, else `.envs`, as `data_root`."""
    return _root("SUITE_ENV_DIR", ".envs")


def mapped(path: str | os.PathLike[str], path_map: Mapping[str, str]) -> str:
    """The path with the longest folder of `path_map` that holds it replaced by that folder's value; else as it is."""
    text = os.fspath(path)
    outside = PurePosixPath(text)
    parents = [parent for parent in path_map if outside.is_relative_to(PurePosixPath(parent))]
    if not parents:
        return text
    longest = max(parents, key=lambda parent: len(PurePosixPath(parent).parts))
    return str(PurePosixPath(path_map[longest]) / outside.relative_to(PurePosixPath(longest)))


def in_utf8(path: Path, what: str) -> Path:
    """The path, which logs, run.json and commands can hold. Raises ValueError where its bytes are not UTF-8, or Python was told
    that paths are ASCII. `what`: the setting that it comes from."""
    try:
        str(path).encode()
        os.fsencode(path)  # of a file, whose text is UTF-8 in every locale
    except UnicodeEncodeError:
        shown = str(path).encode(errors="surrogateescape").decode(errors="backslashreplace")
        why = "its bytes are no UTF-8; name another folder"
        if sys.getfilesystemencoding() != "utf-8":
            why = f"this locale's paths are {sys.getfilesystemencoding().upper()}; type: export LC_ALL=C.UTF-8"
        raise ValueError(f"{what}{shown}: {why}") from None
    return path


def folds_names(folder: Path) -> bool:
    """Return True if the file system of `folder` takes names in upper and lower case for the same.

    A file is made for the check, and removed, in the nearest folder above that exists. False if none can be made there.
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
    """Return the absolute path without links. A link that leads back to itself stays as it is, where `Path.resolve` raises."""
    return Path(os.path.realpath(path))


def expand_user(text: str) -> Path:
    """Return the path with `~` replaced by the home folder. Raises ValueError if the home folder is not known."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"{text}: this user has no home folder; give an absolute path, or set HOME") from None


def _root(variable: str, folder: str) -> Path:
    """Absolute path from an environment variable (empty counts as unset; `~` is the home folder). Raises ValueError."""
    given = os.environ.get(variable, "")
    if given:
        return in_utf8(Path(os.path.abspath(expand_user(given))), f"{variable}=")
    return in_utf8((PROJECT if IN_CHECKOUT else Path.cwd()) / folder, "")
