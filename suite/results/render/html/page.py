"""Writes results as one HTML file: the sections of a view, with interactive figures. No request leaves it; all is escaped."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from suite import __version__
from suite.results.columns import Result, Row, RunRow
from suite.results.curves import curves_of
from suite.results.data_table import DataTable
from suite.results.identity import differences, label, value_text
from suite.results.predict.systems import measured_links
from suite.results.price import Prices
from suite.results.render.document import document
from suite.results.render.html import charts, scaling, vega
from suite.results.render.html.curves import TableCharts, table_charts
from suite.results.render.html.run_list import MAX_RUNS, run_views
from suite.results.render.html.study_charts import all_reduce_charts, study_charts
from suite.results.render.html.page_rows import FACETS, Told
from suite.results.render.text_table import text_table
from suite.results.scores import figure, labels, results_of
from suite.results.targets import same_targets, targets_told
from suite.results.text import clean
from suite.results.views import report, study
from suite.results.views import scaling as predictions
from suite.results.views.headlines import headlines
from suite.results.views.overview import is_reference, published_overview
from suite.results.views.report import results_section
from suite.results.views.section import NOT_VERIFIED, Section, SectionKind, View
from suite.results.views.tables import pairs_section

MAX_DRAWN_TABLES = 20  # Tables with figures: each takes about a second and 100 kB
MAX_DATA_BYTES = 2 << 20  # Largest table that the page carries as CSV: browsers refuse longer links
MAX_PAIRS = 60  # Most rows of a table of speedups
_MAX_ROWS = 2_000  # Rows of one table
# Differences from a published result that are named.
_FOOTNOTES = ("profile", "targets", "clock", "precision", "device_name", "framework", "stop", "mode", "round")
_YEAR_3000_MS = 32_503_680_000_000.0
FOLLOW_SECONDS = 10.0  # How often a page that follows runs is written and looked at again
Block = dict[str, Any]  # A part of the page with a heading, for the template


def write_html(
    runs: Sequence[RunRow],
    out: Path,
    published: Sequence[Result] = (),
    figures: Path | None = None,
    prices: Prices | None = None,
    predicted: Sequence[int] = (),
    follow: bool | None = None,
    home: Path | None = None,
) -> None:
    """The report on the runs as the new file `out`; its figures also as SVG and PNG in the folder `figures`.

    `published`: results to show beside; `prices`: what each result costs; `predicted`: what so many devices would bring;
    `follow`: a page that says how old it is, and looks for a newer one; False: the last of those. `home`: the folder that the
    page will stand in, where that is not the one of `out`.
    Raises ValueError, before anything is written, for an `out` that exists, or a folder that is not empty.
    """
    refuse_unwritable(out, figures)
    results = results_of(runs)
    home = home or out.parent
    told = Told(results, home)
    context = _page(runs, results, told, published, prices, predicted, home)
    follows = {} if follow is None else {"written": int(time.time()), "every": FOLLOW_SECONDS if follow else 0}
    _write(out, told, runs, {"what": "runs", **follows}, figures, **context)


def write_published_html(view: View, out: Path, own: Sequence[Result] = ()) -> None:
    """A list of published results: the overview, a figure for each workload with `own` reference results over it, every
    column. Raises as `write_html`."""
    refuse_unwritable(out)
    *overview, listed = view.sections
    results = [row for of in listed.of for row in of if isinstance(row, Result)]
    drawn = [row for row in own if is_reference(row)]

    def beside(row: Row) -> dict[str, Sequence[str]]:
        """Whatever is chosen of others, but rounds of another target than a row of ours, if there are any of the same."""
        alike = [one for one in results if _same_aim(one, row)] or results
        rows_of = {"round": alike, "division": results, "submitter": results}
        return {name: sorted({getattr(one, name) for one in of}) for name, of in rows_of.items()}

    told = Told(own, out.parent, beside)
    listing = view.data.with_column("target", [targets_told(row.targets, row.workload) for row in results])
    listing = listing.without("target_mask").renamed({"throughput": "rate", "runs_successful": "successful"})
    every = Section("All results with every column", table=listing.without_empty(), keys=3, of=listed.of)
    points = _block(told, Section("Time to target over accelerators"), scaling.workload_charts(results, own), "points")
    tables = {f"Ours: {title}": table for title, table in zip(*_tables(drawn), strict=True)}
    ours = [results_section(table, title=title) for title, table in tables.items()]
    blocks = [points, *_report_blocks(told, ours, list(tables.values())), *_blocks(told, [*overview, every])]
    rounds, submitters = sorted({row.round for row in results}), len({row.submitter for row in results})
    about = [_count(len(results), "result"), ", ".join(rounds), _count(submitters, "submitter")]
    about += [f"{_count(len(drawn), 'result')} of ours"] if drawn else []
    left_out = len(own) - len(drawn)
    about += [f"{_count(left_out, 'result')} of ours not drawn: demo, synthetic or on CPUs"] if left_out else []
    more = {"what": "results", "start": _start(results, drawn)}
    download = _download(view, "suite published list")
    _write(out, told, [*results, *drawn], more, title=view.title, about=about, blocks=blocks, download=download)


def _same_aim(one: Row, other: Row) -> bool:
    return one.workload == other.workload and same_targets(one.targets, other.targets, one.workload) is not False


def _start(results: Sequence[Result], own: Sequence[Result]) -> dict[str, str]:
    """What a page of published results shows first: a workload, ours if there is one, in the round of most results to our
    target, the latest of several, closed division."""
    chosen, known = dict[str, str](), list(results)
    ours = {row.workload for row in own}
    for name in ("workload", "round"):
        values = [(row.workload in ours, any(_same_aim(row, one) for one in own), getattr(row, name)) for row in known]
        if len({getattr(row, name) for row in results}) > 1:
            *_, chosen[name] = max(values, key=lambda one: (one[:2], values.count(one), one[2]))
            known = [row for row in known if getattr(row, name) == chosen[name]]
    divisions = {row.division for row in results} if any(row.division == "closed" for row in known) else ()
    return chosen | ({"division": "closed"} if len(divisions) > 1 else {})


def _tables(results: Sequence[Result]) -> tuple[list[str], list[list[Result]]]:
    listed = report.together(results)
    return report.titles(listed), listed


def refuse_unwritable(out: Path, figures: Path | None = None) -> None:
    """Raises ValueError for a page that exists or has no folder, or a folder of figures that is not empty."""
    if out.exists() or out.is_symlink():
        raise ValueError(f"--html {out} exists already, and nothing is overwritten; give another name")
    if not (folder := out.absolute().parent).is_dir():
        raise ValueError(f"--html {out}: the folder {folder} does not exist; make it or give another place")
    if figures is not None:
        vega.refuse_full(figures)


def _write(
    out: Path,
    told: Told,
    counted: Iterable[Row],
    more: Mapping[str, Any],
    figures: Path | None = None,
    **context: Any,
) -> None:
    """The page, which escapes everything it is given; the whole file or none: half of it would look like a complete report.
    `counted`: rows that it counts; `more`: of its script's data; `figures`: the folder of its figures as files."""
    drawn = [chart for block in context["blocks"] for chart in block["charts"]]
    page = _render(told, {"figures": [_figure(one, told) for one in drawn], **told.facts(counted), **more}, **context)
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
        raise ValueError(f"{out} cannot be written ({error.strerror}); give another place") from error


