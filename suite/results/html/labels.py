"""Labels of curves, made of what tells them apart, and the labels that stand with every number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from suite.results.score.condition import BUSY
from suite.results.score.groups import Group, Row
from suite.results.text import clean, devices_text
from workloads.api import field_names

_PREFERRED_FIELDS = (
    "system",
    "rules",
    "framework",
    "devices",
    "nodes",
    "batch_size_global",
    "precision",
    "lr_scaling",
    "hyperparameter_set",
    "batch_rule",
)
_FIRST = ("demo", "synthetic", "cpu")
"""Labels that no number may stand without."""
_MOST = 6
"""Labels that are shown one by one."""


def row_labels(rows: Sequence[Row]) -> list[str]:
    """One short label for each row, made of the fields in which it differs from the others: `pytorch, 2 devices`."""
    known = [_known_values(row.group) for row in rows]
    all_names = list(dict.fromkeys(name for values in known for name in values))
    names: list[str] = [name for name in ("framework", "devices") if name in all_names]
    if not rows[0].group.profile:  # logs of other programs: one system each
        names = [name for name in names if len({values.get(name) for values in known}) > 1]
    texts = [_label(values, names) for values in known]
    for name in (*_PREFERRED_FIELDS, *all_names):
        if len(set(texts)) == len(texts):
            break
        if name not in names and len({values.get(name) for values in known}) > 1:
            names.append(name)
            texts = [_label(values, names) for values in known]
    return _numbered_duplicates(
        [text or clean(row.group.system, 40) or "runs" for row, text in zip(rows, texts, strict=True)]
    )


def _known_values(group: Group) -> dict[str, object]:
    """The known fields of a row; each hyperparameter is a field of its own."""
    values = {name: getattr(group, name) for name in field_names(Group, row=True) if name != "hyperparameters"}
    return {name: value for name, value in values.items() if value not in (None, "", (), {})} | dict(
        group.hyperparameters
    )


def _label(values: Mapping[str, object], names: Sequence[str]) -> str:
    return clean(", ".join(_value_text(name, values[name]) for name in names if name in values), 400)


def _value_text(name: str, value: object) -> str:
    if name == "devices" and isinstance(value, int):
        return devices_text(value)
    if name == "nodes" and isinstance(value, int):
        return f"{value} node{'' if value == 1 else 's'}"
    if name == "batch_size_global":
        return f"batch {value:,}"
    if name.startswith(("opt_", "model_")):
        return f"{name.split('_', 1)[1]} {value}"
    return value if isinstance(value, str) else clean(repr(value), 20)


def _numbered_duplicates(texts: Sequence[str]) -> list[str]:
    """The texts, with a number appended to repeated ones: settings that are not told may differ."""
    seen: dict[str, int] = {}
    result = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        result.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return result


def run_labels(rows: Sequence[Row]) -> tuple[str, ...]:
    """The labels of all rows together, to show with every number of the table."""
    return shown_labels(label for row in rows for label in row.labels)


def shown_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once: whose numbers these are first, of many others how many more there are.

    What made the machine busy differs from run to run and stands in the table: several such are one.
    """
    known = set(labels)
    busy = {label for label in known if label.startswith(BUSY)}
    merged = (known - busy) | ({BUSY} if len(busy) > 1 else busy)
    first = [label for label in _FIRST if label in merged]
    ordered = [*first, *sorted(merged - {*first})]
    more = (f"and {len(ordered) - _MOST} more",) if len(ordered) > _MOST else ()
    return (*(clean(label, 60) for label in ordered[:_MOST]), *more)
