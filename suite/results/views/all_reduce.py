"""All-reduces: time and bandwidths over size, and the link that they fit. Such runs do not train and have no other table."""

from __future__ import annotations

from collections.abc import Sequence

from suite.results.columns import Result
from suite.results.data_table import DataTable
from suite.results.logs.all_reduce import bus_bandwidth, shown_link
from suite.results.predict.fits import LinkFit, fit_link
from suite.results.scores import shared_labels
from suite.results.settings_difference import named_apart
from suite.results.text import clean
from suite.results.views.section import Section, SectionKind, own_labels, with_error

TITLE = "All-reduce"
DEFINITIONS = (
    "Time: median of the timed all-reduces of a size. As nccl-tests define them: algorithm bandwidth is bytes / time, bus "
    "bandwidth that × 2 (n − 1) / n for n devices. Fit: time = 2 (n − 1) · α + 2 (n − 1) / n · bytes / B, the ring's."
)


def all_reduce_sections(results: Sequence[Result]) -> list[Section]:
    """Return a section with a line for each result and size, and the links and fits below. Empty without all-reduces."""
    measured = [row for row in results if row.all_reduces]
    if not measured:
        return []
    names = row_names(measured)
    shared = ", ".join(shared_labels(measured))
    lines = [
        {
            "run": name,
            "size_bytes": one.size_bytes,
            "microseconds": one.median_seconds * 1e6,
            "mean_microseconds": one.mean_seconds * 1e6,
            "algorithm GB/s": one.size_bytes / one.median_seconds / 1e9,
            "bus GB/s": bus_bandwidth(one.size_bytes, one.median_seconds, sums.devices) / 1e9,
            "notes": own,
        }
        for row, name, own in zip(measured, names, own_labels(measured), strict=True)
        for sums in row.all_reduces
        for one in sums.sizes
    ]
    above = DEFINITIONS + (f" Labels: {shared}." if shared else "")
    below = tuple(
        f"{name}: {link_text(fit_link(row.all_reduces))}; {_links(row)}"
        for row, name in zip(measured, names, strict=True)
    )
    return [
        Section(
            TITLE,
            (above,),
            DataTable.from_rows(lines).without_empty(),
            below=below,
            keys=2,
            kind=SectionKind.ALL_REDUCE,
        )
    ]


def row_names(measured: Sequence[Result]) -> list[str]:
    """Return the names of results, `pytorch, 2 devices, fp32, dgx1`, with the settings in which equal names differ."""
    plain = [
        ", ".join(text for text in (row.framework, f"{row.devices} devices", row.precision, row.system) if text)
        + (f", {row.nodes} nodes" if (row.nodes or 1) > 1 else "")
        for row in measured
    ]
    return list(map(clean, named_apart(measured, plain)))


def _links(row: Result) -> str:
    links = [shown_link(run.record.path.parent, row.device, row.devices or 0) for run in row.runs if run.record]
    shown = clean("; ".join(dict.fromkeys(text for text in links if text)), 80)
    return f"requested link: {clean(row.link, 20)}, topology.json shows {shown or 'none'}"


def link_text(fit: LinkFit | None) -> str:
    """Return a fitted link as text: `α 41 ± 3 µs, B 1.9 ± 0.1 GB/s. Largest deviation: 31 %`."""
    if fit is None:
        return "no line fits"
    alpha = with_error(fit.alpha_seconds, fit.alpha_error, 1e6)
    link = with_error(fit.bytes_per_second, fit.bandwidth_error, 1e-9)
    return f"α {alpha} µs, B {link} GB/s; no size is further off than {fit.largest_deviation * 100:.0f} %"