def _render(told: Told, data: Mapping[str, Any], **context: Any) -> str:
    folder = Path(__file__).parent / "templates"
    loader, strict = jinja2.FileSystemLoader(folder), jinja2.StrictUndefined
    known = jinja2.Environment(loader=loader, autoescape=True, undefined=strict, trim_blocks=True, lstrip_blocks=True)
    known.filters["line"] = lambda text: clean(str(text), 4000)
    scripts = [_script(text) for text in (vega.scripts(), (folder / "page.js").read_text(encoding="utf-8"))]
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    usual: Block = {"headlines": [], "notices": [], "failures": None, "runs": [], "runs_left_out": 0, "undrawn": 0}
    return known.get_template("page.html.j2").render(
        usual | context,
        version=__version__,
        not_verified=NOT_VERIFIED,
        choices=told.choices(),
        legend=vega.look,
        logarithmic=any(figure["logarithmic"] for figure in data["figures"]),
        sources=Markup(" ".join(f"'sha256-{digest}'" for digest in digests)),
        data=Markup(_json({"facets": FACETS, "step": vega.STEP, "bands": charts.MAX_BANDS, **data})),
        library=Markup(scripts[0]),
        script=Markup(scripts[1]),
    )


def _json(data: Any) -> str:
    """JSON that no HTML parser finds a tag in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(text: str) -> str:
    """A script of ours or of a library, which may hold the end of its own element in a string."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _figure(chart: charts.Chart, told: Told) -> dict[str, Any]:
    marks, names = vega.marks(chart, told.number), ["", *(one.label for one in chart.styles)]
    marks["s"] = [names.index(name) for name in marks["s"]]  # a hundred times the same name would be most of the page
    spec, x, y = vega.spec(chart, on_page=True), chart.x_label, chart.y_label
    kinds = {"bars": chart.kind in vega.CATEGORIES, "logarithmic": '"type": "log"' in json.dumps(spec)}
    return {**kinds, "marks": marks, "names": names, "spec": spec, "x": x, "y": y}


