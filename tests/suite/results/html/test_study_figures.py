"""Figures of studies: curves over numbers, bars over names, losses over epochs and time; nothing for what was not measured."""

import xml.etree.ElementTree as ElementTree

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from suite.results.html.charts import Bar, BarChart, Chart
from suite.results.html.export import inline_svg
from suite.results.html.figures import draw, matplotlib_settings
from suite.results.html.page import write_html
from suite.results.html.study_figures import study_charts
from suite.results.html.theme import framework_slots
from suite.results.logs.collect import collect
from suite.results.report.study_lines import study_results
from tests.suite.results.fake_logs import demo_log, write
from tests.suite.results.report.test_studies import batches, cell, plan, run

HOSTILE = "$\\frac{1$ <b>&\"' --> 字"


def charts_of(root):
    (result,) = study_results(collect([root]))
    return study_charts(result, 1, framework_slots(["pytorch"]))


def redraw(root, kind, y="samples/s"):
    batch_cells = [cell(f"b{batch}", batch=f"per_device:{batch}") for batch in (16, 64)]
    plan(
        root, [*batch_cells, cell("b9", "does not fit", "OOM", batch="per_device:4096")], figure={"y": y, "kind": kind}
    )
    return charts_of(root)


def test_curves_over_the_samples_of_a_device(tmp_path):
    batches(tmp_path, {16: 0.01, 64: 0.02})
    (chart,) = redraw(tmp_path, "lines")
    assert isinstance(chart, Chart)
    assert (chart.x_label, chart.y_label) == ("samples of a device", "samples/s")
    ((path,),) = (series.paths for series in chart.series)
    assert [x for x, _ in path] == [16, 64]
    assert [y for _, y in path] == pytest.approx([1600, 3200])
    assert chart.note == "Not drawn: per_device:4096: OOM"
    assert chart.labels == ("demo", "cpu")


def test_bars_keep_a_place_for_what_could_not_run(tmp_path):
    batches(tmp_path, {16: 0.01, 64: 0.02})
    (chart,) = redraw(tmp_path, "bars")
    assert isinstance(chart, BarChart)
    assert [(bar.label, bar.text) for bar in chart.bars] == [
        *(("per_device:16", "1,600"), ("per_device:64", "3,200"), ("per_device:4096", "OOM")),
    ]
    assert chart.bars[2].value is None


def test_labels_leave_out_what_is_alike_and_say_what_numbers_are(tmp_path):
    cells = {
        "one": {"device": "cpu", "cpu.cores_per_device": "1"},
        "two": {"device": "cpu", "cpu.cores_per_device": "all"},
    }
    for name, values in cells.items():
        run(tmp_path, name, [f"{key}={value}" for key, value in values.items()])
    plan(tmp_path, [cell(name, **values) for name, values in cells.items()], figure={"y": "samples/s", "kind": "bars"})
    (chart,) = charts_of(tmp_path)
    assert [bar.label for bar in chart.bars] == ["cores per device 1", "cores per device all"]


def test_numbers_of_devices_are_called_so(tmp_path):
    for count in (1, 2):
        run(tmp_path, f"d{count}", [f"gpus={count}"])
    plan(tmp_path, [cell(f"d{count}", gpus=str(count)) for count in (1, 2)], figure={"y": "samples/s", "kind": "bars"})
    assert [bar.label for bar in charts_of(tmp_path)[0].bars] == ["1 device", "2 devices"]


def test_what_stands_below_a_figure_is_not_cut():
    labels = ("busy machine", "cpu", "small version", "synthetic")
    with matplotlib_settings():
        figure = draw(BarChart("a", "title", labels, "y", (Bar("a", 1.0, "1", 0),)))
        (below,) = [text for text in figure.texts if "Not verified" in text.get_text()]
        assert below.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x1 <= figure.bbox.x1


def test_a_column_that_was_not_measured_gives_way_to_one_that_was(tmp_path):
    batches(tmp_path, {16: 0.01, 64: 0.02})
    (chart,) = redraw(tmp_path, "lines", y="GPU %")
    assert chart.y_label == "samples/s"


def test_each_mode_has_a_chart(tmp_path):
    for mode in ("forward", "forward_backward"):
        run(tmp_path, mode, [f"mode={mode}"], mode=mode)
    plan(tmp_path, [cell(mode, mode=mode) for mode in ("forward", "forward_backward")], figure={"kind": "bars"})
    assert [chart.title for chart in charts_of(tmp_path)] == [
        "own: samples/s, forward",
        "own: samples/s, forward backward",
    ]


def test_losses_over_epochs_and_seconds(tmp_path):
    lines = demo_log(qualities=(0.3, 0.65), study="own", study_cell=["gpus=1"])
    stats = [place for place, text in enumerate(lines) if "tracked_stats" in text]
    for place, loss in zip(stats, (2.0, 1.5), strict=True):
        lines[place] = lines[place].replace('"loss": 0.25', f'"loss": 0.25, "scores": {{"eval_loss": {loss}}}')
    write(tmp_path / "one" / "run_0" / "result_0.txt", lines)
    plan(
        tmp_path, [cell("one", gpus="1")], figure={"y": "eval loss", "kind": "curves"}, table={"columns": ["eval loss"]}
    )
    over_epochs, over_seconds = charts_of(tmp_path)
    assert over_epochs.series[0].paths == (((1.0, 2.0), (2.0, 1.5)),)
    assert [x for x, _ in over_seconds.series[0].paths[0]] == pytest.approx([2.0, 4.0], abs=0.01)
    (result,) = study_results(collect([tmp_path]))
    assert result.lines[0].row is not None


def test_nothing_is_drawn_of_a_study_without_results(tmp_path):
    run(tmp_path, "one", log=False, status={"status": "oom", "reason": "no memory"})
    plan(tmp_path, [cell("one", gpus="1")])
    assert charts_of(tmp_path) == []


@pytest.mark.parametrize("values", [(1.0, 2.0), (0.0, None), (None,), (1e14, 1e-9, 3.0)])
def test_bar_charts_are_valid_svg_whatever_their_texts(values):
    bars = tuple(Bar(f"{HOSTILE} {number}", value, HOSTILE, number) for number, value in enumerate(values))
    chart = BarChart("a", HOSTILE, ("demo",), HOSTILE, bars)
    with matplotlib_settings():
        drawn = inline_svg(draw(chart), "f", chart.title)
    assert "<b>" not in drawn
    ElementTree.fromstring(drawn)


def test_the_page_begins_with_the_study(tmp_path):
    batches(tmp_path, {16: 0.01, 64: 0.02})
    write_html([tmp_path], tmp_path / "page.html", (), tmp_path / "figures")
    page = (tmp_path / "page.html").read_text()
    assert page.index('id="study-1"') < page.index('id="table-1"')
    assert (tmp_path / "figures" / "study-01-own-samples-s.svg").exists()
