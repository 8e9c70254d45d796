"""All-reduces in a report: time and bandwidths over size, and the link that they fit. They train nothing, so they stand in no
other table."""

from __future__ import annotations

from collections.abc import Sequence

from suite.results.logs.all_reduce import algorithm_bandwidth, bus_bandwidth, shown_link
from suite.results.report.markdown import markdown_table
from suite.results.report.study_columns import records
from suite.results.report.tables import Table
from suite.results.score.condition import busy_labels, shared_labels
from suite.results.score.groups import Row
from suite.results.score.link_fit import LinkFit, fit_link
from suite.results.text import bytes_text, clean, figure_text, markdown_escape

TITLE = "All-reduce"
DEFINITIONS = (
    "Time: median of the timed all-reduces of a size. As nccl-tests define them: algorithm bandwidth is bytes / time, bus "
    "bandwidth that × 2 (n − 1) / n for n devices. Fit: time = 2 (n − 1) · α + 2 (n − 1) / n · bytes / B, the ring's."
)


def split(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """(rows of all-reduces, all others)."""
    return [row for row in rows if row.all_reduces], [row for row in rows if not row.all_reduces]


def all_reduce_markdown(rows: Sequence[Row]) -> list[str]:
    """The section of these rows; nothing where there are none."""
    if not rows:
        return []
    table = all_reduce_table(rows)
    body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
    notes = "\n".join(f"- {markdown_escape(line)}" for line in table.footer)
    return [
        f"## {TITLE}",
        markdown_escape(labels_text(rows)),
        markdown_table(table.header, body, table.right_aligned, 2),
        notes,
    ]


def labels_text(rows: Sequence[Row]) -> str:
    """The definitions, and the labels that all rows share; those of single rows stand with their fits."""
    labels = shared_labels(row.labels for row in rows)
    return DEFINITIONS + (f" Labels: {clean(', '.join(labels), 300)}." if labels else "")


def all_reduce_table(rows: Sequence[Row]) -> Table:
    """A line for each row and size; below it what links there are and what they fit."""
    header = ("devices", "size", "µs", "mean µs", "algorithm GB/s", "bus GB/s")
    body = []
    names = row_names(rows)
    for row, name in zip(rows, names, strict=True):
        for sums in row.all_reduces:
            for one in sums.sizes:
                size, seconds = one.size_bytes, one.median_seconds
                rates = (algorithm_bandwidth(size, seconds), bus_bandwidth(size, seconds, sums.devices))
                times = (figure_text(value * 1e6, 4) for value in (seconds, one.mean_seconds))
                cells = (*times, *(figure_text(rate / 1e9) for rate in rates))
                body.append((name, bytes_text(size), *cells))
    right = (False, True, True, True, True, True)
    return Table(header, tuple(body), right, tuple(map(_fit_line, rows, names, _own_labels(rows))))


def row_names(rows: Sequence[Row]) -> list[str]:
    """The name of each row: of several with one name also the largest size, then what made the machine busy, then a number."""
    names = [_row_name(row) for row in rows]
    numbers = [f"no. {number}" for number in range(1, len(rows) + 1)]
    for further in ([_largest_size(row) for row in rows], [_busy(row) for row in rows], numbers):
        repeated = {name for name in names if names.count(name) > 1}
        names = [
            f"{name}, {text}" if text and name in repeated else name for name, text in zip(names, further, strict=True)
        ]
    return names


def _largest_size(row: Row) -> str:
    return f"up to {bytes_text(max((one.size_bytes for sums in row.all_reduces for one in sums.sizes), default=0))}"


def _busy(row: Row) -> str:
    return ", ".join(busy_labels(row.condition))


def _own_labels(rows: Sequence[Row]) -> list[list[str]]:
    """Of each row the labels that not all have."""
    shared = shared_labels(row.labels for row in rows)
    return [[label for label in row.labels if label not in shared] for row in rows]


def _row_name(row: Row) -> str:
    """`pytorch, 2 devices, fp32`; the link where another than the usual one was asked for."""
    group = row.group
    parts = [group.framework, f"{group.devices} devices", group.precision, group.system]
    parts += [f"link {group.link}"] if group.link != "auto" else []
    parts += [f"{group.nodes} nodes"] if (group.nodes or 1) > 1 else []
    return clean(", ".join(part for part in parts if part), 120)


def links_text(row: Row) -> str:
    """`link asked for: auto, topology.json shows NVLink`."""
    group = row.group
    found = dict.fromkeys(shown_link(record.path.parent, group.device, group.devices or 0) for record in records(row))
    shown = clean("; ".join(text for text in found if text), 80)
    return f"link asked for: {clean(group.link, 20)}, topology.json shows {shown or 'none'}"


def _fit_line(row: Row, name: str, labels: Sequence[str]) -> str:
    fit, own = fit_link(row.all_reduces), "".join(f"; {clean(label, 120)}" for label in labels)
    return f"{name}: {'no line fits' if fit is None else link_text(fit)}; {links_text(row)}{own}"


def link_text(fit: LinkFit) -> str:
    """`α 41 ± 3 µs, B 1.9 ± 0.1 GB/s; no size is further off than 31 %`."""
    pairs = ((fit.alpha_seconds * 1e6, fit.alpha_error, 1e6), (fit.bytes_per_second / 1e9, fit.bandwidth_error, 1e-9))
    alpha, link = (
        figure_text(value) + ("" if error is None else f" ± {figure_text(error * unit, 2)}")
        for value, error, unit in pairs
    )
    return f"α {alpha} µs, B {link} GB/s; no size is further off than {fit.largest_deviation * 100:.0f} %"
