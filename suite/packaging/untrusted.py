"""Read untrusted JSON from `topology.json` and `run.json`.

Sizes are limited, and a field with an unexpected type is treated as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean
from workloads.api import Json

_BYTES_LIMIT = 4 << 20


class Recorded:
    """A JSON object in an untrusted file.

    The methods return an empty value or None for a field that is missing or has an unexpected type.
    """

    def __init__(self, value: Json | Mapping[str, Json]) -> None:
        self.values: Mapping[str, Json] = value if isinstance(value, Mapping) else {}

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Return the JSON object in a file.

        The object is empty if the file is missing, is a link, is too large, or is not a JSON
        object.
        """
        return cls({} if path.is_symlink() else json_object(path, _BYTES_LIMIT))

    def part(self, name: str) -> Recorded:
        """Return the nested object in the field `name`."""
        return Recorded(self.values.get(name))

    def listed(self, name: str, most: int = 1000) -> list[Json]:
        """Return the first `most` items of the list in the field `name`."""
        return as_list(self.values.get(name))[:most]

    def parts(self, name: str, most: int = 1000) -> list[Recorded]:
        """Return the first `most` items of the list in the field `name` as `Recorded` objects."""
        return [Recorded(value) for value in self.listed(name, most)]

    def text(self, name: str) -> str:
        """Return the string in the field `name` as a single printable line."""
        value = self.values.get(name)
        return clean(value, 200) if isinstance(value, str) else ""

    def count(self, name: str) -> int | None:
        """Return the non-negative integer in the field `name`."""
        value = self.values.get(name)
        return (
            value
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
            else None
        )

    def count_text(self, name: str, unit: str = "") -> str:
        """Format the non-negative integer in the field `name`, as in `3500 MHz`."""
        count = self.count(name)
        return "" if count is None else f"{count} {unit}".rstrip()

    def gib(self, name: str) -> str:
        """Format the number of bytes in the field `name` as GiB."""
        count = self.count(name)
        return f"{count / (1 << 30):.4g} GiB" if count else ""


def as_list(value: Json) -> list[Json]:
    """Return the value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []
