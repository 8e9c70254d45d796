"""Tables of results, and Markdown that also reads well in a terminal: padded columns, constants above, remarks below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.results.score.groups import Group, Row
from suite.results.text import clean, markdown_escape
from workloads.api import field_names

NONE = "–"
_ABOVE = (
    *("device_name", "framework_version", "nodes", "cores_per_device", "batch_rule", "batch_size_global", "lr_scaling"),
    *("precision", "hyperparameter_set", "rules", "clock", "stop", "mode", "dataset", "data_fingerprint", "targets"),
)
"""Fields that stand above a table where they are the same in all its rows, and are a column where they are not."""
_NUMBERS = ("nodes", "cores_per_device", "batch_size_global")
_WORDS = {
    "device_name": "device",
    "framework_version": "version",
    "cores_per_device": "cores per device",
    "batch_rule": "batch",
    "batch_size_global": "global batch",
    "lr_scaling": "lr scaling",
    "hyperparameter_set": "hyperparameters",
    "data_fingerprint": "data",
    "targets": "target",
}
_KNOWN_LABELS = {"demo", "synthetic", "cpu"}
"""Labels that the heading and the device already say."""


def markdown_table(header: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """A Markdown table with padded columns; `right[i]` aligns column i to the right. Cells must be escaped already."""
    widths = [max(3, *(len(row[i]) for row in (header, *body))) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(cells, widths, right, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [("-" * (width - 1) + ":") if flush else "-" * width for width, flush in zip(widths, right, strict=True)]
    return "\n".join([line(header), line(rule), *(line(row) for row in body)])


def constants(rows: Sequence[Row]) -> list[str]:
    """What is the same in all rows, as `name value` texts."""
    group = rows[0].group
    own_column = _varying(rows)
    shown = [name for name in _ABOVE if name not in own_column and not _unsaid(group, name)]
    texts = [f"{_WORDS.get(name, name)} {_value(group, name)}" for name in shown if name != "framework_version"]
    if "framework_version" not in own_column:
        versions = {f"{row.group.framework} {row.group.framework_version}" for row in rows if row.group.framework}
        texts.insert(0, clean(", ".join(sorted(versions)), 200) or NONE)
    if not _differs(rows, "deviations") and group.deviations:
        texts.append("leaves the closed rules: " + clean("; ".join(group.deviations), 300))
    return [text for text in texts if not text.endswith(NONE)]


def _unsaid(group: Group, name: str) -> bool:
    """True for a constant that the table says in another way, or that is not worth saying."""
    if name in ("stop", "mode"):
        return group.to_target
    return (name == "nodes" and group.nodes == 1) or (name == "cores_per_device" and group.device != "cpu")


def _differs(rows: Sequence[Row], name: str) -> bool:
    return any(getattr(row.group, name) != getattr(rows[0].group, name) for row in rows)


def _value(group: Group, name: str) -> str:
    value = getattr(group, name)
    if value is None or value in ("", (), {}):
        return NONE
    if name == "targets":
        return clean(", ".join(f"{metric} {target:g}" for metric, target in group.targets.items()), 80)
    if name == "data_fingerprint":
        return clean(value, 12)
    return f"{value:,}" if isinstance(value, int) else clean(str(value), 80)


def _varying(rows: Sequence[Row]) -> list[str]:
    """Fields that need a column of their own."""
    names = [name for name in _ABOVE if _differs(rows, name)]
    versions = {(row.group.framework, row.group.framework_version) for row in rows}
    if len(versions) == len({framework for framework, _ in versions}) and "framework_version" in names:
        names.remove("framework_version")  # one version each: said above the table
    return names


class Remarks:
    """Remarks below a table, each with a letter that rows point to."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """The mark of a remark, `(a)`; the same text has the same mark."""
        if text not in self.texts:
            self.texts.append(text)
        return f"({_letter(self.texts.index(text))})"

    def lines(self) -> list[str]:
        """The remarks in order."""
        return [f"({_letter(index)}) {text}" for index, text in enumerate(self.texts)]


def _letter(index: int) -> str:
    return chr(ord("a") + index % 26) + (str(index // 26) if index >= 26 else "")


@dataclass(frozen=True)
class Table:
    """A table as plain text: nothing in it is escaped for Markdown or HTML yet."""

    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]
    """Columns of numbers, aligned to the right."""
    below: tuple[str, ...] = ()
    """Lines that explain it."""


def results_table(rows: Sequence[Row]) -> str:
    """The Markdown table of rows that belong together, with its remarks."""
    table = results(rows)
    body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
    below = [markdown_escape(line) for line in table.below]
    return "\n".join([markdown_table(table.header, body, table.right), *([""] if below else []), *below])


def results(rows: Sequence[Row]) -> Table:
    """The table of rows that belong together."""
    remarks, names, to_target = Remarks(), _varying(rows), rows[0].group.to_target
    header = ["framework", "devices", *(_WORDS.get(name, name) for name in names), "runs"]
    if to_target:
        header += ["minutes", "spread", "epochs", "samples/s", "speedup", "= throughput", "× efficiency"]
    else:
        header += ["samples/s", "throughput scaling"]
    body = tuple(tuple(_cells(row, names, remarks, rows)) for row in rows)
    right = [False, True, *(name in _NUMBERS for name in names), False]
    right += [False, False, True, True, True, True, True] if to_target else [True, True]
    return Table(tuple(header), body, tuple(right), (*_explain(rows), *remarks.lines()))


def _cells(row: Row, names: Sequence[str], remarks: Remarks, rows: Sequence[Row]) -> list[str]:
    group, score = row.group, row.score
    marks = "".join(f" {remarks.mark(text)}" for text in _row_remarks(row, rows))
    devices = NONE if group.devices is None else str(group.devices)
    cells = [clean(group.framework, 80) or NONE, devices + marks, *(_value(group, name) for name in names)]
    cells.append(runs_text(row))
    rate = NONE if score.samples_per_second is None else quantity(score.samples_per_second)
    if not group.to_target:
        return [*cells, rate, factor(row.speedup.throughput if row.speedup else None)]
    spread = NONE
    if score.seconds_deviation is not None and score.seconds_minimum is not None and score.seconds_maximum is not None:
        low, high, deviation = score.seconds_minimum, score.seconds_maximum, score.seconds_deviation
        spread = f"{minutes(low)}–{minutes(high)} ±{minutes(deviation)}"
    speedup = row.speedup
    factors = (speedup.total, speedup.throughput, speedup.efficiency) if speedup else (None, None, None)
    epochs = NONE if score.epochs is None else f"{score.epochs:.1f}"
    return [*cells, minutes_text(row), spread, epochs, rate, *(factor(value) for value in factors)]


def _row_remarks(row: Row, rows: Sequence[Row]) -> list[str]:
    group = row.group
    texts = [clean(label, 80) for label in group.labels if label not in _KNOWN_LABELS]
    if _differs(rows, "deviations"):
        texts += ["leaves the closed rules: " + clean(text, 80) for text in group.deviations]
    if group.profile not in ("demo", "synthetic"):
        texts += row.score.notes
    twins = [other.group for other in rows if _same_but_hyperparameters(group, other.group)]
    if len(twins) > 1:
        common = set.intersection(*(set(twin.hyperparameters) for twin in twins))
        own = [f"{key} {value}" for key, value in group.hyperparameters if (key, value) not in common]
        texts.append("with " + (clean(", ".join(own), 200) or "no other value logged"))
    return texts


def _same_but_hyperparameters(one: Group, other: Group) -> bool:
    names = (name for name in field_names(Group, row=True) if name != "hyperparameters")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _explain(rows: Sequence[Row]) -> list[str]:
    counts = sorted({row.speedup.baseline_devices for row in rows if row.speedup})
    if not counts:
        return []
    base = f"{counts[0]} device{'s' if counts[0] > 1 else ''}" if len(counts) == 1 else "its fewest devices"
    if not rows[0].group.to_target:
        return [f"Throughput scaling: samples/s against the same framework on {base}."]
    return [
        f"speedup against the same framework on {base} = throughput scaling (time per epoch) "
        "× statistical efficiency (epochs to target)."
    ]


def runs_text(row: Row) -> str:
    """`3 of 5, 1 failed`: successful runs, runs that the rules ask for, failures."""
    score = row.score
    text = str(score.runs_successful)
    if score.runs_required is not None:
        text += f" of {score.runs_required}"
    return text + (f", {score.runs_failed} failed" if score.runs_failed else "")


def minutes_text(row: Row) -> str:
    """`0.12 (plain mean of 2)`."""
    score = row.score
    if score.seconds is None:
        return NONE
    return f"{minutes(score.seconds)} ({score.method} of {score.runs_retained})"


def minutes(seconds: float) -> str:
    """Seconds as minutes with two digits behind the point, three below a tenth of a minute."""
    value = seconds / 60.0
    return f"{value:.3f}" if value < 0.1 else f"{value:,.2f}"


def quantity(value: float) -> str:
    """A rate with about three significant digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def factor(value: float | None) -> str:
    """A ratio with two digits behind the point."""
    return NONE if value is None else f"{value:.2f}"
