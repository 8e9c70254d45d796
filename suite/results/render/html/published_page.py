"""Write the HTML page of `suite published list`.

The page contains an overview, a figure for each workload, and a table with all columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from suite.results.columns import Columns, Result
from suite.results.render.html import scaling_charts
from suite.results.render.html.page_blocks import Block, section_blocks, speedup_block, with_content
from suite.results.render.html.page_file import download_links, refuse_unwritable, write_page
from suite.results.render.html.page_rows import PageRows
from suite.results.render.html.run_counts import count_text
from suite.results.targets import same_targets, target_text
from suite.results.views import report_tables
from suite.results.views.overview import is_reference
from suite.results.views.results_section import results_section
from suite.results.views.section import Section, View


def write_published_html(view: View, out: Path, ours: Sequence[Result] = ()) -> None:
    """Write a list of published results as a new HTML page.

    The page contains an overview, a figure for each workload, and a table with all columns.

    Args:
        view: The view of `suite published list`. The last section of the view is the list.
        out: Path of the new file.
        ours: Results of this suite. Reference results are drawn in the figures of the published
            results.

    Raises:
        ValueError: `out` exists.
    """
    refuse_unwritable(out)
    *overview, listed = view.sections
    results = [row for of_row in listed.of for row in of_row if isinstance(row, Result)]
    drawn = [result for result in ours if is_reference(result)]

    def matching_filters(row: Columns) -> dict[str, Sequence[str]]:
        """Return the filter values for which the page also shows a result of this suite.

        The result is shown for every division and every submitter. The result is also shown for the
        rounds that have the same target, or for all rounds if no round has the same target.
        """
        alike = [result for result in results if _have_same_target(result, row)] or results
        return {
            "round": sorted({result.round for result in alike}),
            "division": sorted({result.division for result in results}),
            "submitter": sorted({result.submitter for result in results}),
        }

    rows = PageRows(ours, out.parent, matching_filters)
    listing = view.data.with_column(
        "target",
        [
            target_text(result.targets, result.workload, result.falling_metrics)
            for result in results
        ],
    )
    listing = listing.without("target_mask").renamed(
        {"throughput": "rate", "runs_successful": "successful"}
    )
    every_column = Section(
        "All results with all columns", table=listing.without_empty(), keys=3, of=listed.of
    )
    points = Block(
        "Time to target by number of accelerators",
        "time-to-target",
        (
            "Each point is a result. Lower is faster.",
            "Rounds differ in targets and rules, so compare results of the same round only.",
            "Click a name above a figure to hide its points.",
        ),
        figures=scaling_charts.workload_charts(results, ours),
    )
    tables = report_tables.group_into_tables(drawn)
    local_sections = [
        results_section(table, title=f"Results of these logs: {title}")
        for title, table in zip(report_tables.titles(tables), tables, strict=True)
    ]
    blocks = [points, *section_blocks(rows, local_sections)]
    blocks += with_content([speedup_block(rows, drawn, tables)])
    blocks += section_blocks(rows, [*overview, every_column])
    write_page(
        out,
        rows,
        [*results, *drawn],
        {"what": "results", "start": _initial_filters(results, drawn)},
        title=view.title,
        about=_published_counts(results, drawn, len(ours) - len(drawn)),
        blocks=blocks,
        download=download_links(view, "suite published list"),
    )


def _published_counts(results: Sequence[Result], drawn: Sequence[Result], left_out: int) -> str:
    """Return the first sentences of a page of published results.

    The sentences state the number of results and the rounds.
    """
    rounds = ", ".join(sorted({result.round for result in results}))
    submitters = count_text(len({result.submitter for result in results}), "submitter")
    sentences = [f"{count_text(len(results), 'result')} of {submitters}, from {rounds}."]
    if drawn:
        sentences.append(f"{count_text(len(drawn), 'result')} of these logs.")
    if left_out:
        sentences.append(
            f"Not shown: {count_text(left_out, 'demo, synthetic, or CPU result')} of these logs."
        )
    return " ".join(sentences)


def _have_same_target(first: Columns, second: Columns) -> bool:
    """Check whether two results have the same workload and no conflicting targets."""
    if first.workload != second.workload:
        return False
    return same_targets(first.targets, second.targets, first.workload) is not False


def _initial_filters(results: Sequence[Result], ours: Sequence[Result]) -> dict[str, str]:
    """Return the initial filters of a page of published results.

    The filters select a workload, a round, and the closed division.

    If the page has results of this suite, the filter selects one of their workloads. The round is
    the round with the most results that have the same target as a suite result. If several rounds
    have equally many results, the latest of these rounds is selected.
    """
    chosen: dict[str, str] = {}
    remaining = list(results)
    our_workloads = {result.workload for result in ours}
    for name in ("workload", "round"):
        if len({getattr(result, name) for result in results}) < 2:
            continue
        ranks = []
        for result in remaining:
            is_comparable = any(_have_same_target(result, reference) for reference in ours)
            ranks.append((result.workload in our_workloads, is_comparable, getattr(result, name)))
        counts = Counter(ranks)
        *_, chosen[name] = max(ranks, key=lambda rank: (rank[:2], counts[rank], rank[2]))
        remaining = [result for result in remaining if getattr(result, name) == chosen[name]]
    has_choice = len({result.division for result in results}) > 1
    if has_choice and any(result.division == "closed" for result in remaining):
        chosen["division"] = "closed"
    return chosen
