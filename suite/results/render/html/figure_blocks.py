"""Build the page blocks that contain the figures of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from suite.results.columns import Result, Run
from suite.results.predict.predictions import PredictionRequest, predictions
from suite.results.predict.systems import measured_links
from suite.results.price import Prices
from suite.results.render.html import charts, scaling_charts
from suite.results.render.html.curve_charts import table_charts
from suite.results.render.html.page_blocks import (
    Block,
    make_part,
    section_blocks,
    speedup_block,
    with_content,
)
from suite.results.render.html.page_rows import PageRows
from suite.results.render.html.study_charts import all_reduce_charts, study_charts
from suite.results.views import study_view
from suite.results.views.scaling_view import scaling_view
from suite.results.views.section import Section

MAX_DRAWN_TABLES = 20
"""Maximum number of tables with figures. For each table, the figures take about 1 s to draw and
100 kB of the page.
"""

_BAND_SENTENCE = (
    "A band is the range of several runs. If there are many series, point at a name or a curve to"
    " show its band."
)


def report_figure_blocks(
    rows: PageRows,
    results: Sequence[Result],
    published: Sequence[Result],
    tables: Sequence[Sequence[Result]],
    looks: charts.Looks,
    prices: Prices | None,
) -> list[Block]:
    """Return a block of figures for each question that a report answers.

    The questions are how fast the training is, why, what quality it reaches, and what it costs.
    """
    drawn = [table_charts(table, looks) for table in tables[:MAX_DRAWN_TABLES]]
    quality = [chart for of_table in drawn for chart in of_table.quality]
    rates = [chart for of_table in drawn for chart in of_table.rates]
    costs = [] if prices is None else scaling_charts.cost_charts(results, prices, looks)
    about_quality = ("A dashed horizontal line is the target quality.",)
    about_rates = (
        "Throughput counts the time of training steps only. Setup and evaluation are left out.",
    )
    return with_content(
        [
            _time_block(results, published, looks),
            replace(
                speedup_block(rows, results, tables),
                figures=scaling_charts.speedup_charts(results, looks),
            ),
            Block(
                "Quality during training",
                "quality",
                _with_band_sentence(about_quality, quality),
                figures=quality,
            ),
            Block("Cost of a result", "cost", ("Lower is cheaper.",), figures=costs),
            Block(
                "Throughput and machine load",
                "throughput",
                _with_band_sentence(about_rates, rates),
                figures=rates,
            ),
        ]
    )


def _time_block(
    results: Sequence[Result], published: Sequence[Result], looks: charts.Looks
) -> Block:
    """Return figures of times to target over devices, and of the times' components."""
    times = scaling_charts.scaling_charts(results, published, looks)
    parts = scaling_charts.parts_charts(results, looks)
    sentences = []
    if times:
        sentences.append(
            "Lower is faster. The dotted line is ideal scaling: twice as many devices take half the"
            " time."
        )
        if any(result.runs_successful > 1 for result in results):
            sentences.append("A thin bar reaches from the fastest to the slowest run.")
        if published:
            sentences.append("Dashed lines are published results.")
    if parts:
        sentences.append(
            "Bars divide the mean time to target into activities. Setup is the time before the"
            " first epoch, such as building the model and loading the data. Other is the remaining"
            " time, such as checkpoints and interruptions."
        )
    return Block("Time to target", "time-to-target", sentences, figures=[*times, *parts])


def _with_band_sentence(sentences: Sequence[str], drawn: Iterable[charts.Chart]) -> tuple[str, ...]:
    """Append an explanation of bands to the sentences if any chart has bands."""
    has_bands = any(point.low is not None for chart in drawn for _, _, point in chart.marks)
    return (*sentences, _BAND_SENTENCE) if has_bands else tuple(sentences)


def prediction_blocks(
    rows: PageRows,
    results: list[Result],
    trained: list[Result],
    predicted: Sequence[int],
    prices: Prices | None,
) -> list[Block]:
    """Return a block for each group of results for which times can be predicted.

    The predictions are for larger numbers of devices than were measured.

    Args:
        rows: Runs and results on the page.
        results: All results. All-reduce measurements among the results provide the link speeds of
            the machines.
        trained: The results of training runs.
        predicted: Numbers of devices. If empty, no prediction is made.
        prices: Prices of devices.
    """
    if not predicted:
        return []
    links = tuple(measured_links(results))
    found = predictions(trained, PredictionRequest(tuple(predicted), prices=prices, links=links))
    blocks = []
    for section, prediction in zip(scaling_view(found).sections, found, strict=True):
        figures = scaling_charts.prediction_charts(prediction)
        title, numbers = f"Prediction: {section.title}", rows.numbers(prediction.results)
        blocks.append(
            Block(
                title,
                "prediction",
                parts=[make_part(rows, section)],
                figures=figures,
                numbers=numbers,
            )
        )
    return blocks


def report_section_blocks(
    rows: PageRows,
    sections: Sequence[Section],
    runs: Sequence[Run],
    results: list[Result],
    looks: charts.Looks,
) -> list[Block]:
    """Convert the sections of a report to blocks.

    The blocks include the figures of studies and of all-reduce measurements.
    """
    charts_of_studies = [study_charts(found, looks) for found in study_view.studies(runs)]
    return section_blocks(rows, sections, charts_of_studies, all_reduce_charts(results))
