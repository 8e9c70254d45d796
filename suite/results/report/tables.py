"""Tables of results: columns for what differs, constants above, footnotes below."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from suite.results.names import workload_name
from suite.results.report.markdown import EMPTY, markdown_table
from suite.results.score.family_labels import differing_values
from suite.results.score.groups import Group, Row
from suite.results.score.measurement import measurements
from suite.results.score.price import Prices, cost_text
from suite.results.targets import targets_text
from suite.results.text import clean, devices_text, markdown_escape, placed_text, time_range_text, time_text
from workloads.api import LoggedSettings, field_names

DASH = EMPTY
_FIELDS_IN_ORDER = (
    *("system", "device_name", "sample_unit"),
    *("framework_version", "cores_per_device", "batch_rule", "batch_size_global", "lr_scaling"),
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
_SHOWN_ELSEWHERE = ("profile", "workload", "framework", "device", "devices", "nodes")
"""In the heading, or in columns of their own."""
_OTHER_SETTINGS = tuple(
    name for name in field_names(LoggedSettings, row=True) if name not in (*_FIELDS_IN_ORDER, *_SHOWN_ELSEWHERE)
)
"""Every other setting that distinguishes rows; shown where it is not what a log without it means."""
_CONSTANT_FIELDS = (*_FIELDS_IN_ORDER, *_OTHER_SETTINGS)
"""Fields listed above a table if equal in all its rows; a field that differs becomes a column."""
_OF_FRAMEWORK = ("framework_version", "thread_waiting")
"""Fields that follow from the framework: listed above a table also where frameworks differ in them."""
_NUMERIC_FIELDS = ("cores_per_device", "batch_size_global")
_FIELD_LABELS = {
    "device_name": "device",
    "sample_unit": "samples are",
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
MAX_DEVIATIONS = 4_000
"""Characters of deviations: far more than a run of ours has, against hostile logs."""
KNOWN_LABELS = {"demo", "synthetic", "cpu"}
"""Labels that the heading or the device already shows."""


def field_label(name: str) -> str:
    """How a table calls a field."""
    return _FIELD_LABELS.get(name, name.replace("_", " "))


def constant_texts(rows: Sequence[Row]) -> list[str]:
    """The fields that are equal in all rows, as `name value` texts."""
    group = rows[0].group
    own_column = _varying_fields(rows)
    shown = [name for name in _CONSTANT_FIELDS if name not in own_column and not _is_redundant(group, name)]
    texts = [text for name in shown if name not in _OF_FRAMEWORK for text in [_constant_text(group, name)] if text]
    texts[:0] = [
        text for name in _OF_FRAMEWORK if name not in own_column for text in [_of_frameworks(rows, name)] if text
    ]
    if not _differs(rows, "deviations") and group.deviations:
        texts.append(_deviations_text(group.deviations))
    return texts


def _deviations_text(deviations: Sequence[str]) -> str:
    """In full: what makes a result no official one is nothing to cut."""
    return "leaves the closed rules: " + clean("; ".join(deviations), MAX_DEVIATIONS)


def _constant_text(group: Group, name: str) -> str:
    value = _field_text(group, name)
    return "" if value == DASH else f"{field_label(name)} {value}"


def _of_frameworks(rows: Sequence[Row], name: str) -> str:
    """A field that each framework has one value of: `mxnet 1.9.1, pytorch 2.11.0`, `threads wait active (mxnet, pytorch)`."""
    values = {row.group.framework: _field_text(row.group, name) for row in rows}
    if name == "framework_version":
        known = sorted(f"{framework} {value}" for framework, value in values.items() if framework)
        return clean(", ".join(text.removesuffix(f" {DASH}") for text in known), 200)
    owners: dict[str, list[str]] = {}
    for framework, value in values.items():
        owners.setdefault(value, []).append(framework)
    own = [value for value in owners if value != DASH]
    if len(owners) == 1:
        return f"{field_label(name)} {own[0]}" if own else ""
    return f"{field_label(name)} " + clean("; ".join(f"{value} ({', '.join(owners[value])})" for value in own), 200)


def _is_redundant(group: Group, name: str) -> bool:
    """True for a constant that the table shows in another way, or that says nothing here."""
    if name in ("stop", "mode"):
        return group.to_target
    if name in ("system", "sample_unit"):
        return True  # in the heading; `samples are …`
    if name in _OTHER_SETTINGS:
        return bool(getattr(group, name) == getattr(Group(), name))
    return name == "cores_per_device" and group.device != "cpu"


def _differs(rows: Sequence[Row], name: str) -> bool:
    return any(getattr(row.group, name) != getattr(rows[0].group, name) for row in rows)


def _field_text(group: Group, name: str) -> str:
    value = getattr(group, name)
    if value is None or value in ("", (), {}):
        return DASH
    if name == "targets":
        return clean(targets_text(group.targets, workload_name(group.workload)), 80)
    if name == "data_fingerprint":
        return clean(value, 12)
    if name == "batch_size_global" and group.batch_unit not in ("", "samples"):
        return f"{value:,} {clean(group.batch_unit, 20)}"
    return f"{value:,}" if isinstance(value, int) else clean(str(value), 80)


def _varying_fields(rows: Sequence[Row]) -> list[str]:
    """Fields that differ between rows, and so need a column of their own."""
    names = [name for name in _CONSTANT_FIELDS if _differs(rows, name)]
    for name in _OF_FRAMEWORK:  # one value for each framework: listed above the table
        values = {(row.group.framework, getattr(row.group, name)) for row in rows}
        if name in names and len(values) == len({framework for framework, _ in values}):
            names.remove(name)
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


def results_markdown(rows: Sequence[Row], prices: Prices | None = None) -> str:
    """The table of rows that belong together as Markdown, with its footer."""
    table = results_table(rows, prices)
    body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
    footer = [markdown_escape(line) for line in table.footer]
    keys = table.header.index("devices") + 1
    markdown = markdown_table(table.header, body, table.right_aligned, keys)
    return "\n".join([markdown, *([""] if footer else []), *footer])


@dataclass(frozen=True)
class _Column:
    """A column of results: its heading, its cell for a row, and whether it holds numbers."""

    name: str
    cell: Callable[[Row], str]
    number: bool = True


def results_table(rows: Sequence[Row], prices: Prices | None = None) -> Table:
    """The table of rows that belong together as plain text; with `prices` what each result costs."""
    footnotes, fields = Footnotes(), _varying_fields(rows)
    own_hyperparameters = [_own_hyperparameters(row, rows) for row in rows]
    first = [name for name in fields if name == "system"]  # names the rows, so it stands before them

    def devices(row: Row) -> str:
        group = row.group
        count = DASH if group.devices is None else placed_text(group.devices, group.nodes, _several_nodes(rows))
        return count + "".join(f" {footnotes.mark(text)}" for text in _row_footnotes(row, rows))

    columns = [_field_column(name) for name in first]
    columns += [_Column("framework", lambda row: clean(row.group.framework, 80) or DASH, False)]
    columns += [_Column("devices", devices)]
    columns += [_field_column(name) for name in fields if name not in first]
    if any(own_hyperparameters):
        texts = dict(zip(map(id, rows), own_hyperparameters, strict=True))
        columns.append(_Column("differs in", lambda row: texts[id(row)] or DASH, False))
    columns += _measured_columns(rows, prices)
    body = tuple(tuple(column.cell(row) for column in columns) for row in rows)
    header, right = tuple(column.name for column in columns), tuple(column.number for column in columns)
    return Table(header, body, right, (*_footer(rows, prices), *footnotes.lines()))


def _field_column(name: str) -> _Column:
    return _Column(field_label(name), lambda row: _field_text(row.group, name), name in _NUMERIC_FIELDS)


def _measured_columns(rows: Sequence[Row], prices: Prices | None) -> list[_Column]:
    columns = [_Column("runs", runs_text, False)]
    if not rows[0].group.to_target:
        columns.append(_Column("samples/s", _rate))
        scaling = _Column(
            "throughput scaling", lambda row: two_decimals(row.speedup.throughput if row.speedup else None)
        )
        return [*columns, scaling] if _scaled(rows) else columns
    columns += [
        _Column("time", lambda row: score_text(row, _methods(rows))),
        _Column("spread", _spread, False),
        _Column("epochs", _epochs),
    ]
    columns.append(_Column("samples/s", _rate))
    if prices is not None:
        columns.append(_Column("cost", lambda row: row_cost_text(row, prices)))
    if _scaled(rows):
        columns += [
            _Column("speedup", lambda row: two_decimals(row.speedup.total if row.speedup else None)),
            _Column("= throughput", lambda row: two_decimals(row.speedup.throughput if row.speedup else None)),
            _Column("× efficiency", lambda row: two_decimals(row.speedup.efficiency if row.speedup else None)),
        ]
    return columns


def _scaled(rows: Sequence[Row]) -> bool:
    """True if a row has a speedup over other devices: a table of ratios to oneself says nothing."""
    return any(row.compared is not None for row in rows)


def _several_nodes(rows: Sequence[Row]) -> bool:
    return any((row.group.nodes or 1) > 1 for row in rows)


def _rate(row: Row) -> str:
    return DASH if row.score.samples_per_second is None else rate_text(row.score.samples_per_second)


def _epochs(row: Row) -> str:
    return DASH if row.score.epochs is None else f"{row.score.epochs:.1f}"


def _spread(row: Row) -> str:
    low, high = row.score.seconds_minimum, row.score.seconds_maximum
    deviation = row.score.seconds_standard_deviation
    return DASH if low is None or high is None or deviation is None else time_range_text(low, high, deviation)


def row_cost(row: Row, prices: Prices | None) -> float | None:
    """Cost of one result of the row; None without a price, a known number of devices or a time to target."""
    costs = [prices.cost(item) for item in measurements([row])] if prices is not None else []
    return costs[0] if costs else None


def row_cost_text(row: Row, prices: Prices | None) -> str:
    """`row_cost` as text; a dash for None."""
    cost = row_cost(row, prices)
    return DASH if cost is None else cost_text(cost)


def _row_footnotes(row: Row, rows: Sequence[Row]) -> list[str]:
    group = row.group
    texts = [clean(label, 80) for label in row.labels if label not in KNOWN_LABELS]
    if _differs(rows, "deviations"):
        texts += [_deviations_text([text]) for text in group.deviations]
    return [*texts, *row.score.notes]


def _own_hyperparameters(row: Row, rows: Sequence[Row]) -> str:
    """Hyperparameters in which the row differs from those that agree with it in everything else: `learning_rate=0.01`."""
    twins = [other.group for other in rows if _differ_only_in_hyperparameters(row.group, other.group)]
    if len(twins) < 2:
        return ""
    return differing_values(dict(row.group.hyperparameters), [dict(twin.hyperparameters) for twin in twins])


def _differ_only_in_hyperparameters(one: Group, other: Group) -> bool:
    names = (name for name in field_names(Group, row=True) if name != "hyperparameters")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _footer(rows: Sequence[Row], prices: Prices | None) -> list[str]:
    lines = ["devices: nodes × devices per node."] if _several_nodes(rows) else []
    lines += _speedup_footer(rows) if _scaled(rows) else []
    methods = _methods(rows) if rows[0].group.to_target else ()  # runs of fixed length have neither column
    if methods:
        mean = f"time: {next(iter(methods))} runs, where there are several; " if len(methods) == 1 else ""
        lines.append(f"{mean}spread: fastest–slowest ± standard deviation.")
    if prices is not None and rows[0].group.to_target:
        lines.append("cost of one result = devices × hours to target × price of a device for an hour.")
    return lines


def _methods(rows: Sequence[Row]) -> set[str]:
    """How the times of several runs were averaged: `olympic mean of 3`."""
    timed = (row.score for row in rows if row.score.seconds is not None and row.score.runs_successful > 1)
    return {f"{score.method} of {score.runs_retained}" for score in timed}


def _speedup_footer(rows: Sequence[Row]) -> list[str]:
    bases = sorted({(row.speedup.baseline_devices, row.speedup.baseline_nodes) for row in rows if row.speedup})
    if not bases:
        return []
    base = devices_text(*bases[0]) if len(bases) == 1 else "its fewest devices"
    across = any(row.compared is not None and row.compared.baseline_nodes != row.place[1] for row in rows)
    network = ["A speedup from one number of nodes to another counts the network between them."] if across else []
    if not rows[0].group.to_target:
        return [f"Throughput scaling: samples/s against the same framework on {base}.", *network]
    return [
        f"speedup against the same framework on {base} = throughput scaling (time per epoch) "
        "× statistical efficiency (epochs to target).",
        *network,
    ]


def runs_text(row: Row) -> str:
    """`3 of 5, 1 failed`: successful runs, runs that the rules require if they require any, failed runs."""
    score = row.score
    text = str(score.runs_successful)
    if score.runs_required is not None:
        text += f" of {score.runs_required}"
    return text + (f", {score.runs_failed} failed" if score.runs_failed else "")


def score_text(row: Row, methods: Collection[str] = ()) -> str:
    """The score; where a table has several ways of averaging (`methods`) also which: `20.41 min (plain mean of 2)`."""
    score = row.score
    if score.seconds is None:
        return DASH
    several = len(methods) > 1 and score.runs_successful > 1
    return time_text(score.seconds) + (f" ({score.method} of {score.runs_retained})" if several else "")


def rate_text(value: float) -> str:
    """A rate with three significant digits, above 100 without decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def two_decimals(value: float | None) -> str:
    """A ratio with two decimals; a dash for None."""
    return DASH if value is None else f"{value:.2f}"
