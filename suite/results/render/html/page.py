"""The page: the report as a single HTML file with interactive figures.

The page makes no request, and the template escapes every text.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from suite import __version__
from suite.launch.known import title_of
from suite.results.columns import OURS, Columns, Result, Run
from suite.results.curves import curves_of
from suite.results.data_table import DataTable
from suite.results.identity import label
from suite.results.names import short_title
from suite.results.predict.predictions import PredictionRequest, predictions
from suite.results.predict.systems import measured_links
from suite.results.price import Prices
from suite.results.ratios import MINIMUM_RUNS
from suite.results.render.document import document
from suite.results.render.html import charts, scaling, vega
from suite.results.render.html.curves import table_charts
from suite.results.render.html.page_rows import PageRows
from suite.results.render.html.run_list import MAX_RUNS, run_views
from suite.results.render.html.study_charts import all_reduce_charts, study_charts
from suite.results.render.text_table import Table, text_table
from suite.results.scores import figure, labels, results_of
from suite.results.settings_difference import settings_difference
from suite.results.targets import same_targets, target_text
from suite.results.text import clean
from suite.results.views import report, study
from suite.results.views.headlines import headlines
from suite.results.views.overview import is_reference, published_overview
from suite.results.views.repeat import next_commands, repeating_commands
from suite.results.views.report import results_section
from suite.results.views.scaling import scaling_view
from suite.results.views.section import NOT_VERIFIED, Section, SectionKind, View
from suite.results.views.tables import pairs_section

MAX_DRAWN_TABLES = 20
"""Number of tables with figures. The figures of a table take about a second and 100 kB."""
MAX_DATA_BYTES = 2 << 20
"""Largest CSV file that the page contains. Browsers refuse longer links."""
MAX_PAIRS = 60
"""Maximum number of rows of a table of speedups."""
FOLLOW_SECONDS = 10.0
"""Interval in which a page that follows runs is written and loaded again."""
_MAX_ROWS = 2_000
"""Maximum number of rows of a table."""
_MAX_NAMES = 4
"""Number of workloads or frameworks that the first sentence of the page names."""
_MAX_COMMANDS = 4
"""Number of commands that a next step lists."""
_COMPARED_SETTINGS = ("profile", "targets", "clock", "precision", "device_name", "framework", "stop", "mode", "round")
"""Settings whose differences from a published result are named in a footnote."""
_YEAR_3000_MS = 32_503_680_000_000.0


@dataclass(frozen=True)
class Part:
    """Sentences and a table, as the template shows them."""

    above: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    """Labeled lines: label and text."""
    pieces: Sequence[tuple[str, str]] = ()
    """Lines with the numbers of the results that each is about. Without numbers: about all results."""
    table: Table | None = None
    row_numbers: Sequence[str] = ()
    """Numbers of the runs or results of each row of the table."""
    files: Sequence[tuple[str, str] | None] = ()
    """Text and link for each row of the table; empty if no row has one."""
    footnote_numbers: Sequence[str] = ()
    """Numbers of the runs or results of the rows of each footnote."""
    commands: Sequence[str] = ()
    below: Sequence[str] = ()


@dataclass
class Block:
    """A part of the page with a heading."""

    title: str
    anchor: str
    """Base of the id of the element. A second block of the same base gets a number."""
    explanation: Sequence[str] = ()
    """Sentences on how to read the block."""
    parts: list[Part] = field(default_factory=list)
    figures: Sequence[charts.Chart] = ()
    numbers: str = ""
    """Numbers of the results that the whole block is about. Empty: filters do not hide the block itself."""
    kind: SectionKind = SectionKind.OTHER


_ANCHORS: Mapping[SectionKind, str] = {
    SectionKind.RESULTS: "results",
    SectionKind.STUDY: "study",
    SectionKind.ALL_REDUCE: "all-reduce",
    SectionKind.FAILED_RUNS: "failed-runs",
}


# --- writing ------------------------------------------------------------------------------------------------------------


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
    """Write the report on runs as a new page.

    Args:
        runs: The runs, failed ones included.
        out: The new file.
        published: Published results to show next to the results of the runs.
        figures: New or empty folder for the figures as SVG and PNG.
        prices: Prices of devices, for the cost of each result.
        predicted: Numbers of devices to predict times for.
        follow: True: the page shows its age and loads itself again. False: this is the final version of such a page.
        home: Folder that the page is moved to, if that is not the folder of `out`.

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
    _write(out, rows, runs, script_data, figures, **context)


