"""Where things are: the checkout, data, logs, environments and what was measured once."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
"""Root of the repository: the folder that holds the package."""


def data_root() -> Path:
    """Prepared data sets: $SUITE_DATA_DIR, else `data` in the repository."""
    return _root("SUITE_DATA_DIR", "data")


def log_root() -> Path:
    """What runs write: $SUITE_LOG_DIR, else `logs` in the repository."""
    return _root("SUITE_LOG_DIR", "logs")


def env_root() -> Path:
    """Framework environments: $SUITE_ENV_DIR, else `.envs` in the repository."""
    return _root("SUITE_ENV_DIR", ".envs")


def cache_root() -> Path:
    """What was measured once on this machine: $SUITE_CACHE_DIR, else `.cache` in the repository."""
    return _root("SUITE_CACHE_DIR", ".cache")


def _root(variable: str, folder: str) -> Path:
    """Absolute path from an environment variable (empty counts as unset; `~` is the home folder)."""
    given = os.environ.get(variable, "")
    return Path(os.path.abspath(Path(given).expanduser())) if given else PROJECT / folder
