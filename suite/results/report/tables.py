"""Tables of results, and Markdown that also reads well in a terminal: padded columns, constants above, footnotes below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.results.score.groups import Group, Row
from suite.results.text import clean, devices_text, markdown_escape
from workloads.api import LoggedSettings, field_names

DASH = "–"
_FIELDS_IN_ORDER = (
    *("device_name", "framework_version", "nodes", "cores_per_device", "batch_rule", "batch_size_global", "lr_scaling"),
    *(
        "precision",
        "hyperparameter_set",
        "rules",
        "clock",
        "stop",
        "mode",
        "dataset",
        "data_fingerprint",
        "thread_waiting",
        "targets",
    ),
)
_SHOWN_ELSEWHERE = ("profile", "workload", "framework", "device", "devices")
"""In the heading, or in columns of their own."""
_OTHER_SETTINGS = tuple(
    name for name in field_names(LoggedSettings, row=True) if name not in (*_FIELDS_IN_ORDER, *_SHOWN_ELSEWHERE)
)
"""Every other setting that distinguishes rows; shown where it is not what a log without it means."""
_CONSTANT_FIELDS = (*_FIELDS_IN_ORDER, *_OTHER_SETTINGS)
"""Fields listed above a table if equal in all its rows; a field that differs becomes a column."""
_NUMERIC_FIELDS = ("nodes", "cores_per_device", "batch_size_global")
_FIELD_LABELS = {
    "device_name": "device",
    "framework_version": "version",
    "cores_per_device": "cores per device",
    "batch_rule": "batch",
    "batch_size_global": "global batch",
    "lr_scaling": "lr scaling",
    "hyperparameter_set": "hyperparameters",
    "data_fingerprint": "data",
    "thread_waiting": "threads wait",
    "targets": "target",
}
_KNOWN_LABELS = {"demo", "synthetic", "cpu"}
"""Labels that the heading or the device already shows."""


def field_label(name: str) -> str:
    """How a table calls a field."""
    return _FIELD_LABELS.get(name, name.replace("_", " "))


def markdown_table(header: Sequence[str], body: Sequence[Sequence[str]], right_aligned: Sequence[bool]) -> str:
    """A Markdown table with padded columns; `right_aligned[i]` aligns column i to the right. Cells must be escaped already."""
    widths = [max(3, *(len(row[i]) for row in (header, *body))) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(cells, widths, right_aligned, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [
        ("-" * (width - 1) + ":") if flush else "-" * width for width, flush in zip(widths, right_aligned, strict=True)
    ]
    return "\n".join([line(header), line(rule), *(line(row) for row in body)])


def constant_texts(rows: Sequence[Row]) -> list[str]:
    """The fields that are equal in all rows, as `name value` texts."""
    group = rows[0].group
    own_column = _varying_fields(rows)
    shown = [name for name in _CONSTANT_FIELDS if name not in own_column and not _is_redundant(group, name)]
    texts = [f"{field_label(name)} {_field_text(group, name)}" for name in shown if name != "framework_version"]
    if "framework_version" not in own_column:
        versions = {f"{row.group.framework} {row.group.framework_version}" for row in rows if row.group.framework}
        texts.insert(0, clean(", ".join(sorted(versions)), 200) or DASH)
    if not _differs(rows, "deviations") and group.deviations:
        texts.append("leaves the closed rules: " + clean("; ".join(group.deviations), 300))
    return [text for text in texts if not text.endswith(DASH)]


def _is_redundant(group: Group, name: str) -> bool:
    """True for a constant that the table shows in another way, or that says nothing here."""
    if name in ("stop", "mode"):
        return group.to_target
    if name in _OTHER_SETTINGS:
        return bool(getattr(group, name) == getattr(Group(), name))
    return (name == "nodes" and group.nodes == 1) or (name == "cores_per_device" and group.device != "cpu")


def _differs(rows: Sequence[Row], name: str) -> bool:
    return any(getattr(row.group, name) != getattr(rows[0].group, name) for row in rows)


def _field_text(group: Group, name: str) -> str:
    value = getattr(group, name)
    if value is None or value in ("", (), {}):
        return DASH
    if name == "targets":
        return clean(", ".join(f"{metric} {target:g}" for metric, target in group.targets.items()), 80)
    if name == "data_fingerprint":
        return clean(value, 12)
    return f"{value:,}" if isinstance(value, int) else clean(str(value), 80)


def _varying_fields(rows: Sequence[Row]) -> list[str]:
    """Fields that differ between rows, and so need a column of their own."""
    names = [name for name in _CONSTANT_FIELDS if _differs(rows, name)]
    versions = {(row.group.framework, row.group.framework_version) for row in rows}
    if len(versions) == len({framework for framework, _ in versions}) and "framework_version" in names:
        names.remove("framework_version")  # one version each: listed above the table
    return names


class Footnotes:
    """Footnotes of a table, each with a letter that rows refer to."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """The mark of a footnote, `(a)`; the same text gets the same mark."""
        if text not in self.texts:
            self.texts.append(text)
        return f"({_footnote_letter(self.texts.index(text))})"

    def lines(self) -> list[str]:
        """The footnotes in order."""
        return [f"({_footnote_letter(index)}) {text}" for index, text in enumerate(self.texts)]


def _footnote_letter(index: int) -> str:
    return chr(ord("a") + index % 26) + (str(index // 26) if index >= 26 else "")


@dataclass(frozen=True)
class Table:
    """A table as plain text: nothing in it is escaped for Markdown or HTML yet."""

    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    right_aligned: tuple[bool, ...]
    """True for columns of numbers."""
    footer: tuple[str, ...] = ()
    """Explanations and footnotes, one line each."""


def results_markdown(rows: Sequence[Row]) -> str:
    """The table of rows that belong together as Markdown, with its footer."""
    table = results_table(rows)
    body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
    footer = [markdown_escape(line) for line in table.footer]
    return "\n".join([markdown_table(table.header, body, table.right_aligned), *([""] if footer else []), *footer])


def results_table(rows: Sequence[Row]) -> Table:
    """The table of rows that belong together as plain text."""
    footnotes, names, to_target = Footnotes(), _varying_fields(rows), rows[0].group.to_target
    header = ["framework", "devices", *(field_label(name) for name in names), "runs"]
    if to_target:
        header += ["minutes", "spread", "epochs", "samples/s", "speedup", "= throughput", "× efficiency"]
    else:
        header += ["samples/s", "throughput scaling"]
    body = tuple(tuple(_cells(row, names, footnotes, rows)) for row in rows)
    right = [False, True, *(name in _NUMERIC_FIELDS for name in names), False]
    right += [False, False, True, True, True, True, True] if to_target else [True, True]
    return Table(tuple(header), body, tuple(right), (*_speedup_footer(rows), *footnotes.lines()))


def _cells(row: Row, names: Sequence[str], footnotes: Footnotes, rows: Sequence[Row]) -> list[str]:
    group, score = row.group, row.score
    marks = "".join(f" {footnotes.mark(text)}" for text in _row_footnotes(row, rows))
    devices = DASH if group.devices is None else str(group.devices)
    cells = [clean(group.framework, 80) or DASH, devices + marks, *(_field_text(group, name) for name in names)]
    cells.append(runs_text(row))
    rate = DASH if score.samples_per_second is None else rate_text(score.samples_per_second)
    if not group.to_target:
        return [*cells, rate, two_decimals(row.speedup.throughput if row.speedup else None)]
    spread = DASH
    if (
        score.seconds_standard_deviation is not None
        and score.seconds_minimum is not None
        and score.seconds_maximum is not None
    ):
        low, high, standard_deviation = score.seconds_minimum, score.seconds_maximum, score.seconds_standard_deviation
        spread = f"{minutes_text(low)}–{minutes_text(high)} ±{minutes_text(standard_deviation)}"
    speedup = row.speedup
    factors = (speedup.total, speedup.throughput, speedup.efficiency) if speedup else (None, None, None)
    epochs = DASH if score.epochs is None else f"{score.epochs:.1f}"
    return [*cells, score_text(row), spread, epochs, rate, *(two_decimals(value) for value in factors)]


def _row_footnotes(row: Row, rows: Sequence[Row]) -> list[str]:
    group = row.group
    texts = [clean(label, 80) for label in row.labels if label not in _KNOWN_LABELS]
    if _differs(rows, "deviations"):
        texts += ["leaves the closed rules: " + clean(text, 80) for text in group.deviations]
    if group.profile not in ("demo", "synthetic"):
        texts += row.score.notes
    same_but_hyperparameters = [other.group for other in rows if _differ_only_in_hyperparameters(group, other.group)]
    if len(same_but_hyperparameters) > 1:
        common = set.intersection(*(set(other.hyperparameters) for other in same_but_hyperparameters))
        own = [f"{key} {value}" for key, value in group.hyperparameters if (key, value) not in common]
        texts.append("with " + (clean(", ".join(own), 200) or "no other value logged"))
    return texts


def _differ_only_in_hyperparameters(one: Group, other: Group) -> bool:
    names = (name for name in field_names(Group, row=True) if name != "hyperparameters")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _speedup_footer(rows: Sequence[Row]) -> list[str]:
    counts = sorted({row.speedup.baseline_devices for row in rows if row.speedup})
    if not counts:
        return []
    base = devices_text(counts[0]) if len(counts) == 1 else "its fewest devices"
    if not rows[0].group.to_target:
        return [f"Throughput scaling: samples/s against the same framework on {base}."]
    return [
        f"speedup against the same framework on {base} = throughput scaling (time per epoch) "
        "× statistical efficiency (epochs to target)."
    ]


def runs_text(row: Row) -> str:
    """`3 of 5, 1 failed`: successful runs, runs that the rules require, failed runs."""
    score = row.score
    text = str(score.runs_successful)
    if score.runs_required is not None:
        text += f" of {score.runs_required}"
    return text + (f", {score.runs_failed} failed" if score.runs_failed else "")


def score_text(row: Row) -> str:
    """The score in minutes and how it was taken: `0.12 (plain mean of 2)`."""
    score = row.score
    if score.seconds is None:
        return DASH
    return f"{minutes_text(score.seconds)} ({score.method} of {score.runs_retained})"


def minutes_text(seconds: float) -> str:
    """Seconds as minutes with two decimals, three below a tenth of a minute."""
    value = seconds / 60.0
    return f"{value:.3f}" if value < 0.1 else f"{value:,.2f}"


def rate_text(value: float) -> str:
    """A rate with three significant digits, above 100 without decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def two_decimals(value: float | None) -> str:
    """A ratio with two decimals; a dash for None."""
    return DASH if value is None else f"{value:.2f}"