def write_published_html(view: View, out: Path, ours: Sequence[Result] = ()) -> None:
    """Write a list of published results as a new page: overview, a figure for each workload, and a table of every column.

    Args:
        view: The view of `suite published list`. Its last section is the list.
        out: The new file.
        ours: Results of this suite. The reference results among them are drawn over the published results.

    Raises:
        ValueError: `out` exists.
    """
    refuse_unwritable(out)
    *overview, listed = view.sections
    results = [row for of_row in listed.of for row in of_row if isinstance(row, Result)]
    drawn = [result for result in ours if is_reference(result)]

    def matching_filters(row: Columns) -> dict[str, Sequence[str]]:
        """Return the filter values of published results that a result of this suite is shown with.

        It matches every division and submitter, and the rounds with its target, or all rounds if no round has its target.
        """
        alike = [result for result in results if _have_same_target(result, row)] or results
        return {
            "round": sorted({result.round for result in alike}),
            "division": sorted({result.division for result in results}),
            "submitter": sorted({result.submitter for result in results}),
        }

    rows = PageRows(ours, out.parent, matching_filters)
    listing = view.data.with_column("target", [target_text(result.targets, result.workload) for result in results])
    listing = listing.without("target_mask").renamed({"throughput": "rate", "runs_successful": "successful"})
    every_column = Section("All results with all columns", table=listing.without_empty(), keys=3, of=listed.of)
    points = Block(
        "Time to target by number of accelerators",
        "time-to-target",
        (
            "Each point is a result. Lower is faster.",
            "Rounds differ in targets and rules, so compare results of the same round only.",
            "Click a name above a figure to hide its points.",
        ),
        figures=scaling.workload_charts(results, ours),
    )
    tables = report.together(drawn)
    own_sections = [
        results_section(table, title=f"Results of these logs: {title}")
        for title, table in zip(report.titles(tables), tables, strict=True)
    ]
    blocks = [points, *_section_blocks(rows, own_sections)]
    blocks += _with_content([_speedup_block(rows, drawn, tables)])
    blocks += _section_blocks(rows, [*overview, every_column])
    _write(
        out,
        rows,
        [*results, *drawn],
        {"what": "results", "start": _initial_filters(results, drawn)},
        title=view.title,
        about=_published_counts(results, drawn, len(ours) - len(drawn)),
        blocks=blocks,
        download=_download(view, "suite published list"),
    )


def _published_counts(results: Sequence[Result], drawn: Sequence[Result], left_out: int) -> str:
    """Return the first sentences of a page of published results: the numbers of results, and their rounds."""
    rounds = ", ".join(sorted({result.round for result in results}))
    submitters = _count(len({result.submitter for result in results}), "submitter")
    sentences = [f"{_count(len(results), 'result')} of {submitters}, from {rounds}."]
    if drawn:
        sentences.append(f"{_count(len(drawn), 'result')} of these logs.")
    if left_out:
        sentences.append(f"Not shown: {_count(left_out, 'demo, synthetic, or CPU result')} of these logs.")
    return " ".join(sentences)


def _have_same_target(first: Columns, second: Columns) -> bool:
    """Check whether two results have the same workload, and no different targets."""
    if first.workload != second.workload:
        return False
    return same_targets(first.targets, second.targets, first.workload) is not False


