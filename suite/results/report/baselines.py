"""`suite report DIR --baseline KEY=VALUE`: every result over the one that has this value, across tables.

Tables never mix devices or frameworks; here a GPU stands beside the CPU, a framework beside another, with what else differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from suite.common.registry import not_allowed
from suite.results.report.markdown import markdown_table
from suite.results.report.study_columns import ratio
from suite.results.report.tables import DASH, KNOWN_LABELS, Footnotes, field_label, rate_text, two_decimals
from suite.results.score.groups import Group, Row
from suite.results.text import clean, markdown_escape, time_text
from workloads.api import field_names

_KEYS: Mapping[str, Callable[[Group], str]] = {
    "device": lambda group: group.device,
    "gpus": lambda group: str(group.devices),
    "framework": lambda group: group.framework,
}
_FOLLOWS = {
    "device": (
        "device",
        "devices",
        "device_name",
        "cores_per_device",
        "linear",
        "batch_size_global",
        "framework_version",
    ),
    "gpus": ("devices", "batch_size_global", "hyperparameter_set"),
    "framework": ("framework", "framework_version", "linear"),
}
"""What differs with the key; anything else is said."""
_SAME = ("profile", "workload", "sample_unit", "mode", "stop")
"""What must be equal for a ratio to mean anything."""
_NOT_SAID = ("labels", "deviations", "hyperparameters", "thread_waiting")


@dataclass(frozen=True)
class Baseline:
    """The results that others are divided by."""

    key: str
    value: str

    def fits(self, row: Row) -> bool:
        """True for a row that has the value."""
        return _KEYS[self.key](row.group) == self.value


def parse_baseline(text: str) -> Baseline:
    """`device=cpu`, `gpus=1`, `framework=pytorch`. Raises ValueError in one line."""
    key, _, value = text.partition("=")
    if key not in _KEYS:
        raise not_allowed("--baseline", key, _KEYS)
    if not value:
        raise ValueError(f"--baseline {text}: type a value too, for example --baseline gpus=1")
    return Baseline(key, value)


def baseline_markdown(rows: Sequence[Row], baseline: Baseline) -> list[str]:
    """A table of ratios. Raises ValueError if no result has the value."""
    measured = [row for row in rows if _figure(row) is not None]
    if not any(baseline.fits(row) for row in measured):
        there = sorted({_KEYS[baseline.key](row.group) for row in measured})
        raise not_allowed(f"--baseline {baseline.key}", baseline.value, there)
    footnotes, body = Footnotes(), []
    for row in measured:
        base = _base(row, measured, baseline)
        others = _differences(row, base, baseline) if base is not None else ["there is no such result to divide by"]
        mark = "".join(f" {footnotes.mark(text)}" for text in (*others, *_labels(row, base)))
        group = row.group
        cells = [group.workload, group.profile, group.framework, group.device, str(group.devices)]
        body.append(
            [*(markdown_escape(clean(text, 40)) for text in cells), _text(row), two_decimals(ratio(row, base)) + mark]
        )
    header = [
        "workload",
        "profile",
        "framework",
        "device",
        "devices",
        "result",
        f"over {baseline.key}={baseline.value}",
    ]
    table = markdown_table(header, body, [False] * 4 + [True] * 3, 5)
    below = [markdown_escape(line) for line in footnotes.lines()]
    return [
        f"## Against {baseline.key}={markdown_escape(clean(baseline.value, 40))}",
        "\n".join([table, *([""] if below else []), *below]),
    ]


def _figure(row: Row) -> float | None:
    """Seconds to target, or samples per second; None for a result without."""
    return (row.score.seconds if row.group.to_target else row.score.samples_per_second) or None


def _text(row: Row) -> str:
    figure = _figure(row)
    assert figure is not None
    return time_text(figure) if row.group.to_target else f"{rate_text(figure)}/s"


def _base(row: Row, rows: Sequence[Row], baseline: Baseline) -> Row | None:
    """Of the rows with the value and of the same work the one that differs in least."""
    found = [other for other in rows if baseline.fits(other) and all(_same(row, other, name) for name in _SAME)]
    return min(found, key=lambda other: (len(_differences(row, other, baseline)), repr(other.group)), default=None)


def _same(one: Row, other: Row, name: str) -> bool:
    return bool(getattr(one.group, name) == getattr(other.group, name))


def _differences(row: Row, base: Row, baseline: Baseline) -> list[str]:
    """In what else the two differ."""
    ignored = (*_FOLLOWS[baseline.key], *_NOT_SAID)
    names = [name for name in field_names(Group, row=True) if name not in ignored and not _same(row, base, name)]
    return [f"{field_label(name)} {_value(row.group, name)}, of the other {_value(base.group, name)}" for name in names]


def _labels(row: Row, base: Row | None) -> list[str]:
    """What must stand beside a ratio: the labels of both results that the table does not show."""
    theirs = base.labels if base is not None and base is not row else ()
    return [clean(label, 120) for label in row.labels if label not in KNOWN_LABELS] + [
        f"the other: {clean(label, 120)}" for label in theirs if label not in KNOWN_LABELS
    ]


def _value(group: Group, name: str) -> str:
    value = getattr(group, name)
    return DASH if value in (None, "", (), {}) else clean(str(value), 60)
