"""Labels that distinguish families of measurements with the same heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

from suite.results.score.measurement import Measurement
from suite.results.text import clean, shortened

_PUBLISHED_FIELDS = ("profile", "division", "framework", "hardware", "precision", "rules", "clock", "targets")
"""Fields of a published measurement that are equal within a family."""


def family_labels(items: Sequence[Measurement], limit: int = 150) -> list[str]:
    """For one measurement of each family the fields that differ between them: `name value, …`; empty if none is known."""
    known_fields = [_known_fields(item) for item in items]
    names = list(dict.fromkeys(name for item_fields in known_fields for name in item_fields))
    differing = [name for name in names if len({item_fields.get(name) for item_fields in known_fields}) > 1]
    values = {name: [clean(item_fields.get(name) or "none") for item_fields in known_fields] for name in differing}
    short = {name: shortened(texts, 24) for name, texts in values.items()}
    texts = [
        ", ".join(f"{_field_label(name)} {short[name][place]}" for name in differing) for place in range(len(items))
    ]
    return shortened(texts, limit)


def family_settings(families: Sequence[Sequence[Measurement]]) -> list[str]:
    """For each family the settings that distinguish it from those with the same workload and series; empty if there is none."""
    keys = [(family[0].workload, family[0].series) for family in families]
    settings = [""] * len(families)
    for key in set(keys):
        places = [place for place, other in enumerate(keys) if other == key]
        for place, text in zip(places, family_labels([families[place][0] for place in places]), strict=True):
            settings[place] = text
    return settings


def differing_values(own: Mapping[str, str], twins: Sequence[Mapping[str, str]]) -> str:
    """The values in which `own` differs from any of its twins (it may be one of them): `learning_rate=0.01, beta_1=0.9`."""
    names = sorted(
        name for name in {key for twin in twins for key in twin} if len({twin.get(name) for twin in twins}) > 1
    )
    shown = (f"{name.removeprefix('opt_').removeprefix('model_')}={own.get(name, 'not logged')}" for name in names)
    return clean(", ".join(shown), 200)


def _field_label(name: str) -> str:
    return name.replace("_", " ").replace("data fingerprint", "data")


def _known_fields(item: Measurement) -> Mapping[str, str]:
    for part in item.family:
        if is_dataclass(part) and not isinstance(part, type):  # ours: a Group
            values = {field.name: _text(getattr(part, field.name)) for field in fields(part)}
            return {**values, "data_fingerprint": values.get("data_fingerprint", "")[:8]}
    return {name: _text(getattr(item, name)) for name in _PUBLISHED_FIELDS}


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        value = tuple(sorted(value.items()))
    if isinstance(value, tuple):
        return "; ".join(" ".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in value)
    return "" if value is None else str(value)