def _initial_filters(results: Sequence[Result], ours: Sequence[Result]) -> dict[str, str]:
    """Return the filters that a page of published results opens with: a workload, a round, and the closed division.

    The workload is one of the results of this suite if there are any. The round is the one with the most results of the same
    target, and the latest of several.
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


def refuse_unwritable(out: Path, figures: Path | None = None) -> None:
    """Raise ValueError for a page that exists or has no folder, and for a folder of figures that is not empty."""
    if out.exists() or out.is_symlink():
        raise ValueError(f"--html {out}: the file exists and is not overwritten: choose a new name")
    folder = out.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"--html {out}: the folder {folder} does not exist: create it, or choose a folder that exists")
    if figures is not None:
        vega.refuse_full(figures)


def _write(
    out: Path,
    rows: PageRows,
    counted: Iterable[Columns],
    script_data: Mapping[str, Any],
    figures: Path | None = None,
    **context: Any,
) -> None:
    """Write the page. If that fails, no file is left: half a page would look like a complete report.

    Args:
        out: The new file.
        rows: Numbers of the runs and results on the page.
        counted: Runs or results that the page counts.
        script_data: Further data for the script.
        figures: New folder for the figures as files.
        context: Variables of the template.
    """
    drawn = [chart for block in context["blocks"] for chart in block.figures]
    data = {"figures": [_figure_data(chart, rows) for chart in drawn], **rows.data(counted), **script_data}
    page = _render(rows, data, **context)
    if figures is not None:
        vega.write_figures(drawn, figures)
    try:
        out.touch(exist_ok=False)
        try:
            out.write_text(page, encoding="utf-8")
        except OSError:
            out.unlink()
            raise
    except OSError as error:
        raise ValueError(f"{out} cannot be written ({error.strerror}): choose a folder on a different disk") from error


def _render(rows: PageRows, data: Mapping[str, Any], **context: Any) -> str:
    folder = Path(__file__).parent / "templates"
    loader, strict = jinja2.FileSystemLoader(folder), jinja2.StrictUndefined
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=strict, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["line"] = lambda text: clean(str(text), 4000)
    library = _script(vega.scripts())
    script = _script((folder / "page.js").read_text(encoding="utf-8"))
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (library, script))
    titles = {name: text.title for name, text in rows.filters.items()}
    defaults: dict[str, Any] = {
        "headlines": [],
        "notices": [],
        "failures": None,
        "runs": [],
        "runs_left_out": 0,
        "undrawn": 0,
    }
    constants = {"facets": [*titles], "titles": titles, "step": vega.STEP, "bands": charts.MAX_BANDS}
    return environment.get_template("page.html.j2").render(
        defaults | context,
        version=__version__,
        not_verified=NOT_VERIFIED,
        anchors=_anchors(context["blocks"]),
        choices=rows.choices(),
        legend=vega.look,
        logarithmic=any(figure["logarithmic"] for figure in data["figures"]),
        sources=Markup(" ".join(f"'sha256-{digest}'" for digest in digests)),
        data=Markup(_json({**constants, **data})),
        library=Markup(library),
        script=Markup(script),
    )


def _anchors(blocks: Sequence[Block]) -> list[str]:
    """Return the ids of blocks, such as `section-results` and `section-results-2`. Blocks of different kinds do not matter."""
    counts: Counter[str] = Counter()
    anchors = []
    for block in blocks:
        counts[block.anchor] += 1
        count = counts[block.anchor]
        anchors.append(f"section-{block.anchor}" + (f"-{count}" if count > 1 else ""))
    return anchors


def _json(data: Any) -> str:
    """Return JSON in which no HTML parser finds a tag."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(text: str) -> str:
    """Return a script of this suite or of a library, which may contain the end of a script element in a string."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _figure_data(chart: charts.Chart, rows: PageRows) -> dict[str, Any]:
    """Return the data of a figure for the script. Names of series are replaced by indices, which are much shorter."""
    marks = vega.marks(chart, rows.number)
    names = ["", *(style.label for style in chart.styles)]
    marks["s"] = [names.index(name) for name in marks["s"]]
    spec = vega.spec(chart, on_page=True)
    return {
        "bars": chart.kind in vega.CATEGORIES,
        "logarithmic": _has_logarithmic_axis(spec),
        "marks": marks,
        "names": names,
        "spec": spec,
        "x": chart.x_label,
        "y": chart.y_label,
    }


def _has_logarithmic_axis(spec: Any) -> bool:
    """Check whether a scale of a Vega-Lite specification, at any depth, is logarithmic."""
    if isinstance(spec, Mapping):
        return spec.get("type") == "log" or any(map(_has_logarithmic_axis, spec.values()))
    return isinstance(spec, (list, tuple)) and any(map(_has_logarithmic_axis, spec))


# --- the report ---------------------------------------------------------------------------------------------------------


def _report_context(
    runs: Sequence[Run],
    results: list[Result],
    rows: PageRows,
    published: Sequence[Result],
    prices: Prices | None,
    predicted: Sequence[int],
    home: Path,
) -> dict[str, Any]:
    """Return the variables of the template for a report. The arguments are those of `write_html`.

    Order of the page: overview and studies, figures, tables of results, problems. A single table precedes the figures.
    """
    view = report.report(runs, prices, next_steps=False)
    trained = [result for result in results if not result.all_reduces]
    workloads = {result.workload for result in trained}
    related = [result for result in published if result.workload in workloads]
    tables = report.together(trained)
    titles = report.titles(tables)
    looks = charts.looks(trained, related)
    figure_blocks = _figure_blocks(rows, trained, related, tables, looks, prices)
    if published:
        figure_blocks.append(_published_block(rows, trained, related, looks))
    if predicted:
        links = tuple(measured_links(results))
        found = predictions(trained, PredictionRequest(tuple(predicted), prices=prices, links=links))
        for section, prediction in zip(scaling_view(found).sections, found, strict=True):
            figure_blocks.append(
                Block(
                    f"Prediction: {section.title}",
                    "prediction",
                    parts=[_part(rows, section)],
                    figures=scaling.prediction_charts(prediction),
                    numbers=rows.numbers(prediction.results),
                )
            )
    figure_blocks += _section_blocks(rows, published_overview(related, prices))

    # the notice is in the header, and the speedups of an overview are in the tables
    sections = [section for section in view.sections if section.kind is not SectionKind.OVERVIEW_SPEEDUPS]
    notices = dict.fromkeys(
        text for section in sections if section.kind is SectionKind.RESULTS for text in section.above
    )
    is_single = len(tables) == 1
    shown = []
    for section in sections:
        if section.kind is SectionKind.RESULTS:
            section = replace(section, above=(), title="Results" if is_single else section.title)
        shown.append(section)
    charts_of_studies = [study_charts(found, looks) for found in study.studies(runs)]
    report_blocks = _section_blocks(rows, shown, charts_of_studies, all_reduce_charts(results))
    are_results = [block.kind is SectionKind.RESULTS for block in report_blocks]
    place = are_results.index(True) + is_single if True in are_results else len(report_blocks)
    blocks = [*report_blocks[:place], *figure_blocks, *report_blocks[place:]]
    blocks += _next_steps(rows, runs, trained)

    without_success = [run for run in runs if not (run.succeeded or run.running or run.copy_of)]
    return {
        "title": f"Training results: {titles[0]}" if is_single else "Training results",
        "about": _run_counts(runs),
        "notices": list(notices),
        "headlines": [(text, rows.numbers(of_sentence)) for text, of_sentence in headlines(trained, prices)],
        "failures": {"numbers": rows.numbers(without_success), "count": len(without_success)}
        if without_success
        else None,
        "blocks": blocks,
        "undrawn": max(0, len(tables) - MAX_DRAWN_TABLES),
        "download": _download(view, "suite report", runs),
        "runs": run_views(runs, home, rows.number),
        "runs_left_out": max(0, len(runs) - MAX_RUNS),
    }


def _section_blocks(
    rows: PageRows,
    sections: Iterable[Section],
    charts_of_studies: Sequence[Sequence[charts.Chart]] = (),
    charts_of_all_reduces: Sequence[charts.Chart] = (),
) -> list[Block]:
    """Return sections as blocks. A section without a title continues the block before it.

    Args:
        rows: Numbers of the results on the page.
        sections: Sections of a view.
        charts_of_studies: Figures of each section of kind STUDY, in order.
        charts_of_all_reduces: Figures of the section of kind ALL_REDUCE.
    """
    remaining_studies = iter(charts_of_studies)
    blocks: list[Block] = []
    for section in sections:
        if not section.title and blocks:
            blocks[-1].parts.append(_part(rows, section))
            continue
        block = Block(
            section.title, _ANCHORS.get(section.kind, "part"), parts=[_part(rows, section)], kind=section.kind
        )
        if section.kind is SectionKind.STUDY:
            block.figures = next(remaining_studies, ())
        elif section.kind is SectionKind.ALL_REDUCE:
            block.figures = charts_of_all_reduces
        blocks.append(block)
    return blocks


_BAND_SENTENCE = (
    "A band is the range of several runs. If there are many series, point at a name or a curve to show its band."
)


def _figure_blocks(
    rows: PageRows,
    results: Sequence[Result],
    published: Sequence[Result],
    tables: Sequence[Sequence[Result]],
    looks: charts.Looks,
    prices: Prices | None,
) -> list[Block]:
    """Return a block for each question that the results answer with figures: how fast, why, to which quality, at what cost."""
    drawn = [table_charts(table, looks) for table in tables[:MAX_DRAWN_TABLES]]
    quality = [chart for of_table in drawn for chart in of_table.quality]
    rates = [chart for of_table in drawn for chart in of_table.rates]
    costs = [] if prices is None else scaling.cost_charts(results, prices, looks)
    about_quality = ("A dashed horizontal line is the target quality.",)
    about_rates = ("Throughput counts the time of training steps only. Setup and evaluation are left out.",)
    return _with_content(
        [
            _time_block(results, published, looks),
            replace(_speedup_block(rows, results, tables), figures=scaling.speedup_charts(results, looks)),
            Block("Quality during training", "quality", _with_band_sentence(about_quality, quality), figures=quality),
            Block("Cost of a result", "cost", ("Lower is cheaper.",), figures=costs),
            Block("Throughput and machine load", "throughput", _with_band_sentence(about_rates, rates), figures=rates),
        ]
    )


def _with_content(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks that have a table or a figure."""
    return [block for block in blocks if block.parts or block.figures]


