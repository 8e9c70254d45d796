"""Checks the types of the values in a manifest.

Manifests may be damaged or written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from workloads.api.messages import allowed_text

LARGEST_INTEGER = 1 << 53
_SHOWN = 40
"""Maximum length in characters of a quoted manifest value in a message."""
_SHA256 = re.compile(r"[0-9a-f]{64}")

Check = Callable[[str, Any], None]
"""Function that raises ValueError if a value has the wrong type.

The first argument is the name of the value for messages.
"""


def check_manifest(content: Any, name: str) -> None:
    """Check the types of all values of a manifest.

    Args:
        content: Parsed JSON of the manifest file.
        name: Name of the manifest file. The key `files` of a manifest must not contain this name.

    Raises:
        ValueError: A value has the wrong type. The message contains the value and the expected
            type.
    """
    _object("the content", content)
    missing = [key for key in _REQUIRED if key not in content]
    if missing:
        raise ValueError(f"no {missing[0]}")
    unknown = [key for key in content if key not in _FIELDS]
    if unknown:
        raise ValueError(f"unknown key {_shown(unknown[0])}, {allowed_text(_FIELDS)}")
    for key, value in content.items():
        _FIELDS[key](key, value)
    if name in content["files"]:
        raise ValueError(f"files: {name} lists itself")


def _wrong(name: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"{name}: expected {expected}, got {_shown(value)}")


def _shown(value: Any) -> str:
    """Return the first characters of a value as ASCII text without control characters."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise _wrong(name, "an object", value)


def _string(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)


def _boolean_or_null(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, bool):
        raise _wrong(name, "true, false or null", value)


def _count(name: str, value: Any) -> None:
    if type(value) is not int or not 0 <= value <= LARGEST_INTEGER:
        raise _wrong(name, "an integer from 0 on", value)


def _count_or_null(name: str, value: Any) -> None:
    if value is not None:
        _count(name, value)


def _digest(name: str, value: Any) -> None:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _wrong(name, "a SHA-256 of 64 hexadecimal digits", value)


def _list_of(check: Check) -> Check:
    def check_all(name: str, value: Any) -> None:
        if not isinstance(value, list):
            raise _wrong(name, "a list", value)
        for number, entry in enumerate(value):
            check(f"{name}[{number}]", entry)

    return check_all


def _object_of(
    checks: Mapping[str, Check], default: Check, required: tuple[str, ...] = ()
) -> Check:
    """Return a check function for JSON objects.

    Args:
        checks: Check function for the value of each key.
        default: Check function for the values of all other keys.
        required: Keys that an object must have.
    """

    def check_values(name: str, value: Any) -> None:
        _object(name, value)
        for key in required:
            if key not in value:
                raise ValueError(f"{name}: no {key}")
        for key, entry in value.items():
            checks.get(key, default)(
                f"{name}.{key if key.isidentifier() and key.isascii() else _shown(key)}", entry
            )

    return check_values


def _any(name: str, value: Any) -> None:
    """Accept a value of any type."""


def _files(name: str, value: Any) -> None:
    _object(name, value)
    for file, entry in value.items():
        if not is_file_name(file):
            raise _wrong(name, "paths of files inside the folder, without ..", file)
        _FILE(f"{name}: {file}", entry)


MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 1024
"""Maximum length in bytes of a file name on Linux, and of a path in a data set."""


def is_file_name(name: str) -> bool:
    """Return whether a name in a manifest is a plain relative path.

    The path must not be absolute, must not contain `.`, `..`, or control characters, and must not
    exceed the maximum length.
    """
    path = PurePosixPath(name)
    if len(name.encode(errors="replace")) > MAX_PATH_BYTES:
        return False
    if any(len(part.encode(errors="replace")) > MAX_NAME_BYTES for part in path.parts):
        return False
    return (
        name.isprintable()
        and str(path) == name
        and not path.is_absolute()
        and not {"..", "."} & {name, *path.parts}
    )


_FILE = _object_of(
    {"bytes": _count, "sha256": _digest, "blocks": _list_of(_digest)}, _any, ("bytes", "sha256")
)
_SOURCE = _object_of({"name": _string, "bytes": _count, "sha256": _string}, _any)
_OPTIONS = _object_of(
    {
        **dict.fromkeys(("images", "kind", "form", "subwords"), _string),
        **dict.fromkeys(("image_size", "merges", "minimum_ratings"), _count),
        "languages": _list_of(_string),
        "subset": _count_or_null,
    },
    _any,
)
_FIELDS: Mapping[str, Check] = {
    "dataset": _string,
    "source": _SOURCE,
    "options": _OPTIONS,
    "counts": _object_of({}, _count),
    "notes": _list_of(_string),
    "matches_published": _boolean_or_null,
    "compared": _string,
    "files": _files,
    "fingerprint": _digest,
    "schema": _count,
}
_REQUIRED = ("dataset", "source", "options", "counts", "files", "fingerprint", "schema")