def _page(
    run_rows: Sequence[RunRow],
    results: list[Result],
    told: Told,
    beside: Sequence[Result],
    prices: Prices | None,
    devices: Sequence[int],
    home: Path,
) -> dict[str, Any]:
    """What the template shows. `beside`: published results; `devices`: to predict for; `home`: folder of the page."""
    view = report.report(run_rows, prices, next_steps=False)
    trained = [row for row in results if not row.all_reduces]
    theirs = [row for row in beside if row.workload in {one.workload for one in trained}]
    tables, looks = dict(zip(*_tables(trained), strict=True)), charts.looks(trained, theirs)
    drawn = [table_charts(table, looks) for table in [*tables.values()][:MAX_DRAWN_TABLES]]
    blocks = _questions(told, trained, theirs, drawn, looks, prices)
    if beside:
        blocks.append(_block(told, _beside(trained, theirs, looks), (), "beside" if theirs else "nothing beside"))
    if devices:
        links = tuple(measured_links(results))
        found = predictions.forecasts(trained, predictions.Wanted(tuple(devices), prices=prices, links=links))
        for section, one in zip(predictions.view(found).sections, found, strict=True):
            titled = replace(section, title=f"Prediction: {section.title}")
            blocks.append(_block(told, titled, scaling.forecast_charts(one), of=one.results))
    blocks += _blocks(told, published_overview(theirs, prices))
    once = [section for section in view.sections if section.kind is not SectionKind.OVERVIEW_SPEEDUPS]
    notices = dict.fromkeys(text for section in once if section.kind is SectionKind.RESULTS for text in section.above)
    once = [replace(section, above=()) if section.kind is SectionKind.RESULTS else section for section in once]
    charts_of = [study_charts(result, looks) for result in study.studies(run_rows)]
    blocks += _report_blocks(told, once, list(tables.values()), charts_of, all_reduce_charts(results))
    if rates := [chart for one in drawn for chart in one.rates]:
        blocks.append(_block(told, Section("During the runs"), rates, _bands(rates)))
    failed = next((place for place, block in enumerate(blocks, 1) if block["kind"] is SectionKind.FAILED_RUNS), 0)
    without = [row for row in run_rows if not (row.succeeded or row.running or row.copy_of)]
    return {
        "title": "Training results",
        "about": _run_counts(run_rows),
        "notices": list(notices),
        "headlines": [(text, told.numbers(of)) for text, of in headlines(trained, prices)],
        "failures": {"anchor": failed, "of": told.numbers(without), "count": len(without)} if failed else None,
        "blocks": blocks,
        "undrawn": max(0, len(tables) - MAX_DRAWN_TABLES),
        "download": _download(view, "suite report", run_rows),
        "runs": run_views(run_rows, home, told.number),
        "runs_left_out": max(0, len(run_rows) - MAX_RUNS),
    }