def _time_block(results: Sequence[Result], published: Sequence[Result], looks: charts.Looks) -> Block:
    """Return the figures of times to target over devices, and of the parts of these times."""
    times = scaling.scaling_charts(results, published, looks)
    parts = scaling.parts_charts(results, looks)
    sentences = []
    if times:
        sentences.append("Lower is faster. The dotted line is ideal scaling: twice as many devices take half the time.")
        if any(result.runs_successful > 1 for result in results):
            sentences.append("A thin bar reaches from the fastest to the slowest run.")
        if published:
            sentences.append("Dashed lines are published results.")
    if parts:
        sentences.append(
            "Bars divide the mean time to target into activities. "
            "Setup is the time before the first epoch, such as building the model and loading the data. "
            "Other is the remaining time, such as checkpoints and interruptions."
        )
    return Block("Time to target", "time-to-target", sentences, figures=[*times, *parts])


def _speedup_block(rows: PageRows, results: Sequence[Result], tables: Sequence[Sequence[Result]]) -> Block:
    """Return the speedups between all pairs of device counts with their factors, for the tables that have pairs."""
    parts = []
    columns: set[str] = set()
    for table, title in zip(tables, report.titles(tables), strict=True):
        pairs = pairs_section(table, MAX_PAIRS)
        if pairs is None or pairs.table is None:
            continue
        columns.update(pairs.table.columns)
        below = pairs.below[len(pairs.table) :]  # the sentences on single pairs repeat the columns
        parts.append(_part(rows, replace(pairs, above=(title,) if len(tables) > 1 else (), below=below)))
    terms = {
        "throughput": ("Throughput", "ratio of times per epoch"),
        "efficiency": ("Efficiency", "ratio of epochs to target"),
        "setup": ("Setup", "change of the time outside of epochs"),
        "scaling_efficiency": ("Per device", "throughput divided by the ratio of devices; 1.00 is linear scaling"),
        "scaling": ("Scaling", "strong: same global batch; weak: same batch per device; mixed: neither"),
        "interval_low": ("95 % from … to", "confidence interval of the speedup, a bootstrap over runs"),
    }
    if parts:
        parts.insert(0, Part(facts=[term for column, term in terms.items() if column in columns]))
    sentences = ["The speedup is the product of its factors: above 1 makes training faster, below 1 slower."]
    if any(result.to_target and result.parts is None for result in results):
        sentences.append("If logs do not separate setup, it is part of the time per epoch.")
    return Block("Factors of the speedup", "speedup", sentences, parts)


def _with_band_sentence(sentences: Sequence[str], drawn: Iterable[charts.Chart]) -> tuple[str, ...]:
    """Return the sentences, and how to read bands if a figure has bands."""
    has_bands = any(point.low is not None for chart in drawn for _, _, point in chart.marks)
    return (*sentences, _BAND_SENTENCE) if has_bands else tuple(sentences)


def _part(rows: PageRows, section: Section) -> Part:
    """Return a section as the template shows it, without its title."""
    table = section.table if section.table is not None and len(section.table) else None
    below = list(section.below)
    if table is None:
        shown = None
    else:
        shown = text_table(table.head(_MAX_ROWS), section.keys, same_units=True)
        if len(table) > _MAX_ROWS:
            below.append(f"and {len(table) - _MAX_ROWS:,} more rows")
    of_rows = section.of[:_MAX_ROWS]
    files = [rows.files(members[0]) if len(members) == 1 else None for members in of_rows]
    footnote_numbers: list[str] = []
    if shown is not None and of_rows:
        members_of_footnotes: list[list[Columns]] = [[] for _ in shown.footnotes]
        for members, mark in zip(of_rows, shown.marks, strict=False):
            if mark is not None:
                members_of_footnotes[mark] += members
        footnote_numbers = [rows.numbers(members) for members in members_of_footnotes]
    return Part(
        above=section.above,
        facts=() if section.pieces else section.facts,
        pieces=[(text, rows.numbers(members)) for text, members in section.pieces],
        table=shown,
        row_numbers=[rows.numbers(members) for members in of_rows],
        files=files if any(files) else (),
        footnote_numbers=footnote_numbers,
        commands=section.commands,
        below=below,
    )


