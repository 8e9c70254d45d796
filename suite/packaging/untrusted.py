"""Values of `topology.json` and `run.json`, which are not trusted: sizes are bounded, an unexpected type counts as unknown."""

from __future__ import annotations

import json
from pathlib import Path

from suite.results.text import clean
from workloads import files
from workloads.api import Json

_BYTES_LIMIT = 4 << 20


def json_file_object(path: Path) -> dict[str, Json]:
    """The object in a JSON file; empty if there is none, or the file is a link, too long or no JSON."""
    try:
        return {} if path.is_symlink() else as_object(json.loads(files.read_text(path, "replace", _BYTES_LIMIT)))
    except (OSError, ValueError, RecursionError):
        return {}


def as_object(value: Json) -> dict[str, Json]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def clean_text(value: Json) -> str:
    """The value as one printable line if it is a text, else nothing."""
    return clean(value, 200) if isinstance(value, str) else ""


def as_count(value: Json) -> int | None:
    """The value if it is a whole number from 0 on, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def count_text(value: int | None) -> str:
    """A count as text; nothing for None."""
    return "" if value is None else str(value)


def gib_text(value: Json) -> str:
    """A number of bytes in GiB; nothing for one that is not known."""
    whole = as_count(value)
    return "" if not whole else f"{whole / (1 << 30):.4g} GiB"