def _report_blocks(
    told: Told,
    sections: Iterable[Section],
    tables: Sequence[Sequence[Result]],
    charts_of_studies: Sequence[Sequence[charts.Chart]] = (),
    charts_of_all_reduces: Sequence[charts.Chart] = (),
) -> list[Block]:
    """Return the sections of a report as blocks. A table of results has the decomposition of all its speedups below it.

    Args:
        told: Numbers of the results on the page.
        sections: Sections of the report.
        tables: Results of each section of kind RESULTS, in order.
        charts_of_studies: Figures of each section of kind STUDY, in order.
        charts_of_all_reduces: Figures of the section of kind ALL_REDUCE.
    """
    results, of_studies = iter(tables), iter(charts_of_studies)
    made: list[Block] = []
    for section in sections:
        drawn: Sequence[charts.Chart] = ()
        if section.kind is SectionKind.STUDY:
            drawn = next(of_studies, ())
        elif section.kind is SectionKind.ALL_REDUCE:
            drawn = charts_of_all_reduces
        if section.title or not made:
            made.append(_block(told, section, drawn))
        else:
            made[-1]["parts"].append(_part(told, section))
        if section.kind is SectionKind.RESULTS:
            pairs = pairs_section(next(results), MAX_PAIRS)
            if pairs is not None and pairs.table is not None:
                made[-1]["speedups"] = _part(told, replace(pairs, below=pairs.below[len(pairs.table) :]))
    return made


def _questions(
    told: Told,
    results: Sequence[Result],
    published: Sequence[Result],
    drawn: Sequence[TableCharts],
    looks: charts.Looks,
    prices: Prices | None,
) -> list[Block]:
    """A block of figures for each question that the results answer."""
    quality = [chart for one in drawn for chart in one.quality]
    asked = (
        ("Time to target for each number of devices", "scaling", scaling.scaling_charts(results, published, looks)),
        ("Factors of the speedup", "ratios", scaling.speedup_charts(results, looks)),
        ("Quality over time", _bands(quality), quality),
        ("Parts of the time to target", "parts", scaling.parts_charts(results, looks)),
        ("Cost of a result", "", [] if prices is None else scaling.cost_charts(results, prices, looks)),
    )
    return [_block(told, Section(title), found, about) for title, about, found in asked if found]


def _bands(drawn: Iterable[charts.Chart]) -> str:
    return "curves" if any(chart.note for chart in drawn) else ""


def _blocks(told: Told, sections: Iterable[Section]) -> list[Block]:
    """Return sections as blocks. A section without a title continues the block before it."""
    return _report_blocks(told, sections, ())


def _block(
    told: Told, section: Section, drawn: Sequence[charts.Chart] = (), about: str = "", of: Sequence[Result] = ()
) -> Block:
    """A section with a heading and figures, to which further ones without may be added; `about`: its words in the template;
    `of`: what all of it is of."""
    block: Block = {"title": section.title, "about": about, "parts": [_part(told, section)], "charts": drawn}
    block["kind"] = section.kind
    return {**block, "speedups": None, "of": told.numbers(of)}


def _part(told: Told, section: Section) -> dict[str, Any]:
    table = section.table if section.table is not None and len(section.table) else None
    more = 0 if table is None else max(0, len(table) - _MAX_ROWS)
    shown = None if table is None else text_table(table.head(_MAX_ROWS), section.keys, same_units=True)
    of = section.of[:_MAX_ROWS]
    files = [told.files(rows_of[0]) if len(rows_of) == 1 else None for rows_of in of]
    noted: list[list[Row]] = [[] for _ in (shown.footnotes if shown is not None and of else ())]
    for rows_of, mark in zip(of, shown.marks if noted and shown is not None else (), strict=False):
        if mark is not None:
            noted[mark] += rows_of
    return {
        "above": section.above,
        "facts": () if section.pieces else section.facts,
        "pieces": [(text, told.numbers(of)) for text, of in section.pieces],
        "table": shown,
        "of": [told.numbers(rows) for rows in of],
        "files": files if any(files) else (),
        "of_notes": [*map(told.numbers, noted)],
        "commands": section.commands,
        "below": (*section.below, *([f"and {more} more rows"] if more else [])),
    }