def _published_block(rows: PageRows, ours: Sequence[Result], published: Sequence[Result], looks: charts.Looks) -> Block:
    """Return a block with our results and published results of the same workloads."""
    title = "Comparison with published results"
    if not published:
        missing = (
            "No requested published result is of a workload of these logs, so there is nothing to compare.",
            "Run suite published list to see the available results.",
        )
        return Block(title, "published", missing)
    explanation = (
        "A footnote lists the settings in which a result differs from the published result on the nearest number of devices.",
        "Run suite compare for ratios with confidence intervals.",
    )
    return Block(title, "published", explanation, [_part(rows, _published_section(ours, published, looks))])


def _published_section(ours: Sequence[Result], published: Sequence[Result], looks: charts.Looks) -> Section:
    """Return a table of published results and of our results, with their differences as notes."""
    columns = (
        "devices",
        "nodes",
        "seconds",
        "epochs",
        "batch_size_global",
        "samples_per_second",
        "clock",
        "device_name",
    )
    lines: list[dict[str, Any]] = []
    members: list[tuple[Columns, ...]] = []

    def add(result: Result, name: str, notes: tuple[str, ...]) -> None:
        target = target_text(result.targets, result.workload)
        figures = {column: getattr(result, column) for column in columns}
        lines.append(
            {"workload": short_title(result.workload), "result": name} | figures | {"target": target, "notes": notes}
        )
        members.append((result,))

    for workload in sorted({result.workload for result in published}):
        of_workload = [result for result in published if result.workload == workload]
        for result in of_workload:
            add(result, f"{result.round} {result.submitter} {result.system}", ())
        for result in ours:
            if result.workload == workload and figure(result) is not None:
                marks = f" ({', '.join(labels(result))})" if labels(result) else ""
                nearest = _nearest_in_size(result, of_workload)
                add(result, f"this suite{marks}: {looks[result.key].of_result.label}", _differences(result, nearest))
    return Section(table=DataTable.from_rows(lines).without_empty(("notes",)), keys=2, of=tuple(members))


def _nearest_in_size(result: Result, published: Sequence[Result]) -> Result:
    """Return the published result whose number of devices has the smallest ratio to that of a result."""
    devices = result.devices or 1
    return min(published, key=lambda candidate: abs(math.log((candidate.devices or 1) / devices)))


def _differences(result: Result, published: Result) -> tuple[str, ...]:
    """Return the settings in which a result differs from a published result, each with both values."""
    pair = (result, published)
    difference = settings_difference(pair).known().only(_COMPARED_SETTINGS)
    if same_targets(result.targets, published.targets, result.workload):
        difference = difference.without(("targets",))
    notes = []
    for name in difference.columns:
        own_value, published_value = difference.texts(name)
        notes.append(f"{label(name)} {own_value}, published: {published_value}")
    return tuple(notes)


# --- the header, the next steps, and files ------------------------------------------------------------------------------


