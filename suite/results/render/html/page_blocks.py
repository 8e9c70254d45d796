"""Blocks of the page: sections, tables, and figures, each with a heading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from suite.results.columns import Columns, Result
from suite.results.render.html import charts
from suite.results.render.html.page_rows import PageRows
from suite.results.render.text_table import Table, text_table
from suite.results.views import report_tables
from suite.results.views.section import Section, SectionKind
from suite.results.views.tables_view import pairs_section

MAX_PAIRS = 60
"""Maximum number of rows in a table of speedups."""

_MAX_ROWS = 2_000
"""Maximum number of rows in a table, except tables of speedups."""


@dataclass(frozen=True)
class Part:
    """Sentences and a table in the format that the template needs."""

    above: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    """Labeled lines, each as a pair (label, text)."""
    pieces: Sequence[tuple[str, str]] = ()
    """Lines, each as a pair (text, numbers of the results that the text is about).

    A line without numbers is about all results.
    """
    table: Table | None = None
    row_numbers: Sequence[str] = ()
    """Numbers of the runs or results in each row of the table."""
    files: Sequence[tuple[str, str] | None] = ()
    """Link text and link target for each row of the table. Empty if no row has a link."""
    footnote_numbers: Sequence[str] = ()
    """Numbers of the runs or results to which each footnote applies."""
    commands: Sequence[str] = ()
    below: Sequence[str] = ()


@dataclass
class Block:
    """A section of the page with a heading."""

    title: str
    anchor: str
    """Prefix of the HTML element's id. If several blocks have the same prefix, a number is
    appended.
    """
    explanation: Sequence[str] = ()
    """Sentences that explain how to read the block."""
    parts: list[Part] = field(default_factory=list)
    figures: Sequence[charts.Chart] = ()
    numbers: str = ""
    """Numbers of the results that the whole block is about.

    If empty, the page's filters never hide the block.
    """
    kind: SectionKind = SectionKind.OTHER


_ANCHORS: Mapping[SectionKind, str] = {
    SectionKind.RESULTS: "results",
    SectionKind.STUDY: "study",
    SectionKind.ALL_REDUCE: "all-reduce",
    SectionKind.FAILED_RUNS: "failed-runs",
}


def section_blocks(
    rows: PageRows,
    sections: Iterable[Section],
    charts_of_studies: Sequence[Sequence[charts.Chart]] = (),
    charts_of_all_reduces: Sequence[charts.Chart] = (),
) -> list[Block]:
    """Convert sections to blocks.

    A section without a title is appended to the previous block.

    Args:
        rows: Runs and results on the page.
        sections: Sections of a view.
        charts_of_studies: Figures of each section of kind STUDY, in order.
        charts_of_all_reduces: Figures of the section of kind ALL_REDUCE.
    """
    remaining_studies = iter(charts_of_studies)
    blocks: list[Block] = []
    for section in sections:
        if not section.title and blocks:
            blocks[-1].parts.append(make_part(rows, section))
            continue
        block = Block(
            section.title,
            _ANCHORS.get(section.kind, "part"),
            parts=[make_part(rows, section)],
            kind=section.kind,
        )
        if section.kind is SectionKind.STUDY:
            block.figures = next(remaining_studies, ())
        elif section.kind is SectionKind.ALL_REDUCE:
            block.figures = charts_of_all_reduces
        blocks.append(block)
    return blocks


def with_content(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks that contain a table or a figure."""
    return [block for block in blocks if block.parts or block.figures]


def speedup_block(
    rows: PageRows, results: Sequence[Result], tables: Sequence[Sequence[Result]]
) -> Block:
    """Return a block with the speedups between all device counts, and their factors.

    Tables with a single device count are omitted.
    """
    parts = []
    columns: set[str] = set()
    for table, title in zip(tables, report_tables.titles(tables), strict=True):
        pairs = pairs_section(table, MAX_PAIRS)
        if pairs is None or pairs.table is None:
            continue
        columns.update(pairs.table.columns)
        # Sentences about a single pair of device counts would repeat the columns.
        below = pairs.below[len(pairs.table) :]
        parts.append(
            make_part(rows, replace(pairs, above=(title,) if len(tables) > 1 else (), below=below))
        )
    terms = {
        "throughput": ("Throughput", "ratio of times per epoch"),
        "efficiency": ("Efficiency", "ratio of epochs to target"),
        "setup": ("Setup", "change of the time outside of epochs"),
        "scaling_efficiency": (
            "Per device",
            "throughput divided by the ratio of devices; 1.00 is linear scaling",
        ),
        "scaling": (
            "Scaling",
            "strong: same global batch; weak: same batch per device; mixed: neither",
        ),
        "interval_low": (
            "95 % from … to",
            "confidence interval of the speedup, a bootstrap over runs",
        ),
    }
    if parts:
        parts.insert(0, Part(facts=[term for column, term in terms.items() if column in columns]))
    sentences = [
        "The speedup is the product of its factors: above 1 makes training faster, below 1 slower."
    ]
    if any(result.to_target and result.parts is None for result in results):
        sentences.append("If logs do not separate setup, it is part of the time per epoch.")
    return Block("Factors of the speedup", "speedup", sentences, parts)


def make_part(rows: PageRows, section: Section) -> Part:
    """Convert a section to the format that the template needs. The title is omitted."""
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
