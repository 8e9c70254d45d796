"""Where things are: the checkout or the installed package, what is shipped with it, data, logs, environments and what was
measured once."""

import os
from pathlib import Path

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


def cache_root() -> Path:
    """What was measured once on this machine: $SUITE_CACHE_DIR, else `.cache` in the repository."""
    return _root("SUITE_CACHE_DIR", ".cache")


def _root(variable: str, folder: str) -> Path:
    """Absolute path from an environment variable (empty counts as unset; `~` is the home folder)."""
    given = os.environ.get(variable, "")
    if given:
        return Path(os.path.abspath(Path(given).expanduser()))
    return (PROJECT if IN_CHECKOUT else Path.cwd()) / folder
