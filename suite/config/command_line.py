"""Parse the command-line arguments that are needed before Hydra runs.

The arguments are flags, the user's configuration folders, and plugins.
"""

from __future__ import annotations

import argparse
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from suite.catalog.yaml_files import read_yaml
from suite.common import conf
from suite.common.conf import CONF
from suite.common.paths import expand_user
from suite.config import overrides


@dataclass(frozen=True)
class Flags:
    """Parsed flags of a command line."""

    overrides: tuple[str, ...]
    """Arguments that are not flags. Overrides have the form `key=value`."""
    help: bool
    version: bool
    multirun: bool
    dry_run: bool
    cfg: str | None
    package: str | None
    config_dir: str | None
    by_hydra: tuple[str, ...]
    """Flags for which Hydra prints information and exits: `--info`, `--hydra-help`, `--resolve`,
    and `--cfg` with `hydra` or `all`.
    """


INSTEAD_OF_FLAGS = {
    "--experimental-rerun": (
        "set the overrides of the run again, which suite report prints below a row"
    ),
    **dict.fromkeys(
        ("--config-path", "-cp", "--config-name", "-cn"),
        "add --config-dir FOLDER for user-defined files",
    ),
}
"""Maps each Hydra flag that the suite does not support to its replacement."""

_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""Allowed values of `--info`, which are the same as in Hydra."""


def parse_flags(argv: Sequence[str]) -> Flags:
    """Parse the flags of a command line.

    Raises:
        ValueError: A flag is unknown or invalid. By default, argparse would print a message and
            exit instead.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    for names in (
        ("-h", "--help"),
        ("-V", "--version"),
        ("-m", "--multirun"),
        ("--dry-run",),
        ("--hydra-help",),
    ):
        parser.add_argument(*names, action="store_true")
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("-i", "--info", nargs="?", const="all", choices=_INFO)
    parser.add_argument("-c", "--cfg", choices=("job", "hydra", "all"))
    parser.add_argument("-p", "--package")
    parser.add_argument("-cd", "--config-dir")

    def error(message: str) -> NoReturn:
        raise ValueError(f"{message}. Run with --help for the available settings")

    parser.error = error  # type: ignore[method-assign]
    for word in argv:
        if instead := INSTEAD_OF_FLAGS.get(word.partition("=")[0]):
            raise ValueError(f"{word}: {instead}")
    parsed = parser.parse_intermixed_args(argv)
    if parsed.package is not None and not parsed.cfg:
        raise ValueError("--package selects a part of the output of --cfg. Add --cfg job")
    by_hydra: list[str] = ["--hydra-help"] if parsed.hydra_help else []
    by_hydra += ["--info", parsed.info] if parsed.info else []
    if parsed.cfg in ("hydra", "all"):
        by_hydra += [
            "--cfg",
            parsed.cfg,
            *(["--package", parsed.package] if parsed.package else []),
        ]
        by_hydra += ["--resolve"] if parsed.resolve else []
    elif parsed.resolve and not parsed.cfg:
        raise ValueError("--resolve: only --cfg prints resolved values. Add --cfg job")
    return Flags(
        overrides=tuple(parsed.overrides),
        help=parsed.help,
        version=parsed.version,
        multirun=parsed.multirun,
        dry_run=parsed.dry_run,
        cfg=parsed.cfg,
        package=parsed.package,
        config_dir=parsed.config_dir,
        by_hydra=tuple(by_hydra),
    )


def search_folders(override_list: list[str], config_dir: str | None) -> list[str]:
    """Add the user's folders to the search path for configuration files.

    Args:
        override_list: Overrides from the command line.
        config_dir: Value of `--config-dir`.

    Returns:
        The overrides, with all folders of the user in a single `hydra.searchpath` override.

    Raises:
        ValueError: A package in `hydra.searchpath` is not installed.
    """
    search_paths = [text for text in override_list if text.startswith("hydra.searchpath=")]
    paths = [
        *([config_dir] if config_dir else []),
        *(as_texts(overrides.parse(search_paths[-1]).value()) if search_paths else []),
    ]
    folders = []
    for text in paths:
        package, _, below = text.removeprefix("pkg://").partition("/")
        try:
            path = (
                Path(str(importlib.resources.files(package)), below)
                if "pkg://" in text
                else expand_user(text.removeprefix("file://"))
            )
        except ModuleNotFoundError:
            raise ValueError(
                f"hydra.searchpath={text}: the package {package} is not installed"
            ) from None
        folders.append(path.absolute())
    conf.search(folders)
    return [*(text for text in override_list if text not in search_paths), *conf.search_words()]


def plugins_of(override_list: Sequence[str]) -> list[str]:
    """Return the plugins on the command line, or by default the plugins in conf/config.yaml.

    The names of the plugins are checked later, when the plugins are activated.

    Raises:
        ValueError: `plugins` has several values, as in a sweep.
    """
    assignments = [text for text in override_list if text.startswith("plugins=")]
    if assignments:
        override = overrides.parse(assignments[-1])
        if override.is_sweep_override():
            raise ValueError(
                f"{assignments[-1]}: expected a single list for the whole command. "
                f"Set plugins=[{assignments[-1].partition('=')[2]}]"
            )
        return as_texts(override.value())
    return as_texts(read_yaml(CONF / "config.yaml").get("plugins"))


def as_texts(value: object) -> list[str]:
    """Convert a string, a list of strings, or None to a list of strings."""
    values = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return [str(getattr(item, "text", item)) for item in values]
