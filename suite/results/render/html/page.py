"""Writes results as one HTML file: the sections of a view with figures. No script, no external resource, all text escaped."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from suite import __version__
from suite.results.columns import rows
from suite.results.identity import Row, differences, label, value_text
from suite.results.predict.systems import measured_links
from suite.results.price import Prices
from suite.results.ratios import pairs
from suite.results.render.document import document
from suite.results.render.html import plots
from suite.results.render.html.curves import table_charts
from suite.results.render.html.figures import draw, inline_svg, matplotlib_settings, refuse_full, write_figures
from suite.results.render.html.runs import MAX_RUNS, run_views
from suite.results.render.html.scaling import forecast_charts, scaling_charts, workload_charts
from suite.results.render.html.studies import all_reduce_charts, study_charts
from suite.results.render.tables import text_table
from suite.results.scores import figure, labels, result_rows, shared_labels
from suite.results.targets import targets_text
from suite.results.text import clean
from suite.results.views import report, scaling, study
from suite.results.views.all_reduce import TITLE as ALL_REDUCE
from suite.results.views.headlines import headlines
from suite.results.views.overview import published_overview
from suite.results.views.section import NOT_VERIFIED, Section, View, frame_of, without_empty

if TYPE_CHECKING:
    import pandas as pd

MAX_DRAWN_TABLES = 20  # Tables with figures: each takes about a second and 100 kB
MAX_DATA_BYTES = 2 << 20  # Largest table that the page carries as CSV: browsers refuse longer links
MAX_PAIRS = 60  # Most rows of a table of speedups
_MAX_INTERVALS = 40  # Tables with more rows get no intervals: pairs grow with the square of the rows
_MAX_ROWS = 2_000  # Rows of one table
# Differences from a published result that are named.
_FOOTNOTES = ("profile", "targets", "clock", "precision", "device_name", "framework", "stop", "mode", "round")
_YEAR_3000_MS = 32_503_680_000_000.0
Block = dict[str, Any]  # A part of the page with a heading, for the template


def write_html(
    runs: pd.DataFrame,
    out: Path,
    published: Sequence[Row] = (),
    figures: Path | None = None,
    prices: Prices | None = None,
    predicted: Sequence[int] = (),
) -> None:
    """The report on the runs as the new file `out`; its figures also as SVG and PNG in the folder `figures`.

    `published`: results to show beside; `prices`: what each result costs; `predicted`: what so many devices would bring.
    Raises ValueError, before anything is written, for an `out` that exists, or a folder that is not empty.
    """
    refuse_unwritable(out, figures)
    context = _page(runs, published, prices, predicted)
    page = _render(**context)
    if figures is not None:
        write_figures([chart for block in context["blocks"] for chart in block["charts"]], figures)
    _write(out, page)


def write_published_html(view: View, out: Path) -> None:
    """A list of published results: the overview, a figure for each workload, every column. Raises as `write_html`."""
    refuse_unwritable(out)
    every = Section("All results with every column", table=without_empty(view.data), keys=3)
    blocks, results = _blocks([*view.sections[:-1], every], {}), list(rows(view.data))
    points = _block(Section("Time to target over accelerators"), workload_charts(results), "points")
    blocks.insert(min(1, len(blocks)), points)
    rounds, submitters = sorted({row.round for row in results}), len({row.submitter for row in results})
    about = [_count(len(results), "result"), ", ".join(rounds), _count(submitters, "submitter")]
    download = _download(view, "suite published list")
    _write(out, _render(title=view.title, about=about, blocks=blocks, download=download))


def refuse_unwritable(out: Path, figures: Path | None = None) -> None:
    """Raises ValueError for a page that exists or has no folder, or a folder of figures that is not empty."""
    if out.exists() or out.is_symlink():
        raise ValueError(f"--html {out} exists already, and nothing is overwritten; give another name")
    if not (folder := out.absolute().parent).is_dir():
        raise ValueError(f"--html {out}: the folder {folder} does not exist; make it or give another place")
    if figures is not None:
        refuse_full(figures)


def _write(out: Path, page: str) -> None:
    """The whole file or none: half a page would look like a complete report."""
    try:
        out.touch(exist_ok=False)
        try:
            out.write_text(page, encoding="utf-8")
        except OSError:
            out.unlink()
            raise
    except OSError as error:
        raise ValueError(f"{out} cannot be written ({error.strerror}); give another place") from error


def _render(**context: Any) -> str:
    """The page, which escapes everything it is given."""
    loader, strict = jinja2.FileSystemLoader(Path(__file__).parent / "templates"), jinja2.StrictUndefined
    known = jinja2.Environment(loader=loader, autoescape=True, undefined=strict, trim_blocks=True, lstrip_blocks=True)
    known.filters["line"] = lambda text: clean(str(text), 4000)
    usual = {"top": [], "cards": [], "runs": [], "runs_left_out": 0, "undrawn": 0}
    page = known.get_template("page.html.j2")
    return page.render(usual | context, version=__version__, not_verified=NOT_VERIFIED)


def _page(runs: pd.DataFrame, beside: Sequence[Row], prices: Prices | None, devices: Sequence[int]) -> dict[str, Any]:
    """What the template shows. `beside`: published results; `devices`: to predict for."""
    view, results, run_rows = report.report(runs, prices), result_rows(runs), list(rows(runs))
    trained = [row for row in results if not row.all_reduces]
    slots = plots.framework_slots(row.framework for row in results)
    theirs = [row for row in beside if row.workload in {one.workload for one in trained}]
    tables = dict(zip(report.titles(listed := report.together(trained)), listed, strict=True))
    curves, over_devices = scaling_charts(trained, theirs, slots), Section("Time to target over devices")
    blocks = [_block(over_devices, curves, "scaling")] if curves else []
    blocks += [_block(_beside(trained, theirs), (), "beside" if theirs else "nothing beside")] if beside else []
    if devices:
        links = tuple(measured_links(results))
        made = scaling.forecasts(trained, scaling.Wanted(tuple(devices), prices=prices, links=links))
        for at, (section, one) in enumerate(zip(scaling.view(made).sections, made, strict=True), start=1):
            blocks.append(_block(replace(section, title=f"Prediction: {section.title}"), forecast_charts(one, at)))
    drawn = enumerate(list(tables.items())[:MAX_DRAWN_TABLES], start=1)
    charts_of = {title: table_charts(table, number, slots) for number, (title, table) in drawn}
    studied = zip(study.sections(runs), study.studies(runs), strict=True)
    charts_of |= {part.title: study_charts(one, at, slots) for at, (part, one) in enumerate(studied, start=1)}
    charts_of[ALL_REDUCE] = all_reduce_charts(results, slots)
    top: list[Block] = []
    for block in _blocks(view.sections, charts_of):
        block["speedups"] = _speedups(tables.get(block["title"], ()))
        (top if block["title"].startswith("Overview") else blocks).append(block)
    return {
        "title": "Training results",
        "about": _run_counts(run_rows),
        "top": [*top, *_blocks(published_overview(theirs, prices), {})],
        "cards": headlines(trained, prices),
        "blocks": blocks,
        "undrawn": max(0, len(tables) - MAX_DRAWN_TABLES),
        "download": _download(view, "suite report"),
        "runs": run_views(run_rows),
        "runs_left_out": max(0, len(run_rows) - MAX_RUNS),
    }


def _blocks(sections: Sequence[Section], charts_of: Mapping[str, Sequence[plots.Chart]]) -> list[Block]:
    """The sections as blocks of the page; those without a title go on with the one before."""
    made: list[Block] = []
    for section in sections:
        if section.title or not made:
            made.append(_block(section, charts_of.get(section.title, ())))
        else:
            made[-1]["parts"].append(_part(section))
    return made


def _block(section: Section, charts: Sequence[plots.Chart] = (), about: str = "") -> Block:
    """A section with a heading and figures, to which further ones without may be added; `about`: its words in the template."""
    with matplotlib_settings():
        drawn = [(Markup(inline_svg(draw(one, on_page=True), one.name, one.title)), one.note) for one in charts]
    figures = [{"svg": svg, "caption": note} for svg, note in drawn]
    shown = {"title": section.title, "about": about, "parts": [_part(section)], "figures": figures}
    return shown | {"charts": charts, "speedups": None}


def _part(section: Section) -> dict[str, Any]:
    table = section.table if section.table is not None and len(section.table) else None
    more = 0 if table is None else max(0, len(table) - _MAX_ROWS)
    return {
        "above": section.above,
        "table": None if table is None else text_table(table.head(_MAX_ROWS), section.keys),
        "commands": section.commands,
        "below": (*section.below, *([f"and {more} more rows"] if more else [])),
    }


def _speedups(table: Sequence[Row]) -> dict[str, Any] | None:
    """The ratio of every pair of device counts within a series; None if there is none."""
    known = [pair for pair in pairs(table, intervals=len(table) <= _MAX_INTERVALS) if pair.value is not None]
    if not known:
        return None
    lines, names = list[dict[str, Any]](), plots.result_names([pair.before for pair in known])
    shared = shared_labels(table)
    for name, pair in zip(names[:MAX_PAIRS], known, strict=False):
        row: dict[str, Any] = {"series": name, "devices": pair.places}
        figures = {"speedup": pair.total, "throughput": pair.throughput, "efficiency": pair.efficiency}
        for (column, value), interval in zip(figures.items(), pair.intervals, strict=True):
            ends = (None, None) if interval is None else (interval.low, interval.high)
            row |= {column: value, f"{column}_low": ends[0], f"{column}_high": ends[1]}
        row |= {"of_linear_share": pair.scaling_efficiency, "scaling": pair.scaling, "in words": pair.words}
        own = [text for text in labels(pair.after) if text not in shared]
        why = f"no interval: {pair.no_interval}" if pair.no_interval else ""
        lines.append({**row, "notes": (why, *pair.flags, *own)})
    more = (f"and {len(known) - MAX_PAIRS} more pairs",) if len(known) > MAX_PAIRS else ()
    return _part(Section("Speedups decomposed", table=without_empty(frame_of(lines), ("devices",)), below=more))


def _beside(ours: Sequence[Row], theirs: Sequence[Row]) -> Section:
    """Our results and published ones of the same workloads, with the differences from the nearest number of devices."""
    listed = list[tuple[Row, str, tuple[str, ...]]]()
    for workload in sorted({row.workload for row in theirs}):
        published = [row for row in theirs if row.workload == workload]
        mine = [row for row in ours if row.workload == workload and figure(row) is not None]
        listed += [(row, f"{row.round} {row.submitter} {row.system}", ()) for row in published]
        for row, name in zip(mine, plots.result_names(mine), strict=True):
            nearest = min(published, key=lambda one: abs(math.log((one.devices or 1) / (row.devices or 1))))
            texts = (
                f"{label(key)} {value_text(key, one, row)}, theirs {value_text(key, other, nearest)}"
                for key, (one, other) in differences(row, nearest, known=True).items()
                if key in _FOOTNOTES
            )
            listed.append((row, f"ours ({', '.join(labels(row))}): {name}", tuple(texts)))
    names = ("devices", "nodes", "seconds", "epochs", "batch_size_global", "samples_per_second", "clock", "device_name")
    lines = (
        {"workload": row.workload, "result": whose, **{name: getattr(row, name) for name in names}}
        | {"target": targets_text(row.targets, row.workload), "notes": notes}
        for row, whose, notes in listed
    )
    return Section("Published results", table=without_empty(frame_of(lines), ("notes",)), keys=2)


def _download(view: View, command: str) -> dict[str, Any]:
    """The data of the view as CSV, the bytes of the command's `--format csv`, as a link that needs no network."""
    content = str(document(view, "csv")).encode()
    link = f"data:text/csv;charset=utf-8;base64,{base64.b64encode(content).decode()}"
    return {"link": Markup(link) if len(content) <= MAX_DATA_BYTES else None, "bytes": len(content), "command": command}


def _run_counts(runs: Sequence[Row]) -> list[str]:
    """What was run: counts of runs, workloads, frameworks, and the dates."""
    succeeded, running = sum(row.succeeded for row in runs), sum(row.running for row in runs)
    kinds = {"without success": len(runs) - succeeded - running, "still running or cut off": running}
    frameworks = sorted({clean(row.framework, 30) for row in runs} - {""})
    starts = [row.start_ms for row in runs if row.start_ms and 0 < row.start_ms < _YEAR_3000_MS]
    ends = (min(starts), max(starts)) if starts else ()
    days = dict.fromkeys(f"{datetime.fromtimestamp(time / 1000, timezone.utc):%Y-%m-%d}" for time in ends)
    texts = [_count(len(runs), "run"), f"{succeeded:,} finished as asked"]
    texts += [f"{count:,} {kind}" for kind, count in kinds.items() if count]
    more = f" and {len(frameworks) - 5} more" if len(frameworks) > 5 else ""
    texts += [_count(len({row.workload for row in runs} - {""}), "workload"), ", ".join(frameworks[:5]) + more]
    return [text for text in (*texts, " to ".join(days)) if text]


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
