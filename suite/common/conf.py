"""Where configuration files lie: the folder that comes with the code, and those of `--config-dir` and `hydra.searchpath`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.common.paths import shipped
from workloads.api import sets

CONF = shipped("conf")
_own: list[Path] = []


def search(folders: Sequence[Path]) -> None:
    """From now on look into these folders too. Raises ValueError for one that does not exist."""
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"--config-dir {folder}: no such folder; it holds files such as profile/NAME.yaml")
    _own[:] = folders
    sets.search(folders)


def search_words() -> list[str]:
    """The user's folders as a word of the command line; none without any."""
    return [f"hydra.searchpath={[f'file://{folder}' for folder in _own]}"] if _own else []


def flags() -> list[str]:
    """The same as it is typed where there is one: `--config-dir FOLDER`."""
    return ["--config-dir", str(_own[0])] if len(_own) == 1 else search_words()


def files(group: str) -> dict[str, Path]:
    """Name to file of a group such as `profile` or `study`. Of the same name the shipped file wins, then that of the folder
    that was named first, as in Hydra."""
    paths = [path for folder in (*reversed(_own), CONF) for path in sorted((folder / group).glob("*.yaml"))]
    return {path.stem: path for path in paths}
