"""What tells apart families of measurements that would otherwise have the same heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

from suite.results.score.measurement import Measurement
from suite.results.text import clean

_OWN = ("profile", "framework", "hardware", "precision", "rules", "clock", "targets")
"""Fields of a published measurement that are the same within a family."""


def family_labels(items: Sequence[Measurement], limit: int = 150) -> list[str]:
    """For one measurement of each family: `name value, …` of what is not the same in all; empty where nothing is known."""
    with_system_details = [_fields(item) for item in items]
    names = list(dict.fromkeys(name for one in with_system_details for name in one))
    differing = [name for name in names if len({one.get(name) for one in with_system_details}) > 1]
    texts = [
        ", ".join(f"{_word(name)} {clean(one.get(name) or 'none', 24)}" for name in differing)
        for one in with_system_details
    ]
    return [clean(text, limit) for text in texts]


def _word(name: str) -> str:
    return name.replace("_", " ").replace("data fingerprint", "data")


def _fields(item: Measurement) -> Mapping[str, str]:
    for part in item.family:
        if is_dataclass(part) and not isinstance(part, type):  # ours: a Group
            found = {one.name: _text(getattr(part, one.name)) for one in fields(part)}
            return {**found, "data_fingerprint": found.get("data_fingerprint", "")[:8]}
    return {name: _text(getattr(item, name)) for name in _OWN}


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        value = tuple(sorted(value.items()))
    if isinstance(value, tuple):
        return "; ".join(" ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value)
    return "" if value is None else str(value)
