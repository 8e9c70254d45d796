"""Published results as one HTML file: accelerators at a glance, a figure for each workload, every system of every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from suite import __version__
from suite.results.html.charts import ScatterChart, Series, finite_points
from suite.results.html.curves import file_name
from suite.results.html.figures import matplotlib_settings
from suite.results.html.page import draw_inline, page_template, refuse_unwritable, write_new
from suite.results.html.theme import OTHER_SLOT, framework_slots
from suite.results.names import WORKLOAD_TITLES, framework_name
from suite.results.report.overview import published_overview
from suite.results.report.published_list import Filters, filtered_results, published_table
from suite.results.report.report import NOT_VERIFIED
from suite.results.score.measurement import Measurement
from suite.results.score.price import Prices
from suite.results.text import clean

_OTHERS = "other frameworks"


def write_published_html(out: Path, filters: Filters, prices: Prices | None = None) -> None:
    """The published results that match as the new file `out`; with `prices` what each costs.

    Raises ValueError for filters that match nothing, or an `out` that exists or cannot be written.
    """
    refuse_unwritable(out)
    results = filtered_results(filters, prices)
    items = [item.measurement for item in results]
    with matplotlib_settings():
        figures = [draw_inline(chart, f"w{index}") for index, chart in enumerate(workload_charts(items), start=1)]
    page = page_template("published.html.j2").render(
        not_verified=NOT_VERIFIED,
        version=__version__,
        overview=_counts(items),
        matrices=published_overview(items, prices),
        figures=figures,
        table=published_table(results, prices),
    )
    try:
        write_new(out, page)
    except OSError as error:
        raise ValueError(f"{error.filename or out} cannot be written ({error.strerror}); give another place") from error


def _counts(items: Sequence[Measurement]) -> list[str]:
    rounds = sorted({clean(item.origin, 30) for item in items})
    submitters = len({item.submitter for item in items})
    return [
        f"{len(items):,} result{'' if len(items) == 1 else 's'}",
        ", ".join(rounds),
        f"{submitters:,} submitter{'' if submitters == 1 else 's'}",
    ]


def workload_charts(items: Sequence[Measurement]) -> list[ScatterChart]:
    """Time to target against accelerators, one chart for each workload, one colour for each framework."""
    slots = framework_slots(name for item in items if (name := _framework(item)) != _OTHERS)
    charts = []
    for workload in dict.fromkeys(item.workload for item in items):
        members = [item for item in items if item.workload == workload and item.devices > 0 and item.to_target]
        series = [_series(members, name, slots) for name in sorted({_framework(item) for item in members})]
        if len(members) > 1:
            title = WORKLOAD_TITLES.get(workload, clean(workload, 40))
            charts.append(ScatterChart(file_name("00", workload), title, ("published",), tuple(series)))
    return charts


def _framework(item: Measurement) -> str:
    """`pytorch`, `tensorflow` or `mxnet`; others, and descriptions of several, are one group."""
    name = framework_name(item.framework, item.system)
    return name if name in ("pytorch", "tensorflow", "mxnet") else _OTHERS


def _series(members: Sequence[Measurement], name: str, slots: Mapping[str, int]) -> Series:
    points = finite_points(
        (float(item.devices), (item.score.seconds or 0.0) / 60) for item in members if _framework(item) == name
    )
    slot = slots.get(name, OTHER_SLOT)
    return Series(name, slot, (tuple(sorted(points)),), style=slot if slot != OTHER_SLOT else len(slots))
