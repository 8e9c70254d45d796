"""Writes the report as one HTML file: no script, no external resource, all text from logs escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from suite import __version__
from suite.results.html.charts import AnyChart
from suite.results.html.curves import table_charts
from suite.results.html.export import inline_svg, write_files
from suite.results.html.figures import draw, matplotlib_settings
from suite.results.html.labels import run_labels
from suite.results.html.runs import run_views
from suite.results.html.scaling_curves import forecast_charts, scaling_charts
from suite.results.html.sections import cards, published_table, run_counts, speedups, without_empty
from suite.results.html.study_figures import all_reduce_charts, study_charts
from suite.results.html.theme import framework_slots
from suite.results.logs.collect import Run, collect
from suite.results.predict.forecast import forecasts
from suite.results.predict.forecast_text import forecast_table, forecast_title, how_text
from suite.results.predict.links import measured_links
from suite.results.predict.points import Wanted
from suite.results.published.other_logs import with_system_details
from suite.results.report.all_reduce import TITLE as ALL_REDUCE
from suite.results.report.all_reduce import all_reduce_table, labels_text, split
from suite.results.report.overview import overview, published_overview
from suite.results.report.report import (
    FAILED_TITLE,
    NOT_ENDED_TITLE,
    NOT_VERIFIED,
    PROFILE_NOTICES,
    failures,
    not_ended,
    priced_rows,
    problems,
    split_into_tables,
    table_constants,
    table_title,
)
from suite.results.report.studies import study_table, study_texts, study_title
from suite.results.report.study_lines import StudyResult, study_results
from suite.results.report.tables import Table, results_table
from suite.results.score.groups import Row
from suite.results.score.measurement import Measurement, measurements
from suite.results.score.price import Prices
from suite.results.text import clean

MAX_DRAWN_TABLES = 20
"""Tables with figures: each takes about a second and 100 kB."""
_MAX_FAILURES = 500


@dataclass(frozen=True)
class RenderedFigure:
    """A figure as inline SVG, with its labels and caption."""

    svg: Markup
    labels: tuple[str, ...]
    caption: str


@dataclass(frozen=True)
class Section:
    """One results table with everything about its runs."""

    anchor: str
    title: str
    labels: tuple[str, ...]
    text: str
    constants: tuple[str, ...]
    results: Table
    speedups: Table | None
    figures: tuple[RenderedFigure, ...]


def write_html(
    paths: Sequence[Path],
    out: Path,
    published: Sequence[Measurement] = (),
    figures: Path | None = None,
    prices: Prices | None = None,
    predicted: Sequence[int] = (),
) -> None:
    """The report on all runs below `paths` as the new file `out`; its figures also as SVG and PNG in the folder `figures`.

    With `prices` what each result costs; with `predicted` what so many devices would bring.
    Raises ValueError, before anything is written, for a path without logs, an `out` that exists, or a folder that is not empty.
    """
    refuse_unwritable(out, figures)
    runs = with_system_details(collect(paths))
    charts: list[AnyChart] = []
    page = _page(runs, published, charts, prices, predicted)
    try:
        if figures is not None:
            figures.mkdir(parents=True, exist_ok=True)
            with matplotlib_settings():
                for chart in charts:
                    write_files(draw(chart), figures, chart.name)
        write_new(out, page)
    except OSError as error:
        raise ValueError(f"{error.filename or out} cannot be written ({error.strerror}); give another place") from error


def write_new(out: Path, page: str) -> None:
    """Write the whole file or none: half a page would look like a complete report."""
    with open(out, "x", encoding="utf-8") as stream:
        try:
            stream.write(page)
            stream.flush()
        except OSError:
            out.unlink()
            raise


def refuse_unwritable(out: Path, figures: Path | None = None) -> None:
    """Raises ValueError for a page that exists or has no folder, or a folder of figures that is not empty."""
    if out.exists() or out.is_symlink():
        raise ValueError(f"--html {out} exists already, and nothing is overwritten; give another name")
    if not out.absolute().parent.is_dir():
        raise ValueError(
            f"--html {out}: the folder {out.absolute().parent} does not exist; make it or give another place"
        )
    if figures is not None and figures.exists() and not (figures.is_dir() and not any(figures.iterdir())):
        raise ValueError(f"--figures {figures} exists already and is not an empty folder; give a new one")


def _page(
    runs: Sequence[Run],
    published: Sequence[Measurement],
    charts: list[AnyChart],
    prices: Prices | None,
    predicted: Sequence[int],
) -> str:
    """The page; all charts on it are added to `charts`."""
    every = priced_rows(runs, prices)
    slots = framework_slots(row.group.framework for row in every)
    sums, result_rows = split(every)
    ours = measurements(result_rows)
    scaling = scaling_charts(ours, published, slots)
    beside = [item for item in published if item.workload in {one.workload for one in ours}]
    charts += scaling
    with matplotlib_settings():
        first = [draw_inline(chart, f"s{index}") for index, chart in enumerate(scaling, start=1)]
        studies = [
            _study_section(result, index, charts, slots, prices)
            for index, result in enumerate(study_results(runs), start=1)
        ]
        studies += _all_reduce_sections(sums, charts, slots)
        studies += _predictions(every, predicted, charts, prices) if predicted else []
        sections = [
            _section(*one, index, charts, slots, prices)
            for index, one in enumerate(_titled(split_into_tables(result_rows)), start=1)
        ]
    shown = run_views(runs)
    lists = [("failures", FAILED_TITLE, failures(runs, 300)), ("not-ended", NOT_ENDED_TITLE, not_ended(runs, 300))]
    return page_template("page.html.j2").render(
        not_verified=NOT_VERIFIED,
        version=__version__,
        overview=run_counts(runs),
        matrices=[*overview(result_rows, prices), *published_overview(beside, prices)],
        cards=cards(result_rows, prices),
        scaling=first,
        published_table=published_table(ours, published),
        no_published_match=bool(published) and published_table(ours, published) is None,
        sections=[*studies, *sections],
        tables_without_figures=max(0, len(sections) - MAX_DRAWN_TABLES),
        run_lists=[
            (anchor, title, listed[:_MAX_FAILURES], max(0, len(listed) - _MAX_FAILURES))
            for anchor, title, listed in lists
            if listed
        ],
        problems=problems(runs),
        runs=shown,
        runs_left_out=len(runs) - len(shown),
    )


def _titled(result_tables: Sequence[list[Row]]) -> list[tuple[list[Row], str]]:
    """The tables with their titles, which are extended until they differ."""
    titles = [table_title(table) for table in result_tables]
    for name in ("device_name", "device", "batch_rule", "sample_unit"):
        values = [clean(str(getattr(table[0].group, name)), 40) for table in result_tables]
        known = dict.fromkeys(zip(titles, values, strict=True))
        repeated = {title for title in titles if sum(title == other for other, _ in known) > 1}
        word = "batch " if name == "batch_rule" else ""
        titles = [
            f"{title}, {word}{value}" if title in repeated and value else title
            for title, value in zip(titles, values, strict=True)
        ]
    return list(zip(result_tables, titles, strict=True))


def _section(
    table: list[Row],
    title: str,
    number: int,
    charts: list[AnyChart],
    slots: Mapping[str, int],
    prices: Prices | None,
) -> Section:
    drawn = table_charts(table, number, slots) if number <= MAX_DRAWN_TABLES else []
    charts += drawn
    return Section(
        anchor=f"table-{number}",
        title=title,
        labels=run_labels(table),
        text=PROFILE_NOTICES.get(table[0].group.profile, ""),
        constants=tuple(table_constants(table)),
        results=without_empty(results_table(table, prices)),
        speedups=speedups(table),
        figures=tuple(draw_inline(chart, f"t{number}-{index}") for index, chart in enumerate(drawn, start=1)),
    )


def _study_section(
    result: StudyResult, number: int, charts: list[AnyChart], slots: Mapping[str, int], prices: Prices | None
) -> Section:
    drawn = study_charts(result, number, slots)
    charts += drawn
    return Section(
        anchor=f"study-{number}",
        title=study_title(result),
        labels=(),
        text=" ".join(study_texts(result)),
        constants=(),
        results=study_table(result, prices),
        speedups=None,
        figures=tuple(draw_inline(chart, f"y{number}-{index}") for index, chart in enumerate(drawn, start=1)),
    )


def _all_reduce_sections(rows: Sequence[Row], charts: list[AnyChart], slots: Mapping[str, int]) -> list[Section]:
    """The section of all-reduces; none where nothing was timed."""
    drawn = all_reduce_charts(rows, slots)
    charts += drawn
    figures = tuple(draw_inline(chart, "a1") for chart in drawn)
    text = labels_text(rows)
    return [Section("all-reduce", ALL_REDUCE, (), text, (), all_reduce_table(rows), None, figures)] if rows else []


def _predictions(
    rows: Sequence[Row], devices: Sequence[int], charts: list[AnyChart], prices: Prices | None
) -> list[Section]:
    """A section for each forecast. Raises ValueError where none can be made."""
    wanted = Wanted(tuple(devices), prices=prices, links=tuple(measured_links(rows)))
    sections = []
    for number, one in enumerate(forecasts(measurements(rows), wanted), start=1):
        drawn = forecast_charts([one], number)
        charts += drawn
        figures = tuple(draw_inline(chart, f"p{number}-{index}") for index, chart in enumerate(drawn, start=1))
        title = f"Prediction, {forecast_title(one)}"
        sections.append(
            Section(f"prediction-{number}", title, (), how_text(one), (), forecast_table(one), None, figures)
        )
    return sections


def draw_inline(chart: AnyChart, name: str) -> RenderedFigure:
    """A chart as a figure of the page; call this within `matplotlib_settings()`."""
    return RenderedFigure(Markup(inline_svg(draw(chart), name, chart.title)), chart.labels, chart.note)


def page_template(name: str) -> jinja2.Template:
    """A template of this package that escapes everything it is given."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
