"""Check configuration files before Hydra composes them.

The error message for a mistake in a file is a single line with the file name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from suite.catalog.yaml_files import parse_yaml, read_text
from suite.common import conf

MAX_DEPTH = 10
"""Maximum number of files in a chain of defaults lists.

Without this maximum, the run time would not be bounded, because Hydra reads a file again for every
file that includes it.
"""
_GROUP = re.compile(r"(override +|optional +)?(/?)([^@ ]+)(?:@.*)?")
"""Pattern of an element of a defaults list, such as `override /system`, `optional db@package`,
`/system`, or `name`.
"""
_PACKAGE_LINE = re.compile(r"# *@package +\S+ *")


@dataclass(frozen=True)
class _Default:
    """An element of a Hydra defaults list."""

    group: str
    choice: str
    overrides: bool
    """True for an `override` element, which changes the choice that a different file made and
    does not include a file itself.
    """


def check_files(choices: Mapping[str, str]) -> None:
    """Check the file of each choice, and the files that its defaults list includes.

    Args:
        choices: Maps a group to the name of the selected file, such as `{"system": "mine"}`. Names
            without a file are ignored.

    Raises:
        ValueError: A file is not a YAML mapping, has an invalid defaults list, or includes itself.
        OSError: A file cannot be read.
    """
    for group, choice in choices.items():
        path = conf.files(group).get(choice)
        if path is not None:
            _check_file(f"{group}/{choice}", path, ())


def _check_file(name: str, path: Path, chain: tuple[str, ...]) -> None:
    """Check a file, and the files that its defaults list includes.

    Args:
        name: Name of the file, in the form `group/choice`.
        path: Path of the file.
        chain: Names of the files through which this file is included.
    """
    content = _read_mapping(path)
    chain = (*chain, name)
    for default in _defaults(name, path, content):
        below = f"{default.group}/{default.choice}"
        found = conf.files(default.group).get(default.choice)
        if found is None:
            continue  # Hydra reports that the file is missing
        if default.overrides:
            _read_mapping(found)
            continue
        if below in chain:
            cycle = " > ".join([*chain, below])
            raise ValueError(
                f"{found}: the defaults list includes this file again: {cycle}. Remove one of the"
                " entries"
            )
        if len(chain) == MAX_DEPTH:
            raise ValueError(
                f"{found}: a chain of defaults lists has more than {MAX_DEPTH} files. Remove some"
                " of them"
            )
        _check_file(below, found, chain)


def _read_mapping(path: Path) -> Mapping[str, object]:
    text = read_text(path)
    content = parse_yaml(text, path)
    if not isinstance(content, dict | None):
        raise ValueError(f"{path}: expected lines of the form KEY: VALUE")
    first = text.partition("\n")[0]
    if first.replace(" ", "").startswith("#@package") and not _PACKAGE_LINE.fullmatch(first):
        raise ValueError(f"{path}: line 1: expected # @package NAME, got {first[:80]}")
    try:
        OmegaConf.create(content or {})
    except (ValueError, OmegaConfBaseException) as error:  # an unfinished `${`
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    return content or {}


def _defaults(name: str, path: Path, content: Mapping[str, object]) -> Iterator[_Default]:
    """Yield the elements of a file's defaults list that refer to files.

    Raises:
        ValueError: An element is neither `NAME` nor `GROUP: NAME`, where NAME is a string, a list
            of strings, or null.
    """
    parent_group = name.rpartition("/")[0]
    entries = content.get("defaults", [])
    for entry in entries if isinstance(entries, list) else [[]]:
        pairs = list(entry.items()) if isinstance(entry, dict) else [(None, entry)]
        key, chosen = pairs[0] if len(pairs) == 1 else (0, None)
        choices = chosen if isinstance(chosen, list) and key is not None else [chosen]
        if not isinstance(key, str | None) or not all(
            isinstance(choice, str | None) for choice in choices
        ):
            raise ValueError(f"{path}: defaults must be a list of NAME or GROUP: NAME")
        for choice in choices:
            if choice is None or choice == "_self_":
                continue
            form = _GROUP.fullmatch(
                choice if key is None else f"{key}/{choice}" if "@" not in key else key
            )
            if form is None:
                continue
            text = form[3] if key is None or "@" not in key else f"{form[3]}/{choice}"
            absolute = text if form[2] or not parent_group else f"{parent_group}/{text}"
            group, _, stem = absolute.removesuffix(".yaml").rpartition("/")
            yield _Default(group, stem, (form[1] or "").startswith("override"))
