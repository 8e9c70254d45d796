"""Parts of a command line that are needed before Hydra composes: flags, the user's folders, and plugins."""

from __future__ import annotations

import argparse
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from suite.common import conf
from suite.common.conf import CONF
from suite.common.paths import expand_user
from suite.config import overrides
from workloads.api.yaml_files import read_yaml


@dataclass(frozen=True)
class Flags:
    """The flags of a command line."""

    overrides: tuple[str, ...]
    """Words that are no flags and have no `=`."""
    help: bool
    version: bool
    multirun: bool
    dry_run: bool
    cfg: str | None
    package: str | None
    config_dir: str | None
    by_hydra: tuple[str, ...]
    """Flags with which Hydra prints: `--info`, `--hydra-help`, `--resolve`, and `--cfg` with `hydra` or `all`."""


INSTEAD_OF_FLAGS = {
    "--experimental-rerun": "set the overrides of the run again; suite report prints the command below a row",
    **dict.fromkeys(("--config-path", "-cp", "--config-name", "-cn"), "add --config-dir FOLDER for files of your own"),
}
"""Flags of Hydra that the suite does not have, and the replacement of each."""

_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""Values of `--info`, as in Hydra."""


def parse_flags(words: Sequence[str]) -> Flags:
    """Return the flags of a command line. Raises ValueError, in place of argparse, which would print and exit."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    for names in (("-h", "--help"), ("-V", "--version"), ("-m", "--multirun"), ("--dry-run",), ("--hydra-help",)):
        parser.add_argument(*names, action="store_true")
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("-i", "--info", nargs="?", const="all", choices=_INFO)
    parser.add_argument("-c", "--cfg", choices=("job", "hydra", "all"))
    parser.add_argument("-p", "--package")
    parser.add_argument("-cd", "--config-dir")

    def error(message: str) -> NoReturn:
        raise ValueError(f"{message}; run with --help for the available settings")

    parser.error = error  # type: ignore[method-assign]
    for word in words:
        if instead := INSTEAD_OF_FLAGS.get(word.partition("=")[0]):
            raise ValueError(f"{word}: {instead}")
    given = parser.parse_intermixed_args(words)
    if given.package is not None and not given.cfg:
        raise ValueError("--package: a part of what --cfg prints; add --cfg job")
    by_hydra: list[str] = ["--hydra-help"] if given.hydra_help else []
    by_hydra += ["--info", given.info] if given.info else []
    if given.cfg in ("hydra", "all"):
        by_hydra += ["--cfg", given.cfg, *(["--package", given.package] if given.package else [])]
        by_hydra += ["--resolve"] if given.resolve else []
    elif given.resolve and not given.cfg:
        raise ValueError("--resolve: --cfg prints resolved values; add --cfg job")
    return Flags(
        overrides=tuple(given.overrides),
        help=given.help,
        version=given.version,
        multirun=given.multirun,
        dry_run=given.dry_run,
        cfg=given.cfg,
        package=given.package,
        config_dir=given.config_dir,
        by_hydra=tuple(by_hydra),
    )


def search_folders(words: list[str], config_dir: str | None) -> list[str]:
    """Search the user's folders from now on. Return `words` with these folders as one override for Hydra."""
    typed = [text for text in words if text.startswith("hydra.searchpath=")]
    given = [*([config_dir] if config_dir else []), *(as_texts(overrides.parse(typed[-1]).value()) if typed else [])]
    folders = []
    for text in given:
        package, _, below = text.removeprefix("pkg://").partition("/")
        try:
            path = (
                Path(str(importlib.resources.files(package)), below)
                if "pkg://" in text
                else expand_user(text.removeprefix("file://"))
            )
        except ModuleNotFoundError:
            raise ValueError(f"hydra.searchpath={text}: there is no such package") from None
        folders.append(path.absolute())
    conf.search(folders)
    return [*(text for text in words if text not in typed), *conf.search_words()]


def plugins_of(words: Sequence[str]) -> list[str]:
    """Return the plugins of the command line, else those of conf/config.yaml. Names are checked after they are active."""
    typed = [text for text in words if text.startswith("plugins=")]
    if typed:
        override = overrides.parse(typed[-1])
        if override.is_sweep_override():
            raise ValueError(
                f"{typed[-1]}: one list for the whole command; type plugins=[{typed[-1].partition('=')[2]}]"
            )
        return as_texts(override.value())
    return as_texts(read_yaml(CONF / "config.yaml").get("plugins"))


def as_texts(value: object) -> list[str]:
    """Return a text, a list of texts, or None as a list."""
    values = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return [str(getattr(item, "text", item)) for item in values]
