"""Find configuration files in the suite's configuration folder and in the user's folders.

The user's folders are set with `--config-dir` and `hydra.searchpath`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.catalog import sets
from suite.common.paths import shipped

CONF = shipped("conf")
_user_folders: list[Path] = []


def search(folders: Sequence[Path]) -> None:
    """Set the user's folders that `files` also searches.

    Raises ValueError if a folder does not exist.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(
                f"--config-dir {folder}: no such folder. It must contain files such as"
                " profile/NAME.yaml"
            )
    _user_folders[:] = folders
    sets.search(folders)


def search_words() -> list[str]:
    """Return the Hydra override for the command line that sets the user's folders.

    The list is empty if the user has no configuration folders.
    """
    return (
        [f"hydra.searchpath={[f'file://{folder}' for folder in _user_folders]}"]
        if _user_folders
        else []
    )


def flags() -> list[str]:
    """Return the command-line arguments that pass the user's folders to a command.

    A single folder is passed as `--config-dir FOLDER`. Several folders are passed as the override
    from `search_words`.
    """
    return ["--config-dir", str(_user_folders[0])] if len(_user_folders) == 1 else search_words()


def files(group: str) -> dict[str, Path]:
    """Return the files of a configuration group, such as `profile` or `study`, by name.

    If several folders contain a file of the same name, the suite's file takes precedence over the
    user's files. Among the user's folders, the folder that was passed first takes precedence, as in
    Hydra.
    """
    paths = [
        path
        for folder in (*reversed(_user_folders), CONF)
        for path in sorted((folder / group).glob("*.yaml"))
    ]
    return {path.stem: path for path in paths}
