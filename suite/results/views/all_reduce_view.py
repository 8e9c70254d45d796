"""Report section on all-reduces: time and bandwidth by size, and the fitted link.

All-reduce runs do not train a model, so all other tables omit them.
"""

from __future__ import annotations

from collections.abc import Sequence

from suite.results.columns import Result
from suite.results.data_table import DataTable
from suite.results.logs.all_reduce import bus_bandwidth, shown_link
from suite.results.predict.fits import LinkFit, fit_link
from suite.results.scores import shared_labels
from suite.results.settings_difference import named_apart
from suite.results.text import clean
from suite.results.views.section import Section, SectionKind, result_labels, with_error

TITLE = "All-reduce"
DEFINITIONS = (
    "Time is the median of the timed all-reduces of a size. Bandwidths are defined as in"
    " nccl-tests: the algorithm bandwidth is bytes / time, and the bus bandwidth is the algorithm"
    " bandwidth × 2 (n − 1) / n for n devices. The fit is the time of a ring: time = 2 (n − 1) · α"
    " + 2 (n − 1) / n · bytes / B."
)


def all_reduce_sections(results: Sequence[Result]) -> list[Section]:
    """Return a section with a row for each all-reduce result and message size.

    The section also contains the fitted links. The list is empty if `results` contains no
    all-reduce results.
    """
    measured = [result for result in results if result.all_reduces]
    if not measured:
        return []
    names = row_names(measured)
    lines = [
        {
            "run": name,
            "size_bytes": size.size_bytes,
            "microseconds": size.median_seconds * 1e6,
            "mean_microseconds": size.mean_seconds * 1e6,
            "algorithm GB/s": size.size_bytes / size.median_seconds / 1e9,
            "bus GB/s": bus_bandwidth(size.size_bytes, size.median_seconds, times.devices) / 1e9,
            "notes": labels,
        }
        for result, name, labels in zip(measured, names, result_labels(measured), strict=True)
        for times in result.all_reduces
        for size in times.sizes
    ]
    shared = ", ".join(shared_labels(measured))
    above = f"{DEFINITIONS} Labels: {shared}." if shared else DEFINITIONS
    below = tuple(
        f"{name}: {link_text(fit_link(result.all_reduces))}. {_links(result)}."
        for result, name in zip(measured, names, strict=True)
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
    """Return a name for each result, such as `pytorch, 2 devices, fp32, dgx1`.

    If several names are equal, the settings that differ are added.
    """
    names = []
    for result in measured:
        parts = [result.framework, f"{result.devices} devices", result.precision, result.system]
        if (result.nodes or 1) > 1:
            parts.append(f"{result.nodes} nodes")
        names.append(", ".join(filter(None, parts)))
    return list(map(clean, named_apart(measured, names)))


def _links(result: Result) -> str:
    """Describe the setting `transport` and the links in the `topology.json` of the runs."""
    records = [run.record for run in result.runs if run.record is not None]
    links = [
        shown_link(record.path.parent, result.device, result.devices or 0) for record in records
    ]
    found = clean("; ".join(dict.fromkeys(link for link in links if link)), 80)
    return f"Transport: {clean(result.transport, 20)}. Links in topology.json: {found or 'none'}"


def link_text(fit: LinkFit | None) -> str:
    """Describe a fitted link: `α 41 ± 3 µs, B 1.9 ± 0.1 GB/s, largest deviation 31 %`."""
    if fit is None:
        return "no fit"
    alpha = with_error(fit.alpha_seconds, fit.alpha_error, 1e6)
    link = with_error(fit.bytes_per_second, fit.bandwidth_error, 1e-9)
    return f"α {alpha} µs, B {link} GB/s, largest deviation {fit.largest_deviation * 100:.0f} %"