def _beside(ours: Sequence[Result], theirs: Sequence[Result], looks: charts.Looks) -> Section:
    """Our results and published ones of the same workloads, with the differences from the nearest number of devices."""
    listed = list[tuple[Result, str, tuple[str, ...]]]()
    for workload in sorted({row.workload for row in theirs}):
        published = [row for row in theirs if row.workload == workload]
        mine = [row for row in ours if row.workload == workload and figure(row) is not None]
        listed += [(row, f"{row.round} {row.submitter} {row.system}", ()) for row in published]
        for row in mine:
            nearest = min(published, key=lambda one: abs(math.log((one.devices or 1) / (row.devices or 1))))
            texts = (
                f"{label(key)} {value_text(key, one, row)}, theirs {value_text(key, other, nearest)}"
                for key, (one, other) in differences(row, nearest, known=True).items()
                if key in _FOOTNOTES and not (key == "targets" and same_targets(one, other, row.workload))
            )
            whose = f"ours ({', '.join(labels(row))})" if labels(row) else "ours"
            listed.append((row, f"{whose}: {looks[row.key].of_result.label}", tuple(texts)))
    names = ("devices", "nodes", "seconds", "epochs", "batch_size_global", "samples_per_second", "clock", "device_name")
    lines = (
        {"workload": row.workload, "result": whose, **{name: getattr(row, name) for name in names}}
        | {"target": targets_told(row.targets, row.workload), "notes": notes}
        for row, whose, notes in listed
    )
    table, of = DataTable.from_rows(lines).without_empty(("notes",)), tuple((row,) for row, _, _ in listed)
    return Section("Published results", table=table, keys=2, of=of)


def _download(view: View, command: str, runs: Sequence[RunRow] = ()) -> dict[str, Any]:
    """The data of the view as CSV, the bytes of the command's `--format csv`, as a link that needs no network; and all points
    of the curves of `runs`, packed, since figures draw fewer."""
    content, points = str(document(view, "csv")).encode(), None
    if len(lines := curves_of(runs)):
        whole = str(document(View("Curves", (), DataTable.from_frame(lines)), "csv")).encode()
        points = _link("application/gzip", gzip.compress(whole, mtime=0))
    link = _link("text/csv;charset=utf-8", content)
    return {"link": link, "points": points, "bytes": len(content), "command": command}


def _link(kind: str, content: bytes) -> Markup | None:
    """A link that holds the content; None for one that is too large."""
    link = Markup(f"data:{kind};base64,{base64.b64encode(content).decode()}")
    return link if len(content) <= MAX_DATA_BYTES else None


def _run_counts(runs: Sequence[RunRow]) -> list[str]:
    """What was run: counts of runs, workloads, frameworks, and the dates."""
    succeeded, running = sum(row.succeeded for row in runs), sum(row.running for row in runs)
    kinds = {"failed": len(runs) - succeeded - running, "not finished": running}
    frameworks = sorted({clean(row.framework, 30) for row in runs} - {""})
    starts = [row.start_ms for row in runs if row.start_ms and 0 < row.start_ms < _YEAR_3000_MS]
    ends = (min(starts), max(starts)) if starts else ()
    days = dict.fromkeys(f"{datetime.fromtimestamp(time / 1000, timezone.utc):%Y-%m-%d}" for time in ends)
    texts = [_count(len(runs), "run"), f"{succeeded:,} succeeded"]
    texts += [f"{count:,} {kind}" for kind, count in kinds.items() if count]
    more = f" and {len(frameworks) - 5} more" if len(frameworks) > 5 else ""
    texts += [_count(len({row.workload for row in runs} - {""}), "workload"), ", ".join(frameworks[:5]) + more]
    return [text for text in (*texts, " to ".join(days)) if text]


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
