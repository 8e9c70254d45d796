"""`suite report`: tables of the results of runs.

The report also contains speedups, failed runs, and unreadable log lines.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

from suite.results.columns import HIDDEN, OURS, Result, Run
from suite.results.data_table import DataTable
from suite.results.price import Prices
from suite.results.scores import results_of
from suite.results.series import speedups
from suite.results.text import clean
from suite.results.views.all_reduce_view import all_reduce_sections
from suite.results.views.baseline import Baseline, baseline_section
from suite.results.views.overview import overview
from suite.results.views.repeat import resuming_commands
from suite.results.views.report_tables import group_into_tables, titles
from suite.results.views.result_sentences import relative_path_text
from suite.results.views.results_section import results_section
from suite.results.views.section import NOT_VERIFIED, Section, SectionKind, View
from suite.results.views.study_view import sections as studies

FAILED = "Failed runs"

NOT_ENDED = "Runs that have not ended"

_MAX_FILES, _MAX_PROBLEMS = 30, 5


def report(
    runs: Sequence[Run],
    prices: Prices | None = None,
    against: Baseline | None = None,
    verbose: bool = False,
    next_steps: bool = True,
) -> View:
    """Return the report on runs.

    Args:
        runs: The runs, including failed runs.
        prices: Prices of devices, for a column with the cost of each result.
        against: Baseline for an additional table of ratios. None omits the table.
        verbose: True to include settings that have their default value.
        next_steps: True to append the folder of the logs and the command for the HTML page.

    Raises:
        ValueError: No price of the list applies, or no result matches `against`.
    """
    results = results_of(runs)
    price_notes = () if prices is None else prices.unused_notes(results)
    trained = [result for result in results if not result.all_reduces]
    tables = group_into_tables(trained)
    sections = [*overview(trained, prices), *studies(runs, prices), *all_reduce_sections(results)]
    if against is not None:
        sections.append(baseline_section(trained, against))
    for table, title in zip(tables, titles(tables), strict=True):
        sections.append(results_section(table, prices, title, tables, verbose))
    sections += _problem_sections(runs)
    if next_steps:
        sections += _next_section(runs)
    return View(
        "Results", tuple(sections), data(trained, prices), above=(NOT_VERIFIED,), notes=price_notes
    )


def with_single_title(view: View) -> View:
    """Move the title and the notice of a report's only table to the report.

    The table must be the first section.
    """
    tables = [section for section in view.sections if section.kind is SectionKind.RESULTS]
    if len(tables) != 1 or view.sections[0] is not tables[0]:
        return view
    first, *further = view.sections
    above = " ".join((*first.above, *view.above))
    sections = (replace(first, title="", above=()), *further)
    return replace(view, title=f"{view.title}: {first.title}", sections=sections, above=(above,))


def data(results: Sequence[Result], prices: Prices | None = None) -> DataTable:
    """Return a table with a row for each result.

    A row contains all columns of `Result`, the speedup over the baseline of the series, and the
    cost.
    """
    over = speedups(results)
    names = [item.name for item in fields(Result) if item.name not in HIDDEN]
    rows = []
    for result in results:
        speedup = over.get(result.key)
        row = {name: getattr(result, name) for name in names}
        row |= {
            "speedup": None if speedup is None else speedup.value,
            "throughput": None if speedup is None else speedup.throughput,
            "efficiency": None if speedup is None else speedup.efficiency,
            "setup_factor": None if speedup is None else speedup.setup,
            "baseline_devices": None if speedup is None else speedup.before.devices,
            "baseline_nodes": None if speedup is None else speedup.before.nodes or 1,
            "cost": None if prices is None else prices.cost(result),
        }
        rows.append(row)
    return DataTable.from_rows(rows)


def _problem_sections(runs: Sequence[Run]) -> Iterator[Section]:
    """Yield sections on failed, unfinished, and copied runs, and on unreadable lines."""
    failed = [run for run in runs if not (run.succeeded or run.running or run.copy_of)]
    running = [run for run in runs if run.running]
    for title, kind, listed in (
        (FAILED, SectionKind.FAILED_RUNS, failed), (NOT_ENDED, SectionKind.OTHER, running)
    ):  # fmt: skip
        if listed:
            table = DataTable.from_rows(
                {"run": run.run, "status": run.status, "reason": run.reason} for run in listed
            )
            of = tuple((run,) for run in listed)
            yield Section(title, table=table, below=resuming_commands(listed), of=of, kind=kind)
    copies = [run for run in runs if run.copy_of]
    if copies:
        digests = {run.path: run.record.digest for run in runs if run.record is not None}
        lines = []
        for run in copies:
            relation = (
                "a copy of" if digests[run.path] == digests[run.copy_of] else "an earlier state of"
            )
            lines.append(
                f"{relative_path_text(run.path)}: {relation} {relative_path_text(run.copy_of)}"
            )
        count = (
            "1 log is a copy and does"
            if len(copies) == 1
            else f"{len(copies)} logs are copies and do"
        )
        yield Section("Copies", (f"{count} not count.",), below=_cut(lines, _MAX_FILES))
    problems = []
    for run in runs:
        texts = (
            [clean(str(problem), 120) for problem in run.record.problems]
            if run.record is not None
            else []
        )
        if texts:
            problems.append(
                f"{relative_path_text(run.path)}: {'; '.join(_cut(texts, _MAX_PROBLEMS))}"
            )
    if problems:
        yield Section("Problems in logs", below=_cut(problems, _MAX_FILES))


def _next_section(runs: Sequence[Run]) -> Iterator[Section]:
    """Yield a section with the folder of the logs and the command for the HTML page."""
    paths = [Path(run.path).absolute() for run in runs if run.path and run.round == OURS]
    if not paths:
        return
    folder = relative_path_text(
        os.path.commonpath([path.parents[1] if len(path.parents) > 1 else path for path in paths])
    )
    if any(run.succeeded for run in runs):
        command = f"suite report {shlex.quote(folder)} --html report.html"
        yield Section("Next", (f"Logs: {folder}",), commands=(command,))


def _cut(texts: Sequence[str], most: int) -> tuple[str, ...]:
    more = (f"and {len(texts) - most} more",) if len(texts) > most else ()
    return (*texts[:most], *more)
