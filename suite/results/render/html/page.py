"""Write the report as a single HTML file with interactive figures.

The page makes no network requests, and the template escapes all text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.results.columns import Result, Run
from suite.results.price import Prices
from suite.results.render.html import charts
from suite.results.render.html.figure_blocks import (
    MAX_DRAWN_TABLES,
    prediction_blocks,
    report_figure_blocks,
    report_section_blocks,
)
from suite.results.render.html.next_steps import next_steps_blocks
from suite.results.render.html.page_file import download_links, refuse_unwritable, write_page
from suite.results.render.html.page_rows import PageRows
from suite.results.render.html.published_block import published_block, published_overview_blocks
from suite.results.render.html.run_counts import run_counts_text
from suite.results.render.html.run_list import MAX_RUNS, run_views
from suite.results.scores import results_of
from suite.results.views import report_tables, report_view
from suite.results.views.headlines import headlines
from suite.results.views.section import SectionKind

FOLLOW_SECONDS = 10.0
"""Interval in seconds at which a page with unfinished runs is rewritten and reloaded."""


def write_html(
    runs: Sequence[Run],
    out: Path,
    published: Sequence[Result] = (),
    figures: Path | None = None,
    prices: Prices | None = None,
    predicted: Sequence[int] = (),
    follow: bool | None = None,
    home: Path | None = None,
) -> None:
    """Write the report on runs to a new HTML page.

    Args:
        runs: The runs, including failed runs.
        out: Path of the new file.
        published: Published results to display next to the results of the runs.
        figures: New or empty folder for the figures as SVG and PNG files.
        prices: Prices of devices, for the cost of each result.
        predicted: Numbers of devices for which times are predicted.
        follow: True if the page displays its age and reloads itself. False for the final version of
            such a page.
        home: Final folder of the page, if the page will be moved there from the folder of `out`.

    Raises:
        ValueError: `out` exists, or `figures` is not empty. In both cases no file is written.
    """
    refuse_unwritable(out, figures)
    results = results_of(runs)
    home = home or out.parent
    rows = PageRows(results, home)
    context = _report_context(runs, results, rows, published, prices, predicted, home)
    script_data: dict[str, Any] = {"what": "runs"}
    if follow is not None:
        script_data |= {"written": int(time.time()), "every": FOLLOW_SECONDS if follow else 0}
    write_page(out, rows, runs, script_data, figures, **context)


def _report_context(
    runs: Sequence[Run],
    results: list[Result],
    rows: PageRows,
    published: Sequence[Result],
    prices: Prices | None,
    predicted: Sequence[int],
    home: Path,
) -> dict[str, Any]:
    """Return the template variables for a report. The arguments are those of `write_html`.

    The page contains, in this order: overview and studies, figures, tables of results, and
    problems. If there is only one table of results, it precedes the figures.
    """
    view = report_view.report(runs, prices, next_steps=False)
    trained = [result for result in results if not result.all_reduces]
    workloads = {result.workload for result in trained}
    related = [result for result in published if result.workload in workloads]
    tables = report_tables.group_into_tables(trained)
    titles = report_tables.titles(tables)
    looks = charts.looks(trained, related)
    figure_blocks = report_figure_blocks(rows, trained, related, tables, looks, prices)
    if published:
        figure_blocks.append(published_block(rows, trained, related, looks))
    figure_blocks += prediction_blocks(rows, results, trained, predicted, prices)
    figure_blocks += published_overview_blocks(rows, related, prices)

    # The page header already contains the notice, and the tables already contain the speedups of an
    # overview.
    sections = [
        section for section in view.sections if section.kind is not SectionKind.OVERVIEW_SPEEDUPS
    ]
    notices = dict.fromkeys(
        text
        for section in sections
        if section.kind is SectionKind.RESULTS
        for text in section.above
    )
    is_single = len(tables) == 1
    shown = []
    for section in sections:
        if section.kind is SectionKind.RESULTS:
            section = replace(section, above=(), title="Results" if is_single else section.title)
        shown.append(section)
    report_blocks = report_section_blocks(rows, shown, runs, results, looks)
    are_results = [block.kind is SectionKind.RESULTS for block in report_blocks]
    place = are_results.index(True) + is_single if True in are_results else len(report_blocks)
    blocks = [*report_blocks[:place], *figure_blocks, *report_blocks[place:]]
    blocks += next_steps_blocks(rows, runs, trained)

    without_success = [run for run in runs if not (run.succeeded or run.running or run.copy_of)]
    return {
        "title": f"Training results: {titles[0]}" if is_single else "Training results",
        "about": run_counts_text(runs),
        "notices": list(notices),
        "headlines": [
            (text, rows.numbers(of_sentence)) for text, of_sentence in headlines(trained, prices)
        ],
        "failures": {"numbers": rows.numbers(without_success), "count": len(without_success)}
        if without_success
        else None,
        "blocks": blocks,
        "undrawn": max(0, len(tables) - MAX_DRAWN_TABLES),
        "download": download_links(view, "suite report", runs),
        "runs": run_views(runs, home, rows.number),
        "runs_left_out": max(0, len(runs) - MAX_RUNS),
    }