def _run_counts(runs: Sequence[Run]) -> str:
    """Return the first sentence of the page: `10 runs of NCF with PyTorch on 2026-11-27: 9 succeeded, 1 failed.`"""
    workloads = sorted({short_title(clean(run.workload, 30)) for run in runs} - {""})
    frameworks = sorted({clean(title_of(run.framework), 30) for run in runs} - {""})
    starts = [run.start_ms for run in runs if run.start_ms and 0 < run.start_ms < _YEAR_3000_MS]
    days = [_day(ms) for ms in (min(starts), max(starts))] if starts else []
    texts = [_count(len(runs), "run")]
    if workloads:
        texts.append(f"of {_listed(workloads, 'workload')}")
    if frameworks:
        texts.append(f"with {_listed(frameworks, 'framework')}")
    if days:
        texts.append(f"on {days[0]}" if days[0] == days[1] else f"from {days[0]} to {days[1]}")
    succeeded, running = sum(run.succeeded for run in runs), sum(run.running for run in runs)
    failed = len(runs) - succeeded - running
    if succeeded == len(runs):
        return f"{' '.join(texts)}, {'successful' if succeeded == 1 else 'all successful'}."
    counts = ((succeeded, "succeeded"), (failed, "failed"), (running, "not finished"))
    return f"{' '.join(texts)}: {', '.join(f'{count:,} {word}' for count, word in counts if count)}."


def _day(milliseconds: float) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d}"


def _listed(names: Sequence[str], noun: str) -> str:
    """Return names as text, or their number if they are many: `MXNet and PyTorch`, `7 workloads`."""
    if len(names) > _MAX_NAMES:
        return _count(len(names), noun)
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _next_steps(rows: PageRows, runs: Sequence[Run], results: Sequence[Result]) -> list[Block]:
    """Return a block with commands to continue with; empty without a result of this suite."""
    measured = [result for result in results if result.round == OURS and figure(result) is not None]
    paths = [Path(run.path).absolute() for run in runs if run.path and run.round == OURS]
    if not measured or not paths:
        return []
    folder = _relative(os.path.commonpath([path.parents[1] if len(path.parents) > 1 else path for path in paths]))
    parts = []
    if any(result.to_target for result in measured):
        parts.append(_step("Show how many devices are worth their cost:", f"suite advise {shlex.quote(folder)}"))
    if len({result.devices for result in measured}) == 1:
        doubling = tuple(dict.fromkeys(command for result in measured for command in next_commands(result)))
        parts.append(_step("Measure the speedup on twice as many devices:", *doubling[:_MAX_COMMANDS]))
    few_runs = [result for result in measured if result.runs_successful < MINIMUM_RUNS]
    repeating = tuple(dict.fromkeys(command for result in few_runs for command in repeating_commands(result)))
    parts.append(_step("Repeat the runs, to measure how much they vary:", *repeating[:_MAX_COMMANDS]))
    if any(result.profile == "reference" for result in measured):
        parts.append(_step("Compare with published MLPerf results:", f"suite compare {shlex.quote(folder)} --to v0.5"))
    parts.append(
        _step("Save all figures as files:", f"suite report {shlex.quote(folder)} --html page.html --figures figures")
    )
    shown = [part for part in parts if part.commands]
    return [Block("Next steps", "next-steps", parts=shown, numbers=rows.numbers(measured))]


def _step(sentence: str, *commands: str) -> Part:
    return Part(above=(sentence,), commands=commands)


def _relative(path: str) -> str:
    """Return a path relative to the working directory if it is below it, as clean text."""
    absolute, here = Path(path).absolute(), Path.cwd()
    return clean(str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute), 400)


def _download(view: View, command: str, runs: Sequence[Run] = ()) -> dict[str, Any]:
    """Return links that contain the data of the page, so that saving the data needs no network.

    Args:
        view: View whose data is saved as CSV.
        command: Command that writes the same CSV file with `--format csv`.
        runs: Runs whose curves are saved with all of their points. Figures draw fewer points.
    """
    content, points = str(document(view, "csv")).encode(), None
    curves = curves_of(runs)
    if len(curves):
        whole = str(document(View("Curves", (), DataTable.from_frame(curves)), "csv")).encode()
        points = _link("application/gzip", gzip.compress(whole, mtime=0))
    link = _link("text/csv;charset=utf-8", content)
    return {"link": link, "points": points, "bytes": len(content), "command": command}


def _link(kind: str, content: bytes) -> Markup | None:
    """Return a link that contains a file; None if it would be too long."""
    link = Markup(f"data:{kind};base64,{base64.b64encode(content).decode()}")
    return link if len(content) <= MAX_DATA_BYTES else None
